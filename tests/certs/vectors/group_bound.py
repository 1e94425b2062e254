"""Vectors on what a certificate is bound to: cell, software, host, weights, files, names; and what loading refuses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from tests.certs.vectors import world
from tests.certs.vectors.make import predicate, signed, subject, vector
from tests.certs.vectors.model import ACCEPT, Vector

EMPTY: Final = world.digest("")
SEAT_ID: Final = world.SEAT.facts.id
NAMES: Final = (
    "../../etc/passwd",
    "/etc/passwd",
    "kernel/../x.so",
    "kernel//x",
    "kernel/a\\b",
    "kernel/C:x",
    "kernel/aux.py",
    "kernel/x.",
    "kernel/.hidden",
    "kernel/xé.py",
    "kernel/" + "x" * 300,
    "kernel/" + "x/" * 20 + "y",
    "",
)


def cells() -> Iterator[Vector]:
    """Yield B1 to B8."""
    live: dict[str, tuple[str, str, dict[str, Any]]] = {
        "B1a": ("another version of the structure is installed", "CELL_STRUCTURE", {"structure_version": 2}),
        "B1b": ("another version of the impl is installed", "CELL_IMPL", {"impl_version": 2}),
        "B1c": ("another host class is loaded", "CELL_HOST", {"host_class": "transformers.models.other.Other"}),
        "B1d": ("the installed impl does not know the scheme", "CELL_SCHEME", {"schemes": ["w8a16"]}),
        "B1e": ("another kind of device", "CELL_DEVICE", {"device": {"kind": "cuda"}}),
        "B1f": ("another architecture", "CELL_DEVICE", {"device": {"arch": "aarch64"}}),
        "B1g": ("another device of the same architecture", "DEVICE", {"device": {"name": "Other CPU"}}),
        "B1h": ("fewer threads", "DEVICE", {"device": {"threads": 1}}),
        "B2": ("torch 2.13.1", "SOFTWARE", {"software": {"torch": "2.13.1+cpu"}}),
        "B3": ("the same torch built for something else", "SOFTWARE", {"software": {"torch": "2.13.0+cu130"}}),
        "B5": ("another transformers", "HOST", {"library": {"transformers": "5.25.0"}}),
        "B5b": ("the replaced class has another source", "HOST", {"sources": {"toy.ToyMLP": world.digest("edited")}}),
        "B6": ("another configuration", "HOST", {"config_digest": world.digest("other config")}),
        "B7": ("other weights in memory", "WEIGHTS", {"weights": {SEAT_ID: world.digest("other weights")}}),
        "B7b": ("weights on another device", "DEVICE", {"seat_device": "cuda"}),
    }
    yield vector("B0", "the process that was certified", ACCEPT, live={"same": True})
    for name, (shows, code, facts) in live.items():
        yield vector(name, shows, code, live=facts)
    yield vector(
        "B4", "torch is not stated", "SOFTWARE_MISSING", predicate(lambda found: found["software"].pop("torch"))
    )
    yield vector(
        "B4b", "no device name is stated", "DEVICE_MISSING", predicate(lambda found: found["device"].update(name=""))
    )
    yield vector(
        "B4c",
        "transformers is not stated",
        "HOST_MISSING",
        predicate(lambda found: found["host"]["library"].pop("transformers")),
    )
    yield vector(
        "B8",
        "weights bound by configuration",
        "WEIGHTS_BINDING",
        predicate(lambda found: found["weights"].update(binding="config")),
    )


def files() -> Iterator[Vector]:
    """Yield group F: ``tree`` says what a reader finds where the certified files should lie."""
    yield vector("F0", "the certified files", ACCEPT, tree=_tree())
    yield vector(
        "F1",
        "one byte of the library",
        "KERNEL_TREE",
        tree=_tree(change={"kernel/_ffn_cpu.abi3.so": "Stands for machine code\n"}),
    )
    yield vector("F2", "an extra file", "KERNEL_TREE", tree=_tree(change={"kernel/extra.py": "x = 1\n"}))
    yield vector("F2b", "an extra empty file", "KERNEL_TREE", tree=_tree(change={"kernel/empty.py": ""}))
    yield vector(
        "F3",
        "a folder of bytecode",
        "TREE_BYTECODE",
        tree=_tree(change={"kernel/__pycache__/ops.cpython-311.pyc": "bytecode"}),
    )
    yield vector("F4", "a stray compiled module", "TREE_BYTECODE", tree=_tree(change={"kernel/ops.pyc": "bytecode"}))
    yield vector("F5", "a folder that is a symbolic link", "TREE_SYMLINK", tree=_tree(link={"kernel/more": "../impl"}))
    yield vector(
        "F5b",
        "a file that is a symbolic link",
        "TREE_SYMLINK",
        tree=_tree(remove=["kernel/ops.py"], link={"kernel/ops.py": "../impl/fast.py"}),
    )
    yield vector("F5c", "a pipe", "TREE_SPECIAL", tree=_tree(fifo=["kernel/pipe"]))
    yield vector("F6", "a file is missing", "KERNEL_TREE", tree=_tree(remove=["kernel/ops.py"]))
    for name, edited in (("F7", "impl/fast.py"), ("F8", "structure/structure.yaml"), ("F9", "reference/reference.py")):
        role = edited.partition("/")[0]
        yield vector(name, f"the {role} was edited", "ROLE_FILE", tree=_tree(role, change={edited: "edited\n"}))
    yield vector(
        "F9b",
        "the impl is a symbolic link",
        "ROLE_FILE",
        tree=_tree("impl", remove=["impl/fast.py"], link={"impl/fast.py": "../kernel/ops.py"}),
    )


def subjects() -> Iterator[Vector]:
    """Yield F11 and its kin: what a statement may say about files."""
    yield vector("F11", "md5 only", "DIGEST", subject(digest={"md5": "a" * 32}))
    yield vector("F11b", "an empty file as subject", "DIGEST", subject(digest={"sha256": EMPTY}))
    yield vector("F11c", "a digest in capitals", "DIGEST", subject(digest={"sha256": "A" * 64}))
    yield vector(
        "F12",
        "no impl among the subjects",
        "ROLE_FILE",
        signed(
            lambda statement: statement.update(
                subject=[one for one in statement["subject"] if not one["name"].startswith("impl/")]
            )
        ),
    )
    yield vector("F13", "a subject of no known role", "ROLE_FILE", subject(name="extra/x.py"))
    yield vector(
        "F14",
        "a subject twice",
        "SCHEMA",
        signed(lambda statement: statement["subject"].append(statement["subject"][0])),
    )


def names() -> Iterator[Vector]:
    """Yield F10."""
    for number, name in enumerate(NAMES):
        yield vector(f"F10.{number}", f"a subject named {name[:24]!r}", "NAME", subject(name=name))


def loads() -> Iterator[Vector]:
    """Yield group L: ``load`` says what lies in the way of loading accepted files."""
    yield vector(
        "L1", "a library of the same inode is loaded already", "LIBRARY_LOADED", load={"library": "same inode"}
    )
    yield vector("L2", "the build's id is the name of a module", "ID_SHADOWS", load={"metadata_id": "json"})
    yield vector("L3", "the op namespace was registered by another copy", "OPS_TAKEN", load={"op_namespace": "taken"})
    yield vector(
        "L4",
        "LOCAL_KERNELS names the repository",
        "LOCAL_KERNELS",
        load={"environment": {"LOCAL_KERNELS": "acme/frt-cpu=/elsewhere"}},
    )
    yield vector(
        "L5",
        "others may write the cache of a compiler",
        "JIT_CACHE",
        load={"environment": {"TRITON_CACHE_DIR": "mode 0777"}},
    )


def _tree(role: str = "kernel", **found: Any) -> dict[str, Any]:
    """Return what a reader finds: the certified files after ``remove``, ``change``, ``link`` and ``fifo``."""
    return {"role": role, "certified": world.FILES, **found}
