"""Changing one thing of a policy file: its text is edited in place, so that comments and layout of the rest survive.

Every edit is made twice: on the text, and on the parsed document. The text is only taken when it parses, strictly, to
exactly the edited document; a layout that the text edit does not understand is therefore refused and never damaged.
Each edit raises ``version`` by one, since a deployer's memory refuses a lower one.
"""

from __future__ import annotations

import copy
import re
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pytest_frt.certs import policy
from pytest_frt.certs.files import read_owned, write_atomic
from pytest_frt.certs.lock import locked
from pytest_frt.certs.strict_json import printable
from pytest_frt.certs.strict_toml import parse_toml
from pytest_frt.errors import CertificateRefused, UsageFault

Document = dict[str, Any]
_VERSION: Final = re.compile(r"^(version[ \t]*=[ \t]*)([0-9]+)", re.MULTILINE)
_DENY: Final = re.compile(r"^deny[ \t]*=[ \t]*\[", re.MULTILINE)
_HEADER: Final = re.compile(r"^[ \t]*\[\[?[ \t]*([A-Za-z0-9_.\"' -]+?)[ \t]*\]\]?", re.MULTILINE)
_STATUS: Final = re.compile(r"^([ \t]*)status[ \t]*=[ \t]*\"[a-z]+\"", re.MULTILINE)
_SIGNERS: Final = re.compile(r"^([ \t]*signers[ \t]*=[ \t]*\[[^\]#\n]*?)([ \t]*,?[ \t]*)\]", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class NewKey:
    """A key to add; see ``policy_types.TrustedKey``. Times are written as given."""

    owner: str
    public: str
    valid_from: str
    valid_until: str

    @property
    def members(self) -> Document:
        """The table of the file."""
        return {
            "owner": self.owner,
            "public": self.public,
            "from": self.valid_from,
            "until": self.valid_until,
            "status": "active",
        }


@dataclass(frozen=True, slots=True)
class Edit:
    """One change, told twice.

    Attributes:
        on_text: The file's text to the changed text.
        on_document: Changes the parsed document to what the changed text must say.
    """

    on_text: Callable[[str], str]
    on_document: Callable[[Document], None]


@contextmanager
def held(path: str | Path) -> Iterator[policy.Policy]:
    """Hold the lock of a policy file, from reading it to writing it anew, and give the policy as it is now.

    Raises:
        CertificateRefused: the file is refused; ``FILE_BUSY``, or ``POLICY_FILE`` for a lock that is no regular file.
        UsageFault: the file is missing.
        StorageFault: no lock can be made here.
    """
    policy.load(path)  # what is no policy gets no lock beside it
    with locked(Path(path), special="POLICY_FILE"):
        yield policy.load(path)


def change(path: str | Path, *edits: Edit) -> int:
    """Make edits in a policy file, raise its version, and return that. The caller holds its lock (``held``).

    Raises:
        CertificateRefused: the file is refused before or after the change; it is as it was.
        UsageFault: the file is missing, is laid out in a way that cannot be edited here, or changed meanwhile.
        StorageFault: it cannot be written; it is as it was.
    """
    place = Path(path)
    data = read_owned(place, code="POLICY_FILE", cap=policy.FILE_CAP)
    before = policy.parse(data, str(place))
    text = data.decode()
    wanted: Document = copy.deepcopy(dict(parse_toml(data, str(place))))
    for edit in (*edits, _next_version(before.version)):
        text = edit.on_text(text)
        edit.on_document(wanted)
    _same(text, wanted, place)
    policy.parse(text.encode(), str(place))
    if read_owned(place, code="POLICY_FILE", cap=policy.FILE_CAP) != data:
        raise UsageFault(f"{place} was changed by somebody else meanwhile", hint="try again")
    mode = stat.S_IMODE(place.stat(follow_symlinks=False).st_mode)
    write_atomic(place, text.encode(), mode=mode)
    place.chmod(mode)  # the umask may have taken away who else reads it
    return before.version + 1


def add_key(key: NewKey) -> Edit:
    """Return the edit that adds a key at the end of the file."""
    lines = ["[[key]]", *(f"{name} = {_quoted(value)}" for name, value in key.members.items())]
    return Edit(
        lambda text: f"{text.rstrip()}\n\n" + "\n".join(lines) + "\n",
        lambda document: document.setdefault("key", []).append(key.members),
    )


def add_signer(number: int, owner: str) -> Edit:
    """Return the edit that lets an owner sign for a rule.

    Args:
        number: Index of the rule in the file.
        owner: Who.
    """

    def on_text(text: str) -> str:
        return _inside(text, "rule", number, lambda part: _SIGNERS.sub(_with(owner), part, count=1))

    return Edit(on_text, lambda document: document["rule"][number]["signers"].append(owner))


def revoke_key(number: int, reason: str) -> Edit:
    """Return the edit that marks a key revoked and says why in a comment.

    Args:
        number: Index of the key in the file.
        reason: Why.
    """
    comment = _line(reason)

    def noted(found: re.Match[str]) -> str:
        return f'{found.group(1)}# revoked: {comment}\n{found.group(1)}status = "revoked"'

    def on_text(text: str) -> str:
        return _inside(text, "key", number, lambda part: _STATUS.sub(noted, part, count=1))

    return Edit(on_text, lambda document: document["key"][number].update(status="revoked"))


def add_deny(members: Document) -> Edit:
    """Return the edit that denies something; ``members`` are those of a ``deny`` entry, texts with a reason."""
    entry = "{ " + ", ".join(f"{name} = {_quoted(value)}" for name, value in members.items()) + " }"

    def on_text(text: str) -> str:
        found = _DENY.search(text)
        if found is None:
            return _VERSION.sub(lambda version: f"deny = [{entry}]\n{version.group()}", text, count=1)
        rest = text[found.end() :]
        comma = "" if rest.lstrip(" \t").startswith("]") else ", " if rest.lstrip(" \t").startswith("{") else ","
        return text[: found.end()] + entry + comma + rest

    def on_document(document: Document) -> None:
        document.setdefault("deny", []).insert(0, members)

    return Edit(on_text, on_document)


def _next_version(version: int) -> Edit:
    return Edit(
        lambda text: _VERSION.sub(lambda found: f"{found.group(1)}{version + 1}", text, count=1),
        lambda document: document.update(version=version + 1),
    )


def _same(text: str, wanted: Document, place: Path) -> None:
    try:
        same = parse_toml(text.encode(), str(place)) == wanted
    except CertificateRefused:  # a table that was written inline takes no further block
        same = False
    if not same:
        raise UsageFault(
            f"{place} is laid out in a way that this command cannot change",
            hint="edit it by hand, and raise version by one",
        )


def _with(owner: str) -> Callable[[re.Match[str]], str]:
    def grown(found: re.Match[str]) -> str:
        comma = "" if found.group(1).endswith("[") else ", "
        return f"{found.group(1)}{comma}{_quoted(owner)}]"

    return grown


def _inside(text: str, table: str, number: int, edit: Callable[[str], str]) -> str:
    """Edit the text of the table's ``number``-th ``[[table]]`` block; unchanged when there is none."""
    blocks = list(_blocks(text, table))
    if number >= len(blocks):
        return text
    start, end = blocks[number]
    return text[:start] + edit(text[start:end]) + text[end:]


def _blocks(text: str, table: str) -> Iterator[tuple[int, int]]:
    headers = list(_HEADER.finditer(text))
    ends = [header.start() for header in headers[1:]] + [len(text)]
    for header, end in zip(headers, ends, strict=False):  # without a header the end is of no block
        if header.group(1) == table and header.group().lstrip().startswith("[["):
            yield header.end(), end


def _quoted(text: str) -> str:
    escaped = _line(text).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _line(text: str) -> str:
    if not text or not printable(text):
        raise UsageFault(f"{text[:60]!r} is not one printable line", hint="say it in one line of text")
    return text
