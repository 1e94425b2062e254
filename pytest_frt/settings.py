"""Values of the options: precedence, conversion, and the one frozen ``RunConfig`` that travels on.

A value is looked for on the command line, in ``[tool.pytest_frt]`` of the root directory's pyproject.toml, in pytest's
ini file, in the device profile, and then in the defaults; its origin is kept beside it. Paths on the command line are
relative to the working directory, those in files to the root directory.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pytest_frt.certs import shape
from pytest_frt.certs.files import PUBLIC, check_replaceable, read_some
from pytest_frt.errors import UsageFault
from pytest_frt.options import BY_KEY, DIMENSIONS, TABLE, Option, nearest, read_table
from pytest_frt.report import drawing
from pytest_frt.report.beside import LAST
from pytest_frt.run.config import RunConfig, Selection
from pytest_frt.run.kernel_words import CachedRelease, KernelWord, parse_kernel
from pytest_frt.spec.hub_cache import client_cache, local_kernels

if TYPE_CHECKING:
    import pytest

COMMAND_LINE: Final = "command line"
TRUE, FALSE = ("true", "yes", "on", "1"), ("false", "no", "off", "0")


def _text(option: Option, value: object, origin: str) -> str:
    if isinstance(value, str):
        return value
    raise UsageFault(f"{option.key} = {value!r} from {origin} is no text")


def _int(option: Option, value: object, origin: str) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    text = _text(option, value, origin).strip()
    if not text.removeprefix("-").isdecimal():
        raise UsageFault(f"{option.key} = {text!r} from {origin} is no whole number")
    return int(text)


def _number(option: Option, value: object, origin: str) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    text = _text(option, value, origin).strip()
    try:
        return float(text)
    except ValueError as fault:
        raise UsageFault(f"{option.key} = {text!r} from {origin} is no number") from fault


def _bool(option: Option, value: object, origin: str) -> bool:
    if isinstance(value, bool):
        return value
    text = _text(option, value, origin).strip().lower()
    if text not in TRUE + FALSE:
        raise UsageFault(f"{option.key} = {text!r} from {origin} is neither true nor false")
    return text in TRUE


def _list(option: Option, value: object, origin: str) -> tuple[str, ...]:
    given = value if isinstance(value, list | tuple) else [value]
    parts = [part.strip() for one in given for part in _text(option, one, origin).split(",")]
    return tuple(part for part in parts if part)


CONVERT: Final = {
    "text": _text,
    "path": _text,
    "int": _int,
    "number": _number,
    "flag": _bool,
    "switch": _bool,
    "list": _list,
}


class Settings:
    """Looks settings up by precedence and remembers where each came from.

    Attributes:
        profile: Option key to value and origin, from device profiles.
        origins: Option key to where its value came from, of the settings looked up so far.
    """

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._table = read_table(config.rootpath)
        self.profile: Mapping[str, tuple[str, str]] = {}
        self.origins: dict[str, str] = {}

    def _raw(self, option: Option) -> tuple[object, str]:
        if (value := getattr(self._config.option, option.dest, None)) is not None:
            _check_filled(option, value)
            return value, COMMAND_LINE
        if option.key in self._table:
            return self._table[option.key], f"[tool.{TABLE}]"
        if (value := self._config.getini(option.dest)) not in (None, "", []):
            return value, "ini file"
        return self.profile.get(option.key, (option.default, "default"))

    def get(self, key: str) -> Any:  # noqa: ANN401 (options have several types)
        """Return the value of a setting and note its origin.

        Raises:
            UsageFault: the value has another type than the option, is none of its choices, or is empty on the command
                line.
        """
        option = BY_KEY[key]
        raw, origin = self._raw(option)
        self.origins[key] = origin
        value = raw if raw is None else CONVERT[option.kind](option, raw, origin)
        for one in value if isinstance(value, tuple) else (value,):
            if one is not None and option.choices and one not in option.choices:
                raise UsageFault(f"{key} = {one!r} from {origin} is unknown", hint=nearest(str(one), option.choices))
        return value

    def path(self, key: str) -> Path | None:
        """Return a path setting, absolute; relative ones start where they were written."""
        value = self.get(key)
        return self.base(key) / Path(value).expanduser() if value else None

    def base(self, key: str) -> Path:
        """Return the directory that relative paths of a setting start from."""
        files = self.origins[key].startswith("[") or self.origins[key] == "ini file"
        return self._config.rootpath if files else Path(self._config.invocation_params.dir)


def _check_filled(option: Option, value: object) -> None:
    """Refuse an option that was given without a value: for most of them that would mean everything, or nothing asked.

    Raises:
        UsageFault: naming the option.
    """
    for one in value if isinstance(value, list) else [value]:
        if isinstance(one, str) and not one.strip(" \t,"):
            raise UsageFault(f"--frt-{option.name} is empty", hint="give it a value, or leave it out")


def default_cache() -> Path:
    """Return the user's cache directory for one-time conversions."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "pytest-frt"


def _at_least(settings: Settings, key: str, lowest: int, default: int) -> int:
    value = settings.get(key)
    if value is not None and value < lowest:
        raise UsageFault(f"{key} = {value} from {settings.origins[key]} is under {lowest}")
    return default if value is None else int(value)


