"""``frt bundle``: equal inputs give equal bytes, and whatever is not exactly what was packed is refused by code."""

from __future__ import annotations

import hashlib
import io
import json
import stat
import struct
import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_frt.certs import bundle
from pytest_frt.cli import main
from pytest_frt.errors import CertificateRefused, StorageFault, UsageFault
from tests.certs.conftest import World
from tests.certs.releases import Publisher, listing

AT = ("--at", "2026-12-01T00:00:00Z")
Files = dict[str, bytes]


@pytest.fixture
def mine(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Publisher:
    """What a run left, a log, waivers and a policy, in the working directory."""
    made = Publisher(world, tmp_path)
    build = made.build()
    made.certify(build)
    made.plan(build)
    monkeypatch.chdir(tmp_path)
    Path("run.log").write_text("all well\n")
    Path("waivers.toml").write_text("")
    Path("frt-certs/cpu.lock").write_text("")
    trust = Path("frt-trust.toml")
    trust.write_text(world.policy_text)
    trust.chmod(0o600)
    return made


def make(out: str, *words: str) -> Path:
    assert main(["bundle", out, "--log", "run.log", "--waivers", "waivers.toml", *words]) == 0
    return Path(out)


@pytest.mark.usefixtures("mine")
def test_package_holds_the_run_and_its_surroundings() -> None:
    files = bundle.read(make("x.frt.zip"))
    own = {f"run/{name}" for name in listing(Path("frt-certs")) if not name.endswith(".lock")}
    more = {"manifest.json", "logs/run.log", "waivers/waivers.toml"}
    more |= {"git.json", "environment.json", "signatures.json"}
    assert files.keys() == own | more
    environment, signatures = (json.loads(files[name]) for name in ("environment.json", "signatures.json"))
    assert environment["installed"]["pytest-frt"]
    assert {one["device"]["name"] for one in environment["certified"].values()} == {"Some CPU @ 2.00GHz"}
    assert all(len(one["keyids"]) == 1 for one in signatures.values())
    assert len(signatures) == 2


@pytest.mark.usefixtures("mine")
def test_equal_inputs_give_equal_bytes() -> None:
    first = make("x.frt.zip").read_bytes()
    for path in Path("frt-certs").rglob("*"):
        path.touch()
    assert make("y.frt.zip").read_bytes() == first


@pytest.mark.parametrize("out", ["x.frt.zip", "x"], ids=["zip", "folder"])
@pytest.mark.usefixtures("mine")
def test_sound_package_passes_and_can_be_unpacked(out: str, capsys: pytest.CaptureFixture[str]) -> None:
    make(out)
    assert main(["bundle", "--check", out, *AT, "--extract", "there"]) == 0
    assert "2 accepted, 0 refused" in capsys.readouterr().out
    assert listing(Path("there")) == bundle.read(Path(out))
    assert main(["verify", "there/run", *AT]) == 0


def test_untrusted_package_fails_and_is_not_unpacked(mine: Publisher, capsys: pytest.CaptureFixture[str]) -> None:
    make("x.frt.zip")
    capsys.readouterr()
    text = mine.world.policy_text.replace(mine.world.alice.public.text, "ed25519:" + "A" * 42 + "8=")
    Path("frt-trust.toml").write_text(text)
    status = main(["bundle", "--check", "x.frt.zip", *AT, "--extract", "there", "--json"])
    found = capsys.readouterr()
    assert status == 1, found
    assert {one["code"] for one in json.loads(found.out)} == {"SIG_NONE"}
    assert not Path("there").exists()


def sound() -> Files:
    return bundle.with_manifest({"run/a.txt": b"a", "run/b.txt": b"b"})


def test_pack_of_what_was_read_is_the_file(tmp_path: Path) -> None:
    bundle.write(tmp_path / "x.zip", sound())
    assert bundle.read(tmp_path / "x.zip") == sound()
    bundle.write(tmp_path / "x", sound())
    assert bundle.read(tmp_path / "x") == sound()


def archive(*entries: tuple[zipfile.ZipInfo | str, bytes], method: int = zipfile.ZIP_STORED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as out:
        for name, data in (*sound().items(), *entries):
            out.writestr(name, data)
    return buffer.getvalue()


def entry(name: str, mode: int) -> zipfile.ZipInfo:
    made = zipfile.ZipInfo(name)
    made.external_attr = mode << 16
    return made


def bomb() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as out:
        out.writestr("run/a.txt", b"\0" * (1 << 20))
    return buffer.getvalue()


def twice() -> bytes:
    with pytest.warns(UserWarning, match="Duplicate"):
        return archive(("run/a.txt", b"other"))


def lying_size() -> bytes:
    data = bytearray(bundle.pack(sound()))
    at = data.rfind(b"PK\1\2")
    data[at + 24 : at + 28] = struct.pack("<I", bundle.MAX_FILE_BYTES + 1)
    return bytes(data)


def other_name_inside() -> bytes:
    data = bundle.pack(sound())
    return data.replace(b"run/b.txt", b"run/c.txt", 1) if data.find(b"PK\1\2") > data.find(b"run/b.txt") else b""


def unsorted() -> bytes:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bundle, "_ordered", lambda files: dict(reversed(files.items())))
        return bundle.pack(sound())


def comment() -> bytes:
    buffer = io.BytesIO(bundle.pack(sound()))
    with zipfile.ZipFile(buffer, "a") as out:
        out.comment = b"hidden"
    return buffer.getvalue()


ZIPS: dict[str, tuple[Callable[[], bytes], str]] = {
    "no_zip": (lambda: b"not a zip file", "BUNDLE_FORM"),
    "empty": (lambda: b"", "BUNDLE_FORM"),
    "truncated": (lambda: bundle.pack(sound())[:-30], "BUNDLE_FORM"),
    "prepended_bytes": (lambda: b"#!/bin/sh\n" + bundle.pack(sound()), "BUNDLE_FORM"),
    "appended_bytes": (lambda: bundle.pack(sound()) + b"x", "BUNDLE_FORM"),
    "comment": (comment, "BUNDLE_FORM"),
    "times": (archive, "BUNDLE_FORM"),
    "compressed_bomb": (bomb, "BUNDLE_FORM"),
    "flipped_byte": (lambda: bundle.pack(sound()).replace(b"run/a.txta", b"run/a.txtz"), "BUNDLE_FORM"),
    "name_in_one_header_only": (other_name_inside, "BUNDLE_FORM"),
    "unsorted": (unsorted, "BUNDLE_FORM"),
    "lying_size": (lying_size, "BUNDLE_SIZE"),
    "duplicate": (twice, "BUNDLE_DUP"),
    "climbing_name": (lambda: archive(("../evil", b"x")), "NAME"),
    "absolute_name": (lambda: archive(("/etc/passwd", b"x")), "NAME"),
    "backslash": (lambda: archive(("run\\..\\evil", b"x")), "NAME"),
    "folder": (lambda: archive(("run/more/", b"")), "NAME"),
    "link": (lambda: archive((entry("run/link", stat.S_IFLNK | 0o777), b"/etc")), "TREE_SYMLINK"),
    "pipe": (lambda: archive((entry("run/pipe", stat.S_IFIFO | 0o644), b"")), "TREE_SPECIAL"),
}


@pytest.mark.parametrize(("data", "code"), ZIPS.values(), ids=ZIPS)
def test_zip_that_was_not_packed_so_is_refused(tmp_path: Path, data: Callable[[], bytes], code: str) -> None:
    file = tmp_path / "x.zip"
    file.write_bytes(data())
    with pytest.raises(CertificateRefused) as caught:
        bundle.read(file)
    assert caught.value.refusal_code == code
    assert [path.name for path in tmp_path.iterdir()] == ["x.zip"]


def manifest(**changes: object) -> Files:
    document = json.loads(sound()[bundle.MANIFEST]) | changes
    return {**sound(), bundle.MANIFEST: json.dumps(document).encode()}


def without(name: str) -> Files:
    return {other: data for other, data in sound().items() if other != name}


OF_A = {"sha256": hashlib.sha256(b"a").hexdigest(), "size": 1}
CONTENTS: dict[str, tuple[Files, str]] = {
    "no_manifest": (without(bundle.MANIFEST), "BUNDLE_MANIFEST"),
    "torn_manifest": ({**sound(), bundle.MANIFEST: b"{"}, "JSON_SYNTAX"),
    "other_schema": (manifest(schema="frt-bundle/2"), "BUNDLE_MANIFEST"),
    "unknown_member": (manifest(extra=1), "BUNDLE_MANIFEST"),
    "lists_itself": (
        manifest(files=json.loads(sound()[bundle.MANIFEST])["files"] | {bundle.MANIFEST: OF_A}),
        "BUNDLE_MANIFEST",
    ),
    "changed_file": ({**sound(), "run/a.txt": b"z"}, "BUNDLE_FILE"),
    "extra_file": ({**sound(), "run/z.txt": b"z"}, "BUNDLE_FILE"),
    "missing_file": (without("run/b.txt"), "BUNDLE_FILE"),
    "wrong_size": (
        manifest(files={"run/a.txt": OF_A | {"size": 2}, "run/b.txt": OF_A}),
        "BUNDLE_FILE",
    ),
    "digest_of_another_kind": (manifest(files={"run/a.txt": OF_A | {"sha256": "f" * 40}, "run/b.txt": OF_A}), "DIGEST"),
}


@pytest.mark.parametrize("suffix", [".zip", ""], ids=["zip", "folder"])
@pytest.mark.parametrize(("files", "code"), CONTENTS.values(), ids=CONTENTS)
def test_contents_that_the_manifest_denies_are_refused(tmp_path: Path, files: Files, code: str, suffix: str) -> None:
    bundle.write(tmp_path / f"x{suffix}", files)
    with pytest.raises(CertificateRefused) as caught:
        bundle.read(tmp_path / f"x{suffix}")
    assert caught.value.refusal_code == code


PLANTED: dict[str, tuple[Callable[[Path], object], str]] = {
    "link": (lambda at: (at / "run/link").symlink_to("/etc"), "TREE_SYMLINK"),
    "linked_folder": (lambda at: (at / "more").symlink_to("/etc", target_is_directory=True), "TREE_SYMLINK"),
    "hidden": (lambda at: (at / ".hidden").write_bytes(b""), "NAME"),
}


@pytest.mark.parametrize(("plant", "code"), PLANTED.values(), ids=PLANTED)
def test_folder_with_something_planted_is_refused(tmp_path: Path, plant: Callable[[Path], object], code: str) -> None:
    bundle.write(tmp_path / "x", sound())
    plant(tmp_path / "x")
    with pytest.raises(CertificateRefused) as caught:
        bundle.read(tmp_path / "x")
    assert caught.value.refusal_code == code


@pytest.mark.parametrize(
    ("cap", "value"), [("MAX_FILES", 1), ("MAX_FILE_BYTES", 0), ("MAX_BYTES", 1)], ids=["files", "file", "total"]
)
def test_caps_hold_when_packing_and_when_reading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cap: str, value: int
) -> None:
    files = sound()
    for name in ("x.zip", "x"):
        bundle.write(tmp_path / name, files)
    monkeypatch.setattr(bundle, cap, value)
    for name in ("x.zip", "x"):
        with pytest.raises(CertificateRefused) as caught:
            bundle.read(tmp_path / name)
        assert caught.value.refusal_code == "BUNDLE_SIZE"
    with pytest.raises(CertificateRefused, match=r"over|at most"):
        bundle.with_manifest({"a": b"a", "b": b"b"})


