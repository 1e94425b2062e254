"""What lets policies of lerobot run here: sources of a newer Python, packages that are absent, drift, their weights."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from pytest_frt.errors import CheckpointError, FrtError, MissingExtra

hooks: Any = import_module("pytest_frt.hosts._shared.import_hooks")
lerobot: Any = import_module("pytest_frt.hosts._shared.lerobot")
policy_weights: Any = import_module("pytest_frt.hosts._shared.policy_weights")
ticks: Any = import_module("pytest_frt.hosts._shared.ticks")
NEWER = '''"""Text."""
from __future__ import annotations
import math
type Number = int | float
class Box[T, U: int](dict):
    def held(self) -> T:
        return self["held"]
class Bare[T]:
    def kept(self, x: T) -> T:
        return x
def first[T](xs: list[T]) -> T:
    return xs[0]
'''


def test_newer_source_means_the_same_without_type_parameters() -> None:
    names: dict[str, Any] = {"__name__": "newer"}
    exec(compile(hooks.without_type_parameters(NEWER), "newer", "exec", dont_inherit=True), names)  # noqa: S102 (its use)
    assert names["__doc__"] == "Text."
    assert names["Number"] == int | float
    assert names["first"]([3]) == 3
    assert names["Box"][str, int](held="x").held() == "x"
    assert names["Bare"][int]().kept(5) == 5


def test_older_source_is_left_as_it_is() -> None:
    text = "import os\nx = [1][0]\ndef f(a): return a[0]\nclass C(dict): pass\n"
    assert hooks.without_type_parameters(text) == text


def test_source_that_cannot_be_rewritten_stays_an_error() -> None:
    with pytest.raises(SyntaxError):
        compile(hooks.without_type_parameters("class A[T: list[int]]:\n    pass\nclass B[\n"), "newer", "exec")


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a package that is too new, too eager, and imports what is absent."""
    folder = tmp_path / "toylib"
    for file, text in {
        "__init__.py": "",
        "policies/__init__.py": "import absent_everywhere",
        "policies/model.py": "import absent_vision.transforms.v2 as v2\nfrom absent_vision.io import decode\n"
        "from . import fresh\nclass Augment(v2.Transform): pass\n",
        "policies/fresh.py": NEWER if sys.version_info < (3, 12) else "def first(xs): return xs[0]\n",
    }.items():
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    import_module("toylib")
    with hooks.importing("toylib", opened=("toylib.policies",), unused=("absent_vision", "json")):
        yield import_module("toylib.policies.model")
    for name in [name for name in sys.modules if name.startswith("toylib")]:
        del sys.modules[name]


def test_part_is_imported_without_the_rest(library: Any) -> None:
    assert library.fresh.first([4]) == 4
    assert library.Augment.__mro__[1].__name__ == "Transform"
    assert "absent_everywhere" not in sys.modules


def test_absent_package_cannot_be_used(library: Any) -> None:
    with pytest.raises(FrtError, match=r"absent_vision\.transforms\.v2\.Transform was used, and absent_vision is not"):
        library.Augment()
    with pytest.raises(FrtError, match=r"absent_vision\.io\.decode was used"):
        library.decode("file")


def test_nothing_but_the_parts_is_left_of_an_import(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "toypart").mkdir()
    (tmp_path / "toypart" / "__init__.py").write_text("")
    (tmp_path / "toypart" / "inner.py").write_text("import absent_vision, json")
    monkeypatch.syspath_prepend(tmp_path)
    before = list(sys.meta_path)
    import_module("toypart")
    with hooks.importing("toypart", opened=(), unused=("absent_vision", "json")):
        inner = import_module("toypart.inner")
    assert sys.meta_path == before
    assert not [name for name in sys.modules if name.startswith("absent_vision")]
    assert inner.json is import_module("json")
    # A process without the hooks could not import it by name.
    assert inner.__spec__ is None
    assert sys.modules["toypart"].__spec__ is not None


@pytest.mark.parametrize("absent", ["lerobot", "draccus", "gymnasium"])
def test_absent_package_gives_the_line_that_installs_it(absent: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def require(name: str, *, install: str) -> None:
        if name == absent:
            raise MissingExtra(f"this host needs the package {name}, which is not installed", hint=install)

    monkeypatch.setattr(lerobot, "require", require)
    with pytest.raises(MissingExtra, match=f"needs the package {absent}") as caught:
        lerobot.policy_part.__wrapped__("pi05.modeling_pi05")
    assert caught.value.hint == (
        "pip install 'pytest-frt[vla]' && pip install --no-deps --ignore-requires-python lerobot==0.6.1"
    )


def test_other_release_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lerobot, "require", lambda _name, **_settings: None)
    monkeypatch.setattr(lerobot.importlib.metadata, "version", lambda _name: "0.4.4")
    with pytest.raises(MissingExtra, match=r"needs lerobot 0\.6\.1, and 0\.4\.4 is installed"):
        lerobot.policy_part.__wrapped__("pi05.modeling_pi05")


def test_mask_is_made_without_the_positions_of_the_cache() -> None:
    module = SimpleNamespace(create_causal_mask=lambda config, cache, position_ids=None: (config, cache, position_ids))
    for _ in range(2):
        lerobot.accept_cache_positions(module)
    made = module.create_causal_mask(config=1, past_key_values="kept", cache_position=3, position_ids=4)
    assert made == (1, "kept", 4)


def test_mask_that_still_takes_positions_is_left_alone() -> None:
    def create_causal_mask(config: int, cache_position: int) -> tuple[int, int]:
        return config, cache_position

    module = SimpleNamespace(create_causal_mask=create_causal_mask)
    lerobot.accept_cache_positions(module)
    assert module.create_causal_mask is create_causal_mask


