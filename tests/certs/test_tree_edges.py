"""The private copy at its edges: modes of every folder, handles that are closed, files of exactly one block, roles."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_frt.certs import tree
from pytest_frt.certs.reading import EMPTY_SHA256
from pytest_frt.contracts.record import FileDigest
from pytest_frt.errors import CertificateRefused
from pytest_frt.spec import tree as spec_tree

A, B = b"A = 1\n", b"B = 2\n"


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "build"
    (made / "ops" / "deep").mkdir(parents=True)
    (made / "a.py").write_bytes(A)
    (made / "ops" / "deep" / "b.py").write_bytes(B)
    return made


def certified(folder: Path) -> dict[str, str]:
    return {file.name: file.sha256 for file in tree.list_files(folder)}


def handles() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_the_copy_its_folders_of_files_and_its_files_are_private(folder: Path, tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        copy = tree.copy_verified(folder, certified(folder), tmp_path / "private")
    finally:
        os.umask(before)
    modes = {path.relative_to(copy).as_posix(): stat.S_IMODE(path.stat().st_mode) for path in copy.rglob("*")}
    assert stat.S_IMODE(copy.stat().st_mode) == modes["ops/deep"] == 0o700
    assert modes["a.py"] == modes["ops/deep/b.py"] == 0o400


def fifo(folder: Path) -> None:
    (folder / "a.py").unlink()
    os.mkfifo(folder / "a.py")


def link(folder: Path) -> None:
    (folder / "a.py").rename(folder.parent / "elsewhere")
    (folder / "a.py").symlink_to(folder.parent / "elsewhere")


def file_for_folder(folder: Path) -> None:
    (folder / "ops").rename(folder / "opt")
    (folder / "ops").touch()


def folder_for_file(folder: Path) -> None:
    (folder / "a.py").unlink()
    (folder / "a.py").mkdir()


def fifo_for_folder(folder: Path) -> None:
    (folder / "ops").rename(folder / "opt")
    os.mkfifo(folder / "ops")


SPOILS: dict[str, tuple[Callable[[Path], object], str]] = {
    "missing": (lambda at: (at / "a.py").unlink(), "ROLE_FILE"),
    "no folder": (lambda at: (at / "ops").rename(at / "opt"), "ROLE_FILE"),
    "a file for a folder": (file_for_folder, "ROLE_FILE"),
    "a fifo for a folder": (fifo_for_folder, "ROLE_FILE"),
    "changed": (lambda at: (at / "a.py").write_bytes(B), "ROLE_FILE"),
    "linked": (link, "ROLE_FILE"),
    "fifo": (fifo, "TREE_SPECIAL"),
    "a folder for a file": (folder_for_file, "TREE_SPECIAL"),
}


@pytest.mark.parametrize("role", ["impl", "kernel"])
@pytest.mark.parametrize("spoil", SPOILS)
def test_no_handle_is_left_open_and_no_copy_behind(folder: Path, tmp_path: Path, spoil: str, role: str) -> None:
    expected = certified(folder)
    tree.copy_verified(folder, expected, tmp_path / "good", role=role)
    before = handles()
    tree.copy_verified(folder, expected, tmp_path / "better", role=role)
    assert handles() <= before
    change, code = SPOILS[spoil]
    change(folder)
    with pytest.raises(CertificateRefused) as caught:
        tree.copy_verified(folder, expected, tmp_path / "bad", role=role)
    assert role == "kernel" or caught.value.refusal_code == code
    assert handles() <= before
    assert not (tmp_path / "bad").exists()


@pytest.mark.parametrize("make", [os.mkfifo, Path.touch, Path.exists], ids=["fifo", "file", "nothing"])
@pytest.mark.parametrize("role", ["impl", "kernel"])
def test_a_source_that_is_no_folder_is_refused_and_not_waited_for(
    tmp_path: Path, role: str, make: Callable[[Path], object]
) -> None:
    make(tmp_path / "source")
    with pytest.raises(CertificateRefused) as caught:
        tree.copy_verified(tmp_path / "source", {"a.py": sha(A)}, tmp_path / "private", role=role)
    assert caught.value.refusal_code == {"impl": "ROLE_FILE", "kernel": "KERNEL_TREE"}[role]
    assert not (tmp_path / "private").exists()


@pytest.mark.parametrize("more", [1, 2, 1 << 21])
def test_a_file_that_grew_is_told_as_one_that_grew(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: int
) -> None:
    expected, honest = certified(folder), spec_tree.check_file

    def growing(facts: os.stat_result, name: str) -> int:
        size = honest(facts, name)
        with (folder / "a.py").open("ab") as file:
            file.write(bytes(more))
        return size

    monkeypatch.setattr(spec_tree, "check_file", growing)
    with pytest.raises(CertificateRefused, match=f"grew beyond its {len(A)} bytes") as caught:
        tree.copy_verified(folder, expected, tmp_path / "private", role="impl")
    assert caught.value.refusal_code == "ROLE_FILE"


@pytest.mark.parametrize("size", [1, (1 << 20) - 1, 1 << 20, (1 << 20) + 1, 3 << 20])
def test_files_around_a_block_come_through_whole(tmp_path: Path, size: int) -> None:
    data = bytes(range(256)) * (size // 256) + bytes(size % 256)
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "x.bin").write_bytes(data)
    copy = tree.copy_verified(tmp_path / "source", {"x.bin": sha(data)}, tmp_path / "private", role="impl")
    assert (copy / "x.bin").read_bytes() == data


def test_a_refused_file_is_named_with_both_digests(folder: Path, tmp_path: Path) -> None:
    for role, code in (("kernel", "KERNEL_TREE"), ("impl", "ROLE_FILE")):
        with pytest.raises(CertificateRefused) as caught:
            tree.copy_verified(folder, certified(folder) | {"a.py": "f" * 64}, tmp_path / "private", role=role)
        said = f"{folder / 'a.py'} has sha256 {sha(A)}, certified is {'f' * 64}"
        assert (caught.value.refusal_code, caught.value.message) == (code, said)


def test_nothing_certified_is_refused_by_the_code_of_the_role(folder: Path, tmp_path: Path) -> None:
    for role, code in (("kernel", "KERNEL_TREE"), ("impl", "ROLE_FILE")):
        with pytest.raises(CertificateRefused) as caught:
            tree.copy_verified(folder, {}, tmp_path / "private", role=role)
        assert caught.value.refusal_code == code


def test_the_digest_of_a_tree_binds_a_role_too(folder: Path, tmp_path: Path) -> None:
    some = {"a.py": sha(A)}
    (tmp_path / "alone").mkdir()
    (tmp_path / "alone" / "a.py").write_bytes(A)
    digest = tree.tree_digest(tmp_path / "alone")
    tree.copy_verified(folder, some, tmp_path / "good", role="impl", tree=digest)
    with pytest.raises(CertificateRefused, match=f"has tree digest {digest}, certified is {'f' * 64}") as caught:
        tree.copy_verified(folder, some, tmp_path / "bad", role="impl", tree="f" * 64)
    assert caught.value.refusal_code == "ROLE_FILE"
    assert not (tmp_path / "bad").exists()


def test_empty_files_come_along_where_a_digest_binds_them_and_only_of_a_kernel(folder: Path, tmp_path: Path) -> None:
    expected = certified(folder)
    for name in ("ops/__init__.py", "ops/deep/__init__.py"):
        (folder / name).touch()
    digest = tree.tree_digest(folder)
    copy = tree.copy_verified(folder, expected, tmp_path / "kernel", tree=digest)
    assert [file.name for file in tree.list_files(copy)] == [
        "a.py", "ops/__init__.py", "ops/deep/__init__.py", "ops/deep/b.py",
    ]  # fmt: skip
    role = tree.copy_verified(folder, expected, tmp_path / "impl", role="impl")
    assert sorted(certified(role)) == sorted(expected)
    with pytest.raises(CertificateRefused, match=r"holds ops/.*__init__\.py, which is not certified") as caught:
        tree.copy_verified(folder, expected, tmp_path / "bad")
    assert caught.value.refusal_code == "KERNEL_TREE"


def test_an_empty_file_does_not_hide_a_full_one_that_nobody_certified(folder: Path, tmp_path: Path) -> None:
    expected = certified(folder)
    (folder / "0.py").touch()
    (folder / "z.py").write_bytes(b"Z")
    with pytest.raises(CertificateRefused, match=r"holds z\.py, which is not certified"):
        tree.copy_verified(folder, expected, tmp_path / "bad", tree=tree.tree_digest(folder))
    assert not (tmp_path / "bad").exists()


def test_subjects_carry_their_role_and_only_that_is_taken_off(folder: Path) -> None:
    (folder / "ops" / "__init__.py").touch()
    found = tree.subjects(folder, "impl")
    assert found == (FileDigest("impl/a.py", sha(A)), FileDigest("impl/ops/deep/b.py", sha(B)))
    several = (*found, FileDigest("implement/a.py", sha(B)), FileDigest("kernel/impl/a.py", sha(B)))
    assert tree.role_files(several, "impl") == {"a.py": sha(A), "ops/deep/b.py": sha(B)}
    assert sha(b"") == EMPTY_SHA256


def test_a_folder_that_is_none_is_a_refusal_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(CertificateRefused) as caught:
        tree.list_files(tmp_path / "nowhere")
    assert (caught.value.refusal_code, caught.value.message) == (
        "KERNEL_TREE",
        f"{tmp_path / 'nowhere'}: No such file or directory",
    )


def test_a_place_that_is_taken_keeps_what_is_there(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "mine").touch()
    with pytest.raises(CertificateRefused, match="the copy needs a fresh directory") as caught:
        tree.copy_verified(folder, certified(folder), tmp_path / "taken")
    assert caught.value.refusal_code == "PRIVATE_DIR"
    assert [path.name for path in (tmp_path / "taken").iterdir()] == ["mine"]