def test_folder_appears_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, seen = bundle.write_atomic, iter(range(9))

    def fail(path: Path, data: bytes) -> None:
        if next(seen) == 2:
            raise StorageFault("disk full")
        real(path, data)

    monkeypatch.setattr(bundle, "write_atomic", fail)
    with pytest.raises(StorageFault):
        bundle.write(tmp_path / "x", sound())
    assert not list(tmp_path.iterdir())


def test_folder_is_never_overwritten(tmp_path: Path) -> None:
    with pytest.raises(UsageFault, match="never overwritten"):
        bundle.write(tmp_path, sound())


@pytest.mark.parametrize("gone", ["*.safetensors", "*.jsonl"], ids=["artefact", "certificate"])
def test_run_that_lacks_something_is_not_packed(mine: Publisher, gone: str, capsys: pytest.CaptureFixture[str]) -> None:
    for path in mine.out.rglob(gone):
        path.unlink()
    assert main(["bundle", "x.frt.zip"]) != 0
    assert ("BUNDLE_INCOMPLETE" in capsys.readouterr().err) == (gone == "*.safetensors")
    assert not Path("x.frt.zip").exists()


@pytest.mark.usefixtures("mine")
def test_package_without_its_artefact_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    files = bundle.read(make("x.frt.zip"))
    less = {name: data for name, data in files.items() if not name.endswith(".safetensors") and name != bundle.MANIFEST}
    bundle.write(Path("less.zip"), bundle.with_manifest(less))
    assert main(["bundle", "--check", "less.zip", *AT]) == 1
    assert "[BUNDLE_INCOMPLETE]" in capsys.readouterr().err


@pytest.mark.usefixtures("mine")
def test_package_of_logs_alone_is_no_success() -> None:
    bundle.write(Path("logs.zip"), sound())
    assert main(["bundle", "--check", "logs.zip", *AT]) == UsageFault.exit_code


def git(*words: str) -> str:
    who = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    return subprocess.run(["git", *who, *words], capture_output=True, text=True, check=True).stdout.strip()  # noqa: S607


@pytest.mark.usefixtures("mine")
def test_git_state_is_commit_and_dirt() -> None:
    def state() -> dict[str, object]:
        found: dict[str, object] = json.loads(bundle.read(make("x.frt.zip"))["git.json"])
        return found

    assert state() == {"commit": "", "dirty": None}
    git("init", "-q")
    git("add", "run.log")
    git("commit", "-q", "-m", "first")
    commit = git("rev-parse", "HEAD")
    assert state() == {"commit": commit, "dirty": False}
    Path("run.log").write_text("changed\n")
    assert state() == {"commit": commit, "dirty": True}
