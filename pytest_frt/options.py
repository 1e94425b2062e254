"""The options: declared for the command line, ``[tool.pytest_frt]`` and ini files; ``settings`` gives them values.

Every pytest run on a machine imports this module: it is made of what is cheap to import.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pytest_frt.errors import UsageFault

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    import pytest

DIMENSIONS: Final = ("host", "structure", "impl", "scheme", "device", "phase", "record")
ALSO: Final = {
    "host": ", 'all', or a folder with host.yaml",
    "scheme": ", or 'auto': fp8_static where the device multiplies FP8, else none",
}
TABLE: Final = "pytest_frt"


class Option(NamedTuple):
    """One setting.

    Attributes:
        name: As in ``--frt-<name>``; ``[tool.pytest_frt]`` has underscores, ini files also the prefix ``frt_``.
        help: One line.
        kind: ``text``, ``path``, ``int``, ``number``, ``flag``, ``switch`` (a flag with ``--frt-no-<name>`` beside it)
            or ``list`` (repeatable, commas).
        default: Value when nothing says otherwise.
        choices: Allowed values; empty for any.
        metavar: What help calls the value; empty for ``GLOB`` or ``VALUE``.
        const: Value when the option is given without one; empty where it needs one.
    """

    name: str
    help: str
    kind: str = "text"
    default: str | int | bool | tuple[str, ...] | None = None
    choices: tuple[str, ...] = ()
    metavar: str = ""
    const: str = ""

    @property
    def dest(self) -> str:
        """Attribute name on pytest's option namespace, and key in ini files."""
        return f"frt_{self.key}"

    @property
    def key(self) -> str:
        """Key in ``[tool.pytest_frt]``."""
        return self.name.replace("-", "_")


def _dimension_options() -> Iterator[Option]:
    for name in DIMENSIONS:
        also = ALSO.get(name, "")
        yield Option(name, f"keep {name}s that match these globs{also} (repeatable, commas)", "list", ())
        yield Option(f"exclude-{name}", f"drop {name}s that match these globs (repeatable, commas)", "list", ())


OPTIONS: Final = (
    *_dimension_options(),
    Option("gate", "judge these gates alone (repeatable, commas, globs): certifies nothing", "list", ()),
    Option("form", "deployment forms to judge", "list", ("eager",), ("eager", "compiled", "captured")),
    Option("cache-state", "states of the caches before a timed sample", "list", ("hot",), ("hot", "cold")),
    Option("size", "host size; default: real where trained weights are at hand", choices=("tiny", "real", "full")),
    Option("checkpoint", "local safetensors checkpoint directory to load instead of the host's own weights", "path"),
    Option("out", "output directory for certificates, statements and evidence", "path", "frt-certs"),
    Option("cache", "directory for one-time host conversions; default: the user's cache directory", "path"),
    Option("seed", "seed of everything that is drawn", "int", 0),
    Option("sign-key", "Ed25519 key file; opened by the controller after the last worker ended", "path"),
    Option("issuer", "issuer name written into statements", default="self"),
    Option("quick", "provisional timing, 3 processes of 8 pairs: certifies nothing", "flag", default=False),
    Option("no-timing", "stop after the contract gate: certifies nothing", "flag", default=False),
    Option("json", "write a JSON report to this file; an earlier one is replaced", "path"),
    Option("html", "write an HTML report to this file: one page, readable offline; an earlier one is replaced", "path"),
    Option("waivers", "TOML or YAML file of failures that somebody answers for, until a day", "path"),
    Option("resume", "keep records whose certificate in --frt-out still holds here", "flag", default=False),
    Option("dry-run", "only say what would be judged: records, gates, waivers, processes", "flag", default=False),
    Option("fraction", "judge the records of one fraction, I,N for the I-th of N", metavar="I,N"),
    Option(
        "compare",
        "compare with an earlier JSON report; 'last': this --frt-out's",
        "path",
        metavar="PATH|last",
        const="last",
    ),
    Option(
        "compare-fail",
        "fail on regressions: ratio:2%, parity:10%, outcome (repeatable, commas)",
        "list",
        (),
        metavar="EXPR",
    ),
    Option("family-alpha", "level that all records and unions share when each sits at the margin, e.g. 0.01", "number"),
    Option(
        "kernel",
        "kernel project, REPO=PATH or cached release REPO@REVISION to judge in place of the build that its impls name; "
        "other impls are left out (repeatable, commas)",
        "list",
        (),
        metavar="PATH|REPO@REVISION",
    ),
    Option("threads", "math threads of workers; default: the machine's processors", "int"),
    Option("comparison", "show the compiled host beside certified plans, in one process", "switch", default=True),
)
BY_KEY: Final = {option.key: option for option in OPTIONS}
SELECTING: Final = tuple(option for option in OPTIONS if option.name in DIMENSIONS)


