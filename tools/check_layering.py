"""Fail when an import points the wrong way, or when the core names an entry of catalog, impls or hosts.

The table states what each part may import directly; what those may import is open to it too.
``contracts`` and ``errors`` are open to every part of the core. What is not listed is forbidden.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from import_scan import MAPPED_ROOTS, PACKAGE, Import, imports, literals
from repo_tree import ROOT, files

EVERYTHING: Final = frozenset({"*"})
TABLE: Final[Mapping[str, frozenset[str]]] = {
    "catalog": frozenset(),
    "csrc": frozenset(),
    "impls": frozenset({"sdk"}),
    "hosts": frozenset({"sdk"}),
    "errors": frozenset(),
    "cell": frozenset({"errors"}),
    "contracts": frozenset({"errors", "cell"}),
    "sdk": frozenset({"contracts"}),
    "schemas": frozenset(),
    "spec": frozenset({"contracts", "schemas"}),
    "rules": frozenset({"contracts"}),
    "devices": frozenset({"spec"}),
    "schemes": frozenset({"contracts"}),
    "registry": frozenset({"spec"}),
    "seat": frozenset({"spec"}),
    "measure": frozenset({"spec"}),
    "gates": frozenset({"measure", "rules"}),
    "certs": frozenset({"spec", "rules"}),
    "runtime": frozenset({"certs", "seat", "registry", "devices"}),
    "lab": frozenset({"seat", "registry", "measure", "schemes", "devices"}),
    "expand": frozenset({"registry", "devices"}),
    "run": frozenset({"expand", "lab", "gates", "certs", "runtime"}),
    "waivers": frozenset({"registry", "rules"}),
    "report": frozenset({"run", "waivers"}),
    "door": frozenset({"lab", "rules"}),
    "__init__": frozenset({"runtime", "sdk", "door"}),
    "hookspecs": EVERYTHING,
    "options": EVERYTHING,
    "fixtures": EVERYTHING,
    "markers": EVERYTHING,
    "testing": EVERYTHING,
    "plugin": EVERYTHING,
    "settings": EVERYTHING,
    "selection": EVERYTHING,
    "session": EVERYTHING,
    "suite": EVERYTHING,
    "cli": EVERYTHING,
}
OPEN_TO_CORE: Final = frozenset({"contracts"})
BELOW_CONTRACTS: Final = MAPPED_ROOTS | {"errors", "cell"}
MAY_IMPORT_PYTEST: Final = frozenset(
    {
        "hookspecs",
        "options",
        "settings",
        "fixtures",
        "markers",
        "plugin",
        "session",
        "suite",
        "testing",
        "cli",
        "report",
    }
)
WITHOUT_TORCH: Final = frozenset({"cell", "certs", "errors", "rules"})  # the auditor runs these with no torch at hand
LIGHT_TO_IMPORT: Final = WITHOUT_TORCH | {
    "__init__", "cli", "contracts", "hookspecs", "markers", "options", "plugin", "registry", "report", "sdk", "spec"
}  # fmt: skip
HEAVY: Final = frozenset({"kernels", "matplotlib", "torch", "transformers"})
ENTRY_ROOTS: Final = MAPPED_ROOTS - {"csrc"}


def reachable(part: str) -> frozenset[str]:
    """Return every part that ``part`` may import: its row of the table and, inside the core, theirs."""
    if TABLE[part] == EVERYTHING:
        return frozenset(TABLE) - MAPPED_ROOTS
    if part in MAPPED_ROOTS:
        return TABLE[part]
    seen = set(TABLE[part]) | (OPEN_TO_CORE - {part} if part not in BELOW_CONTRACTS else set())
    todo = list(seen)
    while todo:
        new = TABLE[todo.pop()] - seen
        seen |= new
        todo += new
    return frozenset(seen)


def part_of(path: Path, root: Path) -> str:
    """Return the row of the table that ``path`` falls under."""
    names = path.relative_to(root).with_suffix("").parts
    return names[0] if names[0] in MAPPED_ROOTS else names[1]


def inner_faults(part: str, used: Import) -> Iterator[str]:
    """Yield why ``part`` may not make this import of one of our own modules."""
    target = used.part if used.part in TABLE else "__init__"
    if used.root in MAPPED_ROOTS:
        yield f"the bare name {used.root} exists in a clone only"
    elif target not in reachable(part) | {part}:
        yield f"{part} may import {', '.join(sorted(reachable(part))) or 'nothing of ours'}"


def outer_faults(part: str, used: Import) -> Iterator[str]:
    """Yield why ``part`` may not make this import of somebody else's module."""
    if part == "catalog" and used.root != "torch" and used.root not in sys.stdlib_module_names:
        yield "catalog may import torch and nothing else"
    if part in MAPPED_ROOTS and used.root == "kernels":
        yield "only the lab and the runtime load kernels"
    if part not in MAY_IMPORT_PYTEST and used.root in {"pytest", "_pytest"}:
        yield f"{part} runs without pytest"
    if part in WITHOUT_TORCH and used.root == "torch":
        yield f"{part} runs without torch"
    elif part in LIGHT_TO_IMPORT and used.root in HEAVY and used.at_import:
        yield f"{part} is light to import: import {used.root} where it is used"


def entry_names(root: Path) -> frozenset[str]:
    """Return the names of all structures, impls and hosts below ``root``, less those that schemes and devices share."""
    names = {path.name for folder in ("catalog", "hosts") for path in (root / folder).glob("*/")}
    names |= {path.stem for path in (root / "impls").glob("*/*.py")}
    shared = {path.stem for folder in ("schemes", "devices") for path in (root / PACKAGE / folder).glob("*.*")}
    return frozenset(name for name in names - shared if not name.startswith("_"))


def named_entries(path: Path, entries: frozenset[str]) -> Iterator[tuple[int, str]]:
    """Yield line and name of every entry that a string of ``path`` names; docstrings may give examples."""
    for line, text in literals(path):
        for word in sorted(entries.intersection(re.findall(r"\w+", text))):
            yield line, word


def check_file(path: Path, root: Path, entries: frozenset[str]) -> Iterator[str]:
    """Yield every violation of one Python file as ``path:line imports target: why``."""
    where, part = path.relative_to(root), part_of(path, root)
    if part not in TABLE:
        yield f"{where} is in no row of the import table"
        return
    for used in imports(path, root):
        ours = used.root in {PACKAGE, *MAPPED_ROOTS}
        for fault in inner_faults(part, used) if ours else outer_faults(part, used):
            yield f"{where}:{used.line} imports {used.target}: {fault}"
    if part not in MAPPED_ROOTS:
        for line, word in named_entries(path, entries):
            yield f"{where}:{line} names the entry {word}: core looks entries up"


def check(root: Path) -> list[str]:
    """Return every violation below ``root``."""
    entries = entry_names(root)
    shipped = (path for path in files(root, (PACKAGE, *sorted(MAPPED_ROOTS))) if path.suffix == ".py")
    return [message for path in shipped for message in check_file(path, root, entries)]


def main() -> int:
    """Print every violation and return the exit status."""
    found = check(ROOT)
    for message in found:
        print(message, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
