"""The command line and the configuration files, turned into one frozen ``RunConfig``. Imports no torch."""

from __future__ import annotations

import difflib
import os
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pytest_frt.errors import UsageFault
from pytest_frt.run.config import RunConfig, Selection

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Mapping

    import pytest

DIMENSIONS: Final = ("host", "structure", "impl", "scheme", "device", "phase")
TABLE: Final = "pytest_frt"


@dataclass(frozen=True, slots=True)
class Option:
    """One setting.

    Attributes:
        name: As in ``--frt-<name>``, in ``[tool.pytest_frt]`` (with underscores) and, prefixed with ``frt_``, in ini files.
        help: One line.
        default: Value when nothing says otherwise.
        kind: ``str``, ``int``, ``flag`` or ``list`` (repeatable, commas, globs).
        choices: Allowed values; empty for any.
    """

    name: str
    help: str
    default: Any = None
    kind: str = "str"
    choices: tuple[str, ...] = ()

    @property
    def dest(self) -> str:
        """Attribute name on pytest's option namespace."""
        return f"frt_{self.name.replace('-', '_')}"

    @property
    def key(self) -> str:
        """Key in ``[tool.pytest_frt]``."""
        return self.name.replace("-", "_")


def _dimension_options() -> Iterator[Option]:
    for name in DIMENSIONS:
        yield Option(name, f"keep {name}s that match these globs (repeatable, commas)", kind="list")
        yield Option(f"exclude-{name}", f"drop {name}s that match these globs", kind="list")


OPTIONS: Final = (
    *_dimension_options(),
    Option("form", "deployment forms to judge: eager, compiled", ["eager"], "list"),
    Option("size", "host size: tiny, real or full; default: real where trained weights are at hand"),
    Option("checkpoint", "local safetensors checkpoint directory to load instead of the host's own weights"),
    Option("out", "output directory for certificates, statements and evidence", "frt-certs"),
    Option("cache", "directory for one-time host conversions; default: the user's cache directory"),
    Option("seed", "seed of everything that is drawn", 0, "int"),
    Option("sign-key", "Ed25519 key file; opened by the controller after the last worker ended"),
    Option("issuer", "issuer name written into statements", "self"),
    Option("quick", "provisional timing, 3 processes of 8 pairs: certifies nothing", default=False, kind="flag"),
    Option("no-timing", "stop after the contract gate", default=False, kind="flag"),
    Option("json", "write a JSON report to this file"),
    Option("kernel", "kernel build to judge in place of the one each impl names"),
    Option("threads", "math threads of workers; default: the machine's processors", None, "int"),
    Option("no-compare", "leave out the one-process comparison with the compiled host", default=False, kind="flag"),
)
BY_KEY: Final = {option.key: option for option in OPTIONS}
ACTIVATING: Final = tuple(option for option in OPTIONS if option.name in DIMENSIONS[:-1])
"""Any of these on the command line or in a configuration file switches the plugin on."""


def add_options(parser: pytest.Parser) -> None:
    """Declare every option and ini key."""
    group = parser.getgroup("frt", "certify optimised model parts (pytest-frt)")
    for option in OPTIONS:
        flag = f"--frt-{option.name}"
        if option.kind == "flag":
            group.addoption(flag, dest=option.dest, action="store_true", default=None, help=option.help)
        elif option.kind == "list":
            group.addoption(flag, dest=option.dest, action="append", default=None, metavar="GLOB", help=option.help)
        else:
            kind = int if option.kind == "int" else str
            group.addoption(flag, dest=option.dest, type=kind, default=None, metavar="VALUE", help=option.help)
        ini = "linelist" if option.kind == "list" else "bool" if option.kind == "flag" else "string"
        parser.addini(option.dest, option.help, type=ini, default=None)


