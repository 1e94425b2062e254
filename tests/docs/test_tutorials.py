"""Every command and block of the two tutorials runs as written, in the order of the page."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.docs.conftest import Reader

DOCS = Path(__file__).parents[2] / "docs"
BLOCK = re.compile(r"(?P<stand_in><!-- stand-in: [^\n]*-->\n)?```(?P<kind>console|python)\n(?P<text>.*?)```", re.DOTALL)
HERE = {"linear_proj": "toy_ffn"}
"""What the page calls otherwise than the tiny host does."""


def blocks(page: str) -> list[re.Match[str]]:
    return list(BLOCK.finditer((DOCS / page).read_text(encoding="utf-8")))


def commands(block: re.Match[str]) -> str:
    """Return the commands of a console block as one script that stops at the first failure."""
    lines = [line[2:] for line in block["text"].splitlines() if line.startswith("$ ")]
    assert len(lines) == len(block["text"].splitlines())
    script = "\n".join(_expected(line) for line in lines)
    for name, ours in HERE.items():
        script = script.replace(name, ours)
    return f"set -e\n{script}"


def _expected(line: str) -> str:
    """A comment says which code a command must refuse with."""
    command, _, code = line.partition("  # refused: ")
    return f"(! {command} >said) && grep -F '[{code}]' said" if code else command


def follow(reader: Reader, page: str) -> list[str]:
    """Do what a page says; return the console blocks that were left to a stand-in."""
    left: list[str] = []
    written: list[str] = []
    for block in blocks(page):
        if block["stand_in"]:
            left.append(block["text"])
            reader.certify(reader.folder / "frt-key.pem")
        elif block["kind"] == "console":
            status, said = reader.types(commands(block))
            assert status == 0, f"{block['text']}\n{said}"
        else:
            written.append(block["text"])
            status, said = reader.python(*written)
            assert status == 0, f"{block['text']}\n{said}"
            assert "2 seats attached by plan" in said
    return left


def test_publisher(reader: Reader) -> None:
    left = follow(reader, "tutorial-publisher.md")
    assert [text.split()[1] for text in left] == ["pytest"]
    assert (reader.folder / "certificate.sigstore.json").is_file()


def test_deployer(reader: Reader) -> None:
    for name in ("publisher", "reviewer"):
        assert reader.types(f"frt keygen {name}.pem")[0] == 0
    reader.certify(reader.folder / "publisher.pem")
    assert reader.types("frt publish my-kernel && rm -r frt-certs *.pem")[0] == 0
    assert follow(reader, "tutorial-deployer.md") == []


@pytest.mark.parametrize("said", ["true  # refused: SIG_NONE", "echo '[EXPIRED]'; false  # refused: SIG_NONE"])
def test_a_refusal_that_does_not_come_fails(reader: Reader, said: str) -> None:
    block = re.match(BLOCK, f"```console\n$ {said}\n```")
    assert block is not None
    assert reader.types(commands(block))[0] != 0


def test_options_of_what_is_left_exist() -> None:
    from pytest_frt.options import OPTIONS

    (text,) = (block["text"] for block in blocks("tutorial-publisher.md") if block["stand_in"])
    known = {f"--frt-{option.key.replace('_', '-')}" for option in OPTIONS}
    assert set(re.findall(r"--frt-[a-z-]+", text)) <= known
