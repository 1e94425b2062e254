"""The published JSON schemas and the strict parser take and refuse the same statements."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from jsonschema import Draft202012Validator
from referencing import Registry, Resource

from pytest_frt.certs import index, statement
from pytest_frt.certs.reading import EMPTY_SHA256
from pytest_frt.certs.strict_json import FORBIDDEN_TEXT
from pytest_frt.errors import CertificateRefused

if TYPE_CHECKING:
    from tests.certs.conftest import World

FOLDER = Path(__file__).parents[2] / "docs" / "spec"
SCHEMAS = {path.name.removesuffix(".schema.json"): json.loads(path.read_text()) for path in FOLDER.glob("*.json")}
KNOWN: Registry[Any] = Registry().with_resources(
    (schema["$id"], Resource.from_contents(schema)) for schema in SCHEMAS.values()
)
MAKERS: dict[str, Callable[[World], bytes]] = {
    "cell-certificate": lambda world: world.payload(),
    "plan-certificate": lambda world: world.plan(world.payload()),
    "certificate-index": lambda world: index.build_index(
        issuer="acme",
        version=3,
        issued_at=world.now,
        expires=world.now + timedelta(days=14),
        current=["a" * 64],
        revoked=[index.Revoked("tree", "b" * 64, "out-of-bounds read")],
    ),
}
PARSERS: dict[str, Callable[[bytes], object]] = {"certificate-index": index.parse_index}
BEYOND = {"('predicate', 'current', 0) dropped", "('predicate', 'current') = []"}
"""What no schema can say: the subject of an index is a digest over what is current."""
WRONG: tuple[object, ...] = (None, -1, "x y", [], {})
"""Put in the place of every member: for each of them at least three are of a wrong type or outside its grammar."""
GRAMMAR: dict[str, tuple[tuple[str | int, ...], object]] = {
    "negative zero": (("predicate", "gates", 0, "floor"), "-0.0"),
    "invisible character": (("predicate", "checker", "name"), "pytest\u200b-frt"),
    "tag character": (("predicate", "checker", "name"), "pytest\U000e0041-frt"),
    "long text": (("predicate", "checker", "name"), "a" * 4097),
    "truth for a count": (("predicate", "attempts"), True),
    "beyond 2**53": (("predicate", "seed"), 2**53),
    "exponent": (("predicate", "gates", 0, "measured"), "1e-3"),
    "sixteen digits": (("predicate", "gates", 0, "floor"), "1" * 16),
    "sample with a unit": (("predicate", "gates", 0, "samples", 0), "1ms"),
    "NaN as text": (("predicate", "seats", 0, "scales", "x"), "NaN"),
    "time zone": (("predicate", "issuedAt"), "2026-11-29T00:00:00+00:00"),
    "before 1970": (("predicate", "issuedAt"), "1969-12-31T23:59:59Z"),
    "year 3000": (("predicate", "expiresAt"), "3000-01-01T00:00:00Z"),
    "month 13": (("predicate", "issuedAt"), "2026-13-29T00:00:00Z"),
    "branch as revision": (("predicate", "kernel", "revision"), "main"),
    "upper-case digest": (("predicate", "kernel", "treeDigest"), "A" * 64),
    "five segments": (("predicate", "kernel", "repo"), "a/b/c/d/e"),
    "version 0": (("predicate", "cell", "impl"), "torch_packed@0"),
    "unknown crit": (("predicate", "crit"), ["region"]),
    "unknown place": (("predicate", "seats", 0, "at", "kind"), "tensor"),
    "three rows": (("predicate", "rows"), [1, 2, 8]),
    "md5 alone": (("subject", 0, "digest"), {"md5": "a" * 32}),
    "empty file": (("subject", 0, "digest", "sha256"), EMPTY_SHA256),
    "path above": (("subject", 0, "name"), "kernel/../x.so"),
    "device name": (("subject", 0, "name"), "kernel/Aux.py"),
    "hidden file": (("subject", 0, "name"), "kernel/.hidden"),
    "last dot": (("subject", 0, "name"), "kernel/x."),
    "no known role": (("subject", 0, "name"), "extra/x.py"),
    "no impl": (("subject", 1, "name"), "kernel/a.py"),
    "older statement": (("_type",), "https://in-toto.io/Statement/v0.1"),
    "another predicate": (("predicateType",), "https://in-toto.io/attestation/test-result/v0.1"),
}


VALIDATORS = {kind: Draft202012Validator(schema, registry=KNOWN) for kind, schema in SCHEMAS.items()}


def valid(kind: str, document: object) -> bool:
    return bool(VALIDATORS[kind].is_valid(document))


def parses(document: object, kind: str = "") -> bool:
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    try:
        PARSERS.get(kind, statement.parse_payload)(text.encode())
    except CertificateRefused:
        return False
    return True


def places(node: object, at: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Yield the place of every member, of arrays the first element's."""
    inner: list[tuple[str | int, object]] = list(node.items()) if isinstance(node, dict) else []
    inner += enumerate(node[:1]) if isinstance(node, list) else []
    for name, value in inner:
        yield (*at, name)
        yield from places(value, (*at, name))


