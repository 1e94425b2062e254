"""The table of mandatory gates, written out once more: a row that changes is changed on purpose, in two places."""

from __future__ import annotations

from decimal import Decimal

import pytest

from pytest_frt.certs.mandatory import CELL_GROUPS, PLAN_GROUPS, RULES, GateRule, Group, groups_for

SEAM, HOST = "parity.seam", "parity.host"
# name: direction, folds, hard limit, suggested floor, worst sample, fewest samples
TABLE: dict[str, tuple[str, tuple[str, ...], str | None, str, str | None, int]] = {
    "null_control.tensors_differing": ("<=", ("max",), "0", "", None, 1),
    "null_control.repeat_identical": (">=", ("min",), "1", "", None, 1),
    "seats.certified": (">=", ("min",), "1", "", None, 1),
    f"{SEAM}.reference_ratio": ("<=", ("max",), "1", "", None, 1),
    f"{SEAM}.slope": ("<=", ("max",), None, "0.002", None, 1),
    f"{SEAM}.rel_l2": ("<=", ("max",), None, "0.05", None, 1),
    f"{SEAM}.row_rel_l2": ("<=", ("max",), None, "0.2", None, 1),
    f"{SEAM}.max_abs": ("<=", ("max",), None, "", None, 1),
    f"{SEAM}.channel": ("<=", ("max",), None, "0.002", None, 1),
    f"{SEAM}.alternative": ("<=", ("max",), "0.5", "", None, 1),
    f"{SEAM}.untold": ("<=", ("max",), None, "0", None, 1),
    f"{HOST}.cosine": (">=", ("median", "min"), None, "0.999", "0.995", 12),
    f"{HOST}.top1": (">=", ("median", "min"), None, "0.95", "0.85", 12),
    f"{HOST}.last_cosine": (">=", ("median", "min"), None, "0.99", "0.95", 12),
    f"{HOST}.kl": ("<=", ("median", "max"), None, "0.1", "0.5", 12),
    "ledger.fallbacks": ("<=", ("max",), "0", "", None, 1),
    "ledger.never_called": ("<=", ("max",), "0", "", None, 1),
    "contract.failed": ("<=", ("max",), "0", "", None, 1),
    "latency.net_win": (">=", ("frt_nw_1",), "1.02", "", None, 1),
}
ONE_OF = ((f"{HOST}.cosine",), (f"{HOST}.top1", f"{HOST}.last_cosine", f"{HOST}.kl"))
ALONE = tuple(name for name in TABLE if not name.startswith(HOST))
OF_A_PLAN = ("ledger.fallbacks", "ledger.never_called", "latency.net_win")


def row(rule: GateRule) -> tuple[str, tuple[str, ...], Decimal | None, str, Decimal | None, int]:
    return rule.op, rule.folds, rule.limit, rule.suggested, rule.worst, rule.min_n


def test_table_is_this_one() -> None:
    def number(text: str | None) -> Decimal | None:
        return None if text is None else Decimal(text)

    assert {name: row(rule) for name, rule in RULES.items()} == {
        name: (op, folds, number(limit), suggested, number(worst), fewest)
        for name, (op, folds, limit, suggested, worst, fewest) in TABLE.items()
    }
    assert all(rule.because for rule in RULES.values())


@pytest.mark.parametrize("random_weights", [False, True], ids=["trained", "random"])
@pytest.mark.parametrize(("plan", "names"), [(False, ALONE), (True, OF_A_PLAN)], ids=["cell", "plan"])
def test_host_parity_is_asked_of_trained_weights_alone(
    *, plan: bool, names: tuple[str, ...], random_weights: bool
) -> None:
    alone: tuple[Group, ...] = tuple(((name,),) for name in names)
    wanted = alone if random_weights else (*alone, ONE_OF)
    assert groups_for(plan=plan, random_weights=random_weights) == wanted
    assert (PLAN_GROUPS if plan else CELL_GROUPS) == (*alone, ONE_OF)