def _table(rootpath: Path) -> Mapping[str, Any]:
    """Read ``[tool.pytest_frt]`` of the root directory's pyproject.toml.

    Raises:
        UsageFault: unreadable TOML, or a key that is no option.
    """
    file = rootpath / "pyproject.toml"
    if not file.is_file():
        return {}
    try:
        table = tomllib.loads(file.read_text(encoding="utf-8")).get("tool", {}).get(TABLE, {})
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as fault:
        raise UsageFault(f"{file} is no TOML: {fault}") from fault
    for key in table:
        if key not in BY_KEY:
            near = difflib.get_close_matches(key, BY_KEY, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"known keys: {', '.join(sorted(BY_KEY))}"
            raise UsageFault(f"[tool.{TABLE}] in {file} has unknown key {key!r}", hint=hint)
    return table


def _split(values: object) -> tuple[str, ...]:
    found = [values] if isinstance(values, str) else list(values) if isinstance(values, list | tuple) else []
    return tuple(part.strip() for value in found for part in str(value).split(",") if part.strip())


class Settings:
    """Looks a setting up by precedence: command line, ``[tool.pytest_frt]``, ini file, default. Remembers the origin."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._table = _table(config.rootpath)
        self.origins: dict[str, str] = {}

    def get(self, key: str) -> Any:  # noqa: ANN401 (options have several types)
        """Return the value of a setting and note where it came from."""
        option = BY_KEY[key]
        if (value := self._config.getoption(option.dest, default=None)) is not None:
            self.origins[key] = "command line"
            return value
        if key in self._table:
            self.origins[key] = f"[tool.{TABLE}]"
            return self._table[key]
        if (value := self._config.getini(option.dest)) not in (None, "", []):
            self.origins[key] = "ini file"
            return value
        self.origins[key] = "default"
        return option.default

    def globs(self, key: str) -> tuple[str, ...]:
        """Return a list setting, commas split."""
        return _split(self.get(key))


def is_active(config: pytest.Config, namespace: argparse.Namespace) -> bool:
    """Report whether this run is ours: an ``--frt-*`` selection was given somewhere."""
    if any(getattr(namespace, option.dest, None) for option in ACTIVATING):
        return True
    table = _table(config.rootpath)
    keys = {option.key for option in ACTIVATING}
    return bool(keys & table.keys()) or any(config.getini(option.dest) for option in ACTIVATING)


def default_cache() -> Path:
    """Return the user's cache directory for one-time conversions."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "pytest-frt"


def run_config(config: pytest.Config, *, threads: int) -> RunConfig:
    """Build the run's settings.

    Args:
        config: pytest's configuration.
        threads: Default for ``--frt-threads``.

    Raises:
        UsageFault: a value that cannot be used.
    """
    settings = Settings(config)
    include = {name: settings.globs(name) for name in DIMENSIONS}
    exclude = {name: settings.globs(f"exclude_{name}") for name in DIMENSIONS}
    wanted_threads = settings.get("threads") or threads
    if wanted_threads < 1:
        raise UsageFault(f"--frt-threads={wanted_threads} is under 1")
    here = Path(config.invocation_params.dir)
    key = settings.get("sign_key")
    return RunConfig(
        selection=Selection({k: v for k, v in include.items() if v}, {k: v for k, v in exclude.items() if v}),
        forms=settings.globs("form"),
        size=settings.get("size"),
        checkpoint=_absolute(here, settings.get("checkpoint")),
        out=str(here / settings.get("out")),
        cache=str(here / settings.get("cache")) if settings.get("cache") else str(default_cache()),
        seed=int(settings.get("seed")),
        sign_key=None if hasattr(config, "workerinput") else _absolute(here, key),
        issuer=settings.get("issuer"),
        quick=bool(settings.get("quick")),
        timing=not settings.get("no_timing"),
        kernel=_absolute(here, settings.get("kernel")),
        json=_absolute(here, settings.get("json")),
        threads=int(wanted_threads),
        compare=not settings.get("no_compare") and not settings.get("quick"),
        origins=dict(settings.origins),
    )


def _absolute(here: Path, given: str | None) -> str | None:
    return str(here / given) if given else None
