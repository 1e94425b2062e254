"""Timed samples as pytest-benchmark data, for its tables, files and comparisons. Never part of a verdict.

Each timed record gives two rows, its base and its candidate, in one group; a sample is one timed region
divided by the executions in it. Every run leaves a file below ``<out>/benchmarks``, in the layout of pytest-benchmark's
own storage, and fills its session where one of its options asks for saving or comparing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

from pytest_frt.certs.files import write_atomic
from pytest_frt.contracts.record import FileDigest
from pytest_frt.errors import EvidenceError
from pytest_frt.run.evidence import Pairs, read

if TYPE_CHECKING:
    import pytest

    from pytest_frt.run.results import GateResult

FOLDER: Final = "benchmarks"
NAME: Final = "frt"
BASE, CANDIDATE = "base", "candidate"
ASKING: Final = ("benchmark_json", "benchmark_save", "benchmark_autosave", "benchmark_compare", "benchmark_histogram")
"""Options of pytest-benchmark that have use for samples; without them its table would stand in every run."""


def taken(out: Path, kept: FileDigest) -> Pairs:
    """Read the pairs that a run of this session kept.

    Raises:
        EvidenceError: they are gone, or others by now.
    """
    found = read(out / kept.name)
    if found.sha256 != kept.sha256:
        raise EvidenceError(f"{out / kept.name} has sha256 {found.sha256}, kept was {kept.sha256}", hint="run again")
    return found.pairs


def rows(pairs: Pairs) -> Iterator[Any]:
    """Yield pytest-benchmark's statistics of both arms; none for what timed nothing."""
    from pytest_benchmark import stats

    library: Any = stats
    blocks = [pair for process in pairs.timing.processes for block in process.blocks for pair in block]
    arms = {BASE: [pair.base for pair in blocks], CANDIDATE: [pair.candidate for pair in blocks]}
    for arm, samples in arms.items():
        told = SimpleNamespace(
            name=f"net_win[{pairs.subject}] {arm}",
            fullname=f"pytest_frt/suite/test_cells.py::test_net_win[{pairs.subject}]::{arm}",
            group=pairs.subject,
            param=pairs.subject,
            params={"subject": pairs.subject, "arm": arm},
            extra_info={"verdict": type(pairs.verdict).__name__, "processes": len(pairs.timing.processes)},
            cprofile_stats=None,
            has_error=False,
        )
        row = library.Metadata(told, pairs.timing.repeats, {"quick": pairs.timing.quick})
        for sample in samples:
            row.update(sample.worker_s)
        if samples:
            yield row


def feed(config: pytest.Config, out: Path, result: GateResult | None) -> None:
    """Give samples to pytest-benchmark's own session, where it is there and asked to save or compare."""
    session: Any = getattr(config, "_benchmarksession", None)
    asked = any(getattr(config.option, name, None) for name in ASKING)
    if session is not None and asked and result is not None and result.evidence is not None:
        with suppress(EvidenceError):  # told at the end, where the same file is read for ours
            session.benchmarks += rows(taken(out, result.evidence))


@cache
def _machine() -> Any:  # noqa: ANN401 (JSON values)
    """Return what pytest-benchmark says of this machine: asking the processor takes a third of a second."""
    from pytest_benchmark import plugin

    library: Any = plugin
    return library.pytest_benchmark_generate_machine_info()


def write(out: Path, results: Iterable[GateResult]) -> Path | None:
    """Write the samples of a run as the next numbered file of a pytest-benchmark storage.

    Returns:
        The file; None when nothing was timed.

    Raises:
        EvidenceError: pairs that the run kept are gone, or others by now.
        StorageFault: it cannot be written.
    """
    benchmarks = [row for one in results if one.evidence for row in rows(taken(out, one.evidence))]
    if not benchmarks:
        return None
    from pytest_benchmark import plugin, utils

    library: Any = plugin
    tools: Any = utils
    document = library.pytest_benchmark_generate_json(
        config=None,
        benchmarks=benchmarks,
        include_data=True,
        machine_info=_machine(),
        commit_info=tools.get_commit_info(),
    )
    folder = out / FOLDER / tools.get_machine_id()
    numbers = [int(file.name[:4]) for file in folder.glob("[0-9][0-9][0-9][0-9]_*.json")]
    path: Path = folder / f"{max(numbers, default=0) + 1:04}_{NAME}.json"
    write_atomic(path, tools.safe_dumps(document, ensure_ascii=True, indent=4).encode())
    return path