def _level(settings: Settings, key: str) -> float | None:
    """Return a chance of error between 0 and 1, or None."""
    value: float | None = settings.get(key)
    if value is not None and not 0 < value < 1:
        raise UsageFault(f"{key} = {value} from {settings.origins[key]} is no chance between 0 and 1", hint="e.g. 0.01")
    return value


def _file(settings: Settings, key: str) -> str | None:
    """Return a path setting whose file must be there."""
    path = settings.path(key)
    if path is not None and not path.is_file():
        raise UsageFault(f"{key} = {path} from {settings.origins[key]} is no file", hint="check the path")
    return str(path) if path else None


def _sign_key(settings: Settings) -> Path | None:
    """Return the key file. It is not opened to sign yet; that it is the other half is met before hours of measuring."""
    key = settings.path("sign_key")
    if key is None:
        return None
    said = f"sign_key = {key} from {settings.origins['sign_key']}"
    if not key.is_file():
        raise UsageFault(f"{said} is no file", hint="frt keygen OUT")
    if read_some(key, len(PUBLIC)) == PUBLIC:
        raise UsageFault(f"{said} holds a public key", hint="name the private key file, e.g. frt-key.pem")
    return key


def _issuer(settings: Settings) -> str:
    """Return the name that statements will carry: what they cannot hold must be met before anything is measured."""
    value = str(settings.get("issuer"))
    try:
        return shape.identifier(value)
    except shape.Misfit as fault:
        said = f"issuer from {settings.origins['issuer']}: {fault.said}"
        raise UsageFault(said, hint="e.g. acme or acme.org/kernels") from fault


def _fraction(settings: Settings) -> tuple[int, int] | None:
    value = settings.get("fraction")
    if value is None:
        return None
    parts = [part.strip() for part in value.split(",")]
    said = f"fraction = {value!r} from {settings.origins['fraction']}"
    if len(parts) != len(("I", "N")) or not all(part.isdecimal() for part in parts):
        raise UsageFault(f"{said} is no I,N", hint="the second of four: --frt-fraction=2,4")
    index, count = map(int, parts)
    if not 1 <= index <= count:
        raise UsageFault(f"{said} counts from 1 to {count}", hint=f"the last is {max(count, 1)},{max(count, 1)}")
    return index, count


def _earlier(settings: Settings) -> str | None:
    """Return the report to compare with; the last one of an output directory need not be there yet."""
    if settings.get("compare") == LAST:
        return LAST
    return _file(settings, "compare")


def _report(settings: Settings, key: str) -> str | None:
    """Return where a report goes; that what lies there may be replaced is met before anything is measured."""
    path = settings.path(key)
    if path is not None:
        check_replaceable(path)
    return str(path) if path else None


def _page(settings: Settings, *, is_worker: bool) -> str | None:
    """Return where the HTML report goes; what draws it must be installed before anything is measured."""
    page = _report(settings, "html")
    if page is not None and not is_worker:
        drawing.check_extra()
    return page


def _kernels(settings: Settings) -> tuple[KernelWord, ...]:
    words = settings.get("kernel")
    return tuple(parse_kernel(word, settings.base("kernel"), settings.origins["kernel"]) for word in words)


def run_config(settings: Settings, *, threads: int, is_worker: bool) -> RunConfig:
    """Build the run's settings.

    Args:
        settings: Where to look values up.
        threads: Default for ``--frt-threads``.
        is_worker: True in a worker of pytest-xdist, which never learns of a key.

    Raises:
        UsageFault: a value that cannot be used, or nothing selects what to judge.
    """
    include = {name: globs for name in DIMENSIONS if (globs := settings.get(name))}
    exclude = {name: globs for name in DIMENSIONS if (globs := settings.get(f"exclude_{name}"))}
    if not include:
        raise UsageFault("no --frt-* option selects what to judge", hint="--frt-host=NAME, or --frt-host=all")
    quick, key = settings.get("quick"), None if is_worker else _sign_key(settings)
    checkpoint, kernel = settings.path("checkpoint"), _kernels(settings)
    if checkpoint is not None and not checkpoint.is_dir():
        origin = settings.origins["checkpoint"]
        raise UsageFault(f"checkpoint = {checkpoint} from {origin} is no directory", hint="check the path")
    return RunConfig(
        selection=Selection(include, exclude),
        forms=settings.get("form"),
        size=settings.get("size"),
        checkpoint=str(checkpoint) if checkpoint else None,
        out=str(settings.path("out")),
        cache=str(settings.path("cache") or default_cache()),
        seed=_at_least(settings, "seed", 0, 0),
        sign_key=str(key) if key else None,
        issuer=_issuer(settings),
        quick=quick,
        timing=not settings.get("no_timing"),
        kernel=kernel,
        kernel_cache=str(client_cache(os.environ)) if any(isinstance(one, CachedRelease) for one in kernel) else "",
        local_kernels=local_kernels(os.environ) if kernel else (),
        json=_report(settings, "json"),
        html=_page(settings, is_worker=is_worker),
        threads=_at_least(settings, "threads", 1, threads),
        comparison=settings.get("comparison") and not quick,
        waivers=_file(settings, "waivers"),
        resume=settings.get("resume"),
        fraction=_fraction(settings),
        cache_states=settings.get("cache_state"),
        family_alpha=_level(settings, "family_alpha"),
        compare=_earlier(settings),
        compare_fail=settings.get("compare_fail"),
        origins=dict(settings.origins),
    )
