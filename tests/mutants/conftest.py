"""Counts what became of the mutants and says so in one line at the end of the run."""

from __future__ import annotations

import mutant_table
import pytest
import torch

ROWS = pytest.StashKey[list[mutant_table.Row]]()


@pytest.fixture(autouse=True)
def _one_thread(_own_threads: None) -> None:
    torch.set_num_threads(1)  # seats are small: a second thread only waits


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print how many mutants were refused, of those that ran."""
    reports = [
        report for group in terminalreporter.stats.values() for report in group if hasattr(report, "user_properties")
    ]
    if lines := mutant_table.summary(mutant_table.rows(reports)):
        for line in lines:
            terminalreporter.write_line(line)