def add_options(parser: pytest.Parser) -> None:
    """Declare every option and ini key."""
    group = parser.getgroup("frt", "certify faster model parts (pytest-frt)")
    for option in OPTIONS:
        flag, dest = f"--frt-{option.name}", option.dest
        said = option.help.replace("%", "%%")  # argparse formats the help of options, pytest that of ini keys not
        if option.kind in {"flag", "switch"}:
            group.addoption(flag, dest=dest, action="store_true", default=None, help=said)
            if option.kind == "switch":
                group.addoption(f"--frt-no-{option.name}", dest=dest, action="store_false", default=None, help="do not")
        elif option.kind == "list":
            metavar = option.metavar or "GLOB"
            group.addoption(flag, dest=dest, action="append", default=None, metavar=metavar, help=said)
        else:
            more = {"nargs": "?", "const": option.const} if option.const else {}
            metavar = option.metavar or "VALUE"
            group.addoption(flag, dest=dest, default=None, metavar=metavar, help=said, **more)
        if option.kind == "list":
            parser.addini(dest, option.help, type="linelist", default=None)
        else:
            parser.addini(dest, option.help, type="string", default=None)


def on_command_line(namespace: argparse.Namespace) -> bool:
    """Report whether any of our options was given on the command line (or in ``addopts``)."""
    return any(getattr(namespace, option.dest, None) is not None for option in OPTIONS)


def in_files(config: pytest.Config) -> bool:
    """Report whether a configuration file selects something to judge.

    Raises:
        UsageFault: see :func:`read_table`.
    """
    table = read_table(config.rootpath)
    return any(option.key in table or config.getini(option.dest) for option in SELECTING)


def nearest(word: str, known: Iterable[str]) -> str:
    """Return a hint that names the nearest known word, or all of them."""
    import difflib

    names = sorted(known)
    near = difflib.get_close_matches(word, names, n=1)
    return f"did you mean {near[0]!r}?" if near else f"known: {', '.join(names)}"


def read_table(rootpath: Path) -> Mapping[str, Any]:
    """Read ``[tool.pytest_frt]`` of a directory's pyproject.toml; its keys with underscores.

    Raises:
        UsageFault: unreadable TOML, or a key that is no option.
    """
    file = rootpath / "pyproject.toml"
    if not file.is_file() or TABLE.encode() not in (content := file.read_bytes()):
        return {}
    import tomllib

    try:
        table = tomllib.loads(content.decode()).get("tool", {}).get(TABLE, {})
    except ValueError as fault:  # no TOML, or no UTF-8
        raise UsageFault(f"{file} is no TOML: {fault}") from fault
    if not isinstance(table, dict):
        raise UsageFault(f"tool.{TABLE} in {file} is no table")
    found = {str(key).replace("-", "_"): value for key, value in table.items()}
    for key in found:
        if key not in BY_KEY:
            raise UsageFault(f"[tool.{TABLE}] in {file} has unknown key {key!r}", hint=nearest(key, BY_KEY))
    return found