def test_library_is_told_from_a_file_by_its_present_names() -> None:
    class Policy:
        def _fix_pytorch_state_dict_keys(self, tensors: dict[str, int], _config: object) -> dict[str, int]:
            return tensors

    for _ in range(2):
        lerobot.rename_stored(Policy, str.upper)
    assert Policy()._fix_pytorch_state_dict_keys({"a.b": 1}, None) == {"A.B": 1}


class Parts(nn.Module):
    """Two matrices, a kernel and vectors whose start a class draws."""

    def __init__(self) -> None:
        super().__init__()
        self.plain, self.sharp, self.patch = nn.Linear(256, 64), nn.Linear(256, 64), nn.Conv2d(3, 64, 8)
        self.norm = nn.LayerNorm(64)


def test_recipe_scales_by_all_that_is_read_and_sharpens_what_is_named() -> None:
    parts = Parts()
    policy_weights.fill(parts, 3, lambda name: name.startswith("sharp"))
    spread = {name: float(one.detach().std()) for name, one in parts.named_parameters() if name.endswith("weight")}
    assert spread["plain.weight"] == pytest.approx(256**-0.5, rel=0.05)
    assert spread["sharp.weight"] == pytest.approx(2.5 * 256**-0.5, rel=0.05)
    assert spread["patch.weight"] == pytest.approx((3 * 64) ** -0.5, rel=0.05)
    assert float(parts.norm.weight.detach().mean()) == pytest.approx(1, abs=0.1)


def test_recipe_does_not_depend_on_what_a_class_drew() -> None:
    built = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        built.append(Parts())
        policy_weights.fill(built[-1], 3, lambda _name: False)
    assert all(torch.equal(a, b) for a, b in zip(built[0].parameters(), built[1].parameters(), strict=True))


@pytest.mark.parametrize(
    ("config", "want"),
    [
        ("{", "cannot be read"),
        ('{"type": "other"}', "describes the policy 'other'"),
        ("[]", "is no JSON object"),
    ],
    ids=["no_json", "other_policy", "no_object"],
)
def test_directory_that_is_no_such_policy_is_refused(tmp_path: Path, config: str, want: str) -> None:
    save_file({"a": torch.zeros(1)}, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text(config)
    with pytest.raises(CheckpointError, match=want):
        policy_weights.check(tmp_path, "pi05")


def test_hushed_restores_what_it_silenced(capfd: pytest.CaptureFixture[str]) -> None:
    logging = import_module("logging")
    before = logging.root.manager.disable
    with policy_weights.hushed():
        print("chatter")  # noqa: T201 (what is silenced)
        logging.getLogger("lerobot").warning("more of it")
    assert logging.root.manager.disable == before
    print("heard")  # noqa: T201
    assert capfd.readouterr() == ("heard\n", "")


LAYOUT = ticks.Layout(cameras={"view": (3, 4, 4)}, tokens=8, vocabulary=16, state=2, noise=(5, 3))


def test_observations_have_their_ranges_and_their_padding() -> None:
    drawn = [one for one, _ in zip(ticks.observations(LAYOUT, 1, "cpu"), range(40), strict=False)]
    masks = torch.cat([one[ticks.MASK] for one in drawn])
    lengths = masks.sum(dim=1)
    assert torch.equal(masks, torch.arange(8)[None] < lengths[:, None])
    assert set(lengths.tolist()) == set(range(2, 9))
    views = torch.cat([one["view"] for one in drawn])
    assert 0 <= float(views.min()) < 0.01
    assert 0.99 < float(views.max()) <= 1
    states = torch.cat([one[ticks.STATE] for one in drawn])
    assert -1 <= float(states.min()) < -0.9 < 0.9 < float(states.max()) <= 1
    assert torch.cat([one[ticks.TOKENS] for one in drawn]).unique().tolist() == list(range(16))
    assert {tuple(one[ticks.NOISE].shape) for one in drawn} == {(1, 5, 3)}


class Echo(nn.Module):
    """A policy that adds one to the part of its noise that a robot uses, and writes into what it was given."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1))

    def predict_action_chunk(self, batch: dict[str, Any], *, noise: torch.Tensor) -> torch.Tensor:
        batch["queue"] = noise
        return noise[..., :2] + 1


def test_score_is_the_way_from_the_noise_to_the_actions() -> None:
    samples = [next(ticks.observations(LAYOUT, seed, "cpu")) for seed in (1, 2)]
    scores = ticks.score(Echo(), samples, SimpleNamespace(score_positions=3))
    assert [one.shape for one in scores] == [(3, 2)] * 2
    assert all(torch.allclose(one, torch.ones(3, 2), atol=1e-6) for one in scores)


def test_policy_that_keeps_something_in_its_batch_leaves_the_state_as_it_was() -> None:
    state = ticks.prepare(Echo(), [next(ticks.observations(LAYOUT, 1, "cpu"))])
    ticks.run(Echo(), state)
    assert sorted(state.batch) == sorted(["view", ticks.TOKENS, ticks.MASK, ticks.STATE])


def test_fresh_tick_keeps_only_the_length_of_the_instruction() -> None:
    state = ticks.prepare(Echo(), [next(ticks.observations(LAYOUT, 1, "cpu"))])
    other = ticks.fresh(state, 16, 9)
    same = {name for name, one in state.batch.items() if torch.equal(one, other.batch[name])}
    assert same == {ticks.MASK}
    assert not torch.equal(state.noise, other.noise)
    assert torch.equal(other.noise, ticks.fresh(state, 16, 9).noise)
