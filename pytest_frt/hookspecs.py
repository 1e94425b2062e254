"""Hooks of our own: what a plugin or conftest file may put in the place of planning and judging."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import pytest

if TYPE_CHECKING:
    from pytest_frt.registry import Registry
    from pytest_frt.run.config import RunConfig
    from pytest_frt.run.plan import RecordPlan, RunPlan, UnionPlan
    from pytest_frt.run.progress import Progress
    from pytest_frt.run.results import GateResult, UnionResult


class Judge(Protocol):
    """What judges the records of a run; one per pytest process."""

    def judge(self, record: RecordPlan, gate: str) -> GateResult:
        """Judge one gate of one record.

        Raises:
            FrtError: the gate cannot be judged at all.
        """

    def union(self, plan: UnionPlan) -> UnionResult:
        """Judge one union; raises like :meth:`judge`."""

    def close(self) -> None:
        """End every worker; idempotent."""


@pytest.hookspec(firstresult=True)
def pytest_frt_plan(config: pytest.Config, settings: RunConfig, registry: Registry) -> RunPlan | None:
    """Return what the run will judge; None leaves it to the next implementation, ours being the last.

    Called in the controller and in every worker of pytest-xdist, which must all return the same.
    """


@pytest.hookspec(firstresult=True)
def pytest_frt_judge(
    config: pytest.Config, settings: RunConfig, registry: Registry, plan: RunPlan, progress: Progress
) -> Judge | None:
    """Return what judges; None leaves it to the next implementation, ours being the last.

    Called once in each process that runs items, before its first item.
    """
