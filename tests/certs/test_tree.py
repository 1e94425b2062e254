"""Only the certified bytes of a directory reach the private copy, and nothing else comes with them."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_frt.certs import tree
from pytest_frt.certs.reading import EMPTY_SHA256
from pytest_frt.errors import CertificateRefused, StorageFault


@pytest.fixture
def kernel(tmp_path: Path) -> Path:
    folder = tmp_path / "build"
    (folder / "ops").mkdir(parents=True)
    (folder / "metadata.json").write_text("{}")
    (folder / "ops" / "_ffn.abi3.so").write_bytes(b"\x7fELF" * 1000)
    (folder / "ops" / "__init__.py").write_bytes(b"")
    return folder


def expected(folder: Path) -> dict[str, str]:
    return tree.role_files(tree.subjects(folder, "kernel"), "kernel")


def test_the_copy_is_private_and_exact(kernel: Path, tmp_path: Path) -> None:
    copy = tree.copy_verified(kernel, expected(kernel), tmp_path / "private", tree=tree.tree_digest(kernel))
    assert stat.S_IMODE(copy.stat().st_mode) == 0o700
    assert stat.S_IMODE((copy / "metadata.json").stat().st_mode) == 0o400
    assert tree.list_files(copy) == tree.list_files(kernel)


def test_empty_files_are_no_subjects_and_need_the_tree_digest(kernel: Path, tmp_path: Path) -> None:
    assert EMPTY_SHA256 not in expected(kernel).values()
    with pytest.raises(CertificateRefused, match="not certified"):
        tree.copy_verified(kernel, expected(kernel), tmp_path / "private")


def flip(folder: Path) -> None:
    data = bytearray((folder / "ops" / "_ffn.abi3.so").read_bytes())
    data[7] ^= 1
    (folder / "ops" / "_ffn.abi3.so").write_bytes(data)


def cache(folder: Path) -> None:
    (folder / "ops" / "__pycache__").mkdir()
    (folder / "ops" / "__pycache__" / "x.cpython-311.pyc").write_bytes(b"x")


def linked_folder(folder: Path) -> None:
    (folder / "more").symlink_to(folder / "ops", target_is_directory=True)


def linked_file(folder: Path) -> None:
    (folder / "metadata.json").rename(folder.parent / "elsewhere")
    (folder / "metadata.json").symlink_to(folder.parent / "elsewhere")


SPOILS: list[tuple[str, Callable[[Path], object], str]] = [
    ("F1 byte of the library", flip, "KERNEL_TREE"),
    ("F2 extra file", lambda f: (f / "extra.py").write_text("x"), "KERNEL_TREE"),
    ("F2b extra empty file", lambda f: (f / "extra.py").write_text(""), "KERNEL_TREE"),
    ("F3 __pycache__", cache, "TREE_BYTECODE"),
    ("F4 stray bytecode", lambda f: (f / "ops.pyc").write_bytes(b"x"), "TREE_BYTECODE"),
    ("F5 linked directory", linked_folder, "TREE_SYMLINK"),
    ("F5b linked file", linked_file, "TREE_SYMLINK"),
    ("F6 file missing", lambda f: (f / "metadata.json").unlink(), "KERNEL_TREE"),
    ("F10 hidden file", lambda f: (f / ".hidden").write_text("x"), "NAME"),
    ("F10 name with an accent", lambda f: (f / "xé.py").write_text("x"), "NAME"),
    ("FIFO", lambda f: os.mkfifo(f / "pipe"), "TREE_SPECIAL"),
]


@pytest.mark.parametrize(("spoil", "code"), [case[1:] for case in SPOILS], ids=[case[0] for case in SPOILS])
def test_spoiled_kernel(kernel: Path, tmp_path: Path, spoil: Callable[[Path], object], code: str) -> None:
    certified, digest = expected(kernel), tree.tree_digest(kernel)
    spoil(kernel)
    with pytest.raises(CertificateRefused) as caught:
        tree.copy_verified(kernel, certified, tmp_path / "private", tree=digest)
    assert caught.value.refusal_code == code
    assert not (tmp_path / "private").exists()


@pytest.mark.parametrize(
    "name", ["a.py", "structure.yaml", "reference.py"], ids=["F7 impl", "F8 structure", "F9 reference"]
)
def test_edited_role_file(tmp_path: Path, name: str) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / name).write_text("certified")
    (source / "other.py").write_text("a role other than kernel leaves its neighbours alone")
    certified = {name: next(file.sha256 for file in tree.list_files(source) if file.name == name)}
    copy = tree.copy_verified(source, certified, tmp_path / "good", role="impl")
    assert [path.name for path in copy.iterdir()] == [name]
    (source / name).write_text("edited")
    with pytest.raises(CertificateRefused, match=name) as caught:
        tree.copy_verified(source, certified, tmp_path / "bad", role="impl")
    assert caught.value.refusal_code == "ROLE_FILE"


@pytest.mark.parametrize("name", ["../secret", "/etc/passwd", "a/../../secret"])
def test_a_certified_name_cannot_leave_the_copy(kernel: Path, tmp_path: Path, name: str) -> None:
    (tmp_path / "secret").write_text("x")
    with pytest.raises(CertificateRefused) as caught:
        tree.copy_verified(kernel, {name: "a" * 64}, tmp_path / "private", role="impl")
    assert caught.value.refusal_code == "NAME"


def test_a_role_file_is_not_read_through_a_linked_folder(tmp_path: Path) -> None:
    real, source = tmp_path / "real", tmp_path / "source"
    for folder in (real, source):
        folder.mkdir()
    (real / "a.py").write_text("x")
    (source / "sub").symlink_to(real, target_is_directory=True)
    certified = {"sub/a.py": tree.list_files(real)[0].sha256}
    with pytest.raises(CertificateRefused, match=r"sub/a\.py"):
        tree.copy_verified(source, certified, tmp_path / "private", role="impl")


def test_nothing_certified_is_a_refusal_and_the_place_must_be_fresh(kernel: Path, tmp_path: Path) -> None:
    with pytest.raises(CertificateRefused, match="no file of role"):
        tree.copy_verified(kernel, {}, tmp_path / "private")
    with pytest.raises(CertificateRefused) as caught:
        tree.copy_verified(kernel, expected(kernel), tmp_path, tree=tree.tree_digest(kernel))
    assert caught.value.refusal_code == "PRIVATE_DIR"
    assert kernel.exists()
    with pytest.raises(StorageFault, match="absent"):
        tree.copy_verified(kernel, expected(kernel), tmp_path / "absent" / "x", tree=tree.tree_digest(kernel))
    with pytest.raises(CertificateRefused, match="No such file"):
        tree.tree_digest(tmp_path / "nowhere")


def test_the_bytes_that_count_are_those_written(kernel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file exchanged between listing and copying does not come through."""
    certified, digest = expected(kernel), tree.tree_digest(kernel)
    honest = tree.spec_tree.tree_sizes

    def exchange(folder: Path) -> dict[str, int]:
        sizes = honest(folder)
        flip(kernel)
        return sizes

    monkeypatch.setattr(tree.spec_tree, "tree_sizes", exchange)
    with pytest.raises(CertificateRefused, match=r"_ffn\.abi3\.so has sha256"):
        tree.copy_verified(kernel, certified, tmp_path / "private", tree=digest)
