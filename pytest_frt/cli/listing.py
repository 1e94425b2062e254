"""``frt list``: what is installed, by whom, and what could not be read."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tabulate import tabulate

from pytest_frt.registry import Registry

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]  # noqa: SLF001 (it has no public name)

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of entry: its word, and its rows as JSON values."""

    word: str
    rows: Callable[[Registry], Iterator[Row]]


def _structures(registry: Registry) -> Iterator[Row]:
    for name, entry in registry.structures.items():
        spec = entry.spec
        yield {"name": name, "version": spec.version, "summary": spec.summary, "from": entry.provider.distribution}


def _pipelines(registry: Registry) -> Iterator[Row]:
    for name, entry in registry.pipelines.items():
        spec = entry.spec
        yield {
            "name": name,
            "version": spec.version,
            "stages": [f"{stage.name} ({stage.cadence})" for stage in spec.stages],
            "checks": len(spec.checks),
            "hosts": [host for host, one in registry.hosts.items() if one.spec.pipeline == name],
            "summary": spec.summary,
            "from": entry.provider.distribution,
        }


def _impls(registry: Registry) -> Iterator[Row]:
    for entry in registry.impls.values():
        impl = entry.impl
        yield {
            "structure": impl.structure,
            "name": impl.name,
            "version": impl.version,
            "schemes": list(impl.schemes),
            "kernel": impl.kernel,
            "devices": list(impl.devices),
            "from": entry.provider.distribution,
        }


def _hosts(registry: Registry) -> Iterator[Row]:
    for name, entry in registry.hosts.items():
        spec = entry.spec
        yield {
            "name": name,
            "sizes": [f"{size} ({spec.weights.get(size, 'random')})" for size in spec.sizes],
            "forms": list(spec.forms),
            "phases": [phase.name for phase in spec.phases],
            "output": spec.output,
            "summary": spec.summary,
            "from": entry.provider.distribution,
        }


def _schemes(registry: Registry) -> Iterator[Row]:
    for name, entry in registry.schemes.items():
        yield {"name": name, "from": entry.provider.distribution}


def _devices(registry: Registry) -> Iterator[Row]:
    for name, entry in registry.devices.items():
        match = [f"{fact}={glob}" for fact, glob in entry.spec.match.items()]
        yield {"name": name, "kind": entry.spec.kind, "match": match, "from": entry.provider.distribution}


def _broken(registry: Registry) -> Iterator[Row]:
    for fault in registry.broken:
        yield {"group": fault.group, "name": fault.name, "from": fault.provider, "reason": fault.reason}


KINDS = {
    kind.word: kind
    for kind in (
        Kind("structures", _structures),
        Kind("pipelines", _pipelines),
        Kind("impls", _impls),
        Kind("hosts", _hosts),
        Kind("schemes", _schemes),
        Kind("devices", _devices),
        Kind("broken", _broken),
    )
}


def add_commands(subparsers: Subparsers) -> None:
    """Register ``frt list``."""
    command = subparsers.add_parser(
        "list", help="show structures, pipelines, impls, hosts, schemes and devices that are installed"
    )
    command.add_argument("kind", nargs="?", choices=sorted(KINDS), metavar="KIND", help=f"one of {', '.join(KINDS)}")
    command.add_argument("--json", action="store_true", help="print one JSON object")
    command.set_defaults(func=show)


def show(args: argparse.Namespace) -> int:
    """Print the entries; 0 also when some provider is broken: ``frt doctor`` judges that."""
    registry = Registry.load()
    found = {word: list(kind.rows(registry)) for word, kind in KINDS.items() if args.kind in {None, word}}
    if args.json:
        print(json.dumps(found, indent=1))
        return 0
    for word, rows in found.items():
        if rows or word == args.kind:
            print(f"{word}: {len(rows)}")
            _print(rows)
    return 0


def _print(rows: list[Row]) -> None:
    """Print rows as a table; the provider and the summary go below each row's facts, where there is room."""
    texts = [
        {key: ", ".join(value) if isinstance(value, list) else value for key, value in row.items()} for row in rows
    ]
    short = [{key: value for key, value in row.items() if key not in {"summary", "reason"}} for row in texts]
    lines = tabulate(short, headers="keys", tablefmt="plain").splitlines()
    for line, row in zip(lines, [None, *texts], strict=False):
        print(f"  {line.rstrip()}")
        if row is not None and (said := row.get("summary") or row.get("reason")):
            print(f"      {said}")
    print()
