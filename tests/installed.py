"""The entries of the tiny host as somebody else's installed package, for processes that are started by a test."""

from __future__ import annotations

from pathlib import Path

GROUPS = ("catalog", "impls", "hosts", "schemes")


def install_world(world: Path, site: Path) -> None:
    """Install the entries below ``world`` into the folder ``site`` of a path, by links to them."""
    info = site / "toy_world-1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: toy-world\nVersion: 1\n")
    points = "".join(f"[pytest_frt.{group}]\ntoy = toy_world_{group}\n" for group in GROUPS)
    (info / "entry_points.txt").write_text(points)
    for group in GROUPS:
        (site / f"toy_world_{group}").symlink_to(world / group)
