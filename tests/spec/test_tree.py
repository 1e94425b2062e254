"""frt-tree-v1: the digest is fixed, follows names and bytes, and what it cannot bind is refused."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_frt.spec.tree import TreeInvalid, check_name, tree_digest, tree_files


def plant(root: Path) -> Path:
    (root / "sub").mkdir(parents=True)
    (root / "b.py").write_bytes(b"b = 1\n")
    (root / "sub" / "a.py").write_bytes(b"")
    return root


def test_digest_is_the_written_format(tmp_path: Path) -> None:
    sha = hashlib.sha256(b"frt-tree-v1\0")
    for name, data in ((b"b.py", b"b = 1\n"), (b"sub/a.py", b"")):
        sha.update(len(name).to_bytes(4, "big") + name + hashlib.sha256(data).digest())
    assert tree_digest(tree_files(plant(tmp_path / "t"))) == sha.hexdigest()


def test_digest_ignores_the_order_files_are_handed_over_in(tmp_path: Path) -> None:
    files = tree_files(plant(tmp_path / "t"))
    assert tree_digest(files) == tree_digest(reversed(files))


@pytest.mark.parametrize(
    "change",
    [
        lambda root: (root / "b.py").write_bytes(b"b = 2\n"),
        lambda root: (root / "b.py").rename(root / "c.py"),
        lambda root: (root / "extra.txt").write_bytes(b""),
        lambda root: (root / "sub" / "a.py").unlink(),
    ],
    ids=["byte_changed", "file_renamed", "empty_file_added", "file_missing"],
)
def test_digest_changes(tmp_path: Path, change: Callable[[Path], object]) -> None:
    root = plant(tmp_path / "t")
    before = tree_digest(tree_files(root))
    change(root)
    assert tree_digest(tree_files(root)) != before


SPOILED: dict[str, tuple[str, Callable[[Path], object]]] = {
    "symlinked_file": ("TREE_SYMLINK", lambda root: (root / "c.py").symlink_to(root / "b.py")),
    "symlinked_folder": ("TREE_SYMLINK", lambda root: (root / "more").symlink_to(root / "sub")),
    "dangling_symlink": ("TREE_SYMLINK", lambda root: (root / "gone").symlink_to(root / "nowhere")),
    "pycache_folder": ("TREE_BYTECODE", lambda root: (root / "sub" / "__pycache__").mkdir()),
    "stray_pyc": ("TREE_BYTECODE", lambda root: (root / "b.pyc").write_bytes(b"x")),
    "fifo": ("TREE_SPECIAL", lambda root: os.mkfifo(root / "pipe")),
    "hidden_file": ("NAME", lambda root: (root / ".hidden").write_bytes(b"")),
}


@pytest.mark.parametrize(("fault", "spoil"), SPOILED.values(), ids=SPOILED)
def test_tree_is_refused(tmp_path: Path, fault: str, spoil: Callable[[Path], object]) -> None:
    root = plant(tmp_path / "t")
    spoil(root)
    with pytest.raises(TreeInvalid) as caught:
        tree_files(root)
    assert caught.value.fault == fault


def test_symlinked_root_is_refused(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(plant(tmp_path / "t"))
    with pytest.raises(TreeInvalid, match="symbolic link"):
        tree_files(tmp_path / "link")


def test_bytecode_left_out_changes_nothing(tmp_path: Path) -> None:
    root = plant(tmp_path / "t")
    before = tree_files(root)
    (root / "__pycache__").mkdir()
    (root / "__pycache__" / "b.cpython-311.pyc").write_bytes(b"x")
    assert tree_files(root, leave_bytecode=True) == before


@pytest.mark.parametrize(
    "name",
    [
        "../x",
        "/etc/x",
        "a/../x.so",
        "a//x",
        "a\\b",
        "C:x",
        "aux.py",
        "NUL",
        "x.",
        ".hidden",
        "x\u00e9.py",
        "x" * 300,
        "",
    ],
)
def test_name_that_is_not_plain_is_refused(name: str) -> None:
    with pytest.raises(TreeInvalid, match="not plain") as caught:
        check_name(name)
    assert caught.value.fault == "NAME"


@pytest.mark.parametrize("name", ["__init__.py", "_ops.py", "lib+1/a-b.abi3.so", "metadata.json"])
def test_plain_name_passes(name: str) -> None:
    check_name(name)