def changed(document: Any, at: tuple[str | int, ...], change: Callable[[Any, str | int], object]) -> Any:
    found = copy.deepcopy(document)
    node = found
    for name in at[:-1]:
        node = node[name]
    change(node, at[-1])
    return found


def family(document: object) -> Iterator[tuple[str, object]]:
    """Yield each member dropped, each replaced by every wrong value, and each object with a member more."""
    for at in places(document):
        yield f"{at} dropped", changed(document, at, lambda node, name: node.pop(name))
        yield f"{at} with one more", changed(document, at, _extended)
        for value in WRONG:
            yield f"{at} = {value!r:.20}", changed(document, at, lambda node, name, v=value: node.__setitem__(name, v))


def _extended(node: Any, name: str | int) -> None:
    if isinstance(node[name], dict):
        node[name]["more"] = {"of": 1}


def test_schemas_are_schemas() -> None:
    assert set(SCHEMAS) >= {"common", *MAKERS}
    for schema in SCHEMAS.values():
        Draft202012Validator.check_schema(schema)


def test_schema_and_parser_forbid_the_same_characters() -> None:
    every = "".join(map(chr, (*range(0xD800), *range(0xE000, 0x110000))))
    pattern = SCHEMAS["common"]["$defs"]["text"]["not"]["pattern"]
    assert re.findall(pattern, every) == FORBIDDEN_TEXT.findall(every)


@pytest.mark.parametrize("kind", MAKERS)
def test_what_the_signer_makes_is_valid_and_of_no_other_kind(world: World, kind: str) -> None:
    document = json.loads(MAKERS[kind](world))
    assert [one for one in MAKERS if valid(one, document)] == [kind]


@pytest.mark.parametrize("kind", MAKERS)
def test_schema_and_parser_agree_on_every_spoiled_member(world: World, kind: str) -> None:
    document = json.loads(MAKERS[kind](world))
    tried = {name: (parses(one, kind), valid(kind, one)) for name, one in family(document)}
    assert {name for name, both in tried.items() if len(set(both)) > 1} <= BEYOND
    assert not any(parsed and not valid for parsed, valid in tried.values())
    assert len([name for name, both in tried.items() if not all(both)]) > len(tried) / 2 > 40


@pytest.mark.parametrize("spoil", GRAMMAR)
def test_both_refuse(world: World, spoil: str) -> None:
    at, value = GRAMMAR[spoil]
    document = json.loads(world.payload())
    spoiled = changed(document, at, lambda node, name: node.__setitem__(name, value))
    assert (parses(document), valid("cell-certificate", document)) == (True, True)
    assert (parses(spoiled), valid("cell-certificate", spoiled)) == (False, False)
