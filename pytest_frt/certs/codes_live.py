"""Refusal codes of the deployer's machine: live facts, files, loading, and the choice between certificates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

LIVE_CODES: Final[Mapping[str, tuple[int, str, str]]] = {
    # live facts
    "FORM": (10, "certified for another form or phase than is attached for", "certify this form, or attach for that"),
    "DEVICE": (10, "name or settings of the device differ, or tensors lie elsewhere", "use the certified device"),
    "SOFTWARE": (10, "an installed version, or the bytes of a distribution, differ", "install the certified version"),
    "HOST": (10, "library, class, source or settings of the host differ", "load the host that was certified"),
    "SEAT": (10, "a module or tensor of a seat is missing, changed or added", "load the host that was certified"),
    "DTYPE": (10, "a seat's boundary has another dtype than its record", "ask the issuer"),
    "WEIGHTS": (10, "the weights in memory are not the certified ones", "load the certified checkpoint, unmerged"),
    "WEIGHTS_FORM": (10, "a slot's tensor has no plain bytes to hash: quantised, sparse, packed, empty of values",
                     "load the certified checkpoint, unconverted"),
    "DIMS": (10, "sizes of the model's tensors are not the certified ones", "load the checkpoint that was certified"),
    "CELL_STRUCTURE": (10, "the installed structure has another version", "install the certified release"),
    "CELL_IMPL": (10, "the installed impl has another version", "install the certified release"),
    "CELL_HOST": (10, "the model is of another class", "load the host that was certified"),
    "CELL_SCHEME": (10, "the installed impl does not run the scheme", "install the certified release"),
    "CELL_DEVICE": (10, "another kind or architecture of device", "get a certificate for this device"),
    # files
    "KERNEL_TREE": (11, "a kernel file is missing, extra or different", "download the certified revision again"),
    "ROLE_FILE": (11, "a file of the impl, structure, host or scheme is missing, extra or different, or has no role",
                  "install the certified release, unchanged"),
    "ARTEFACT": (11, "the calibration artefact is missing or different", "keep artefacts beside their certificates"),
    "TREE_SYMLINK": (11, "a certified folder holds a symbolic link", "copy the folder without links"),
    "TREE_BYTECODE": (11, "a certified folder holds bytecode, which would run in place of the source", "remove it"),
    "TREE_SPECIAL": (11, "a certified folder holds a pipe, socket or device", "remove it"),
    "TREE_FOREIGN": (11, "a file is a hard link to a file of another user", "put a copy in its place"),
    "TREE_SIZE": (11, "a folder holds more files, bytes or levels than a tree may have", "name the right folder"),
    "BUNDLE_FORM": (11, "a bundle is no zip file as a bundle is written: compressed, commented or with data between",
                    "pack it again: frt bundle"),
    "BUNDLE_SIZE": (11, "a bundle has too many files or bytes", "bundle fewer runs at a time"),
    "BUNDLE_DUP": (11, "a bundle holds two files of one name", "get the bundle anew"),
    "BUNDLE_MANIFEST": (11, "the manifest of a bundle is missing or malformed", "get the bundle anew"),
    "BUNDLE_FILE": (11, "a file of a bundle is missing, extra or different", "get the bundle anew"),
    "BUNDLE_INCOMPLETE": (11, "a bundle lacks an artefact or evidence that a certificate names",
                          "bundle the whole output folder of the run"),
    "BUNDLE_SECRET": (11, "a file that would go into a bundle holds a private key",
                      "move the key out of the run's folder, logs and waivers"),
    "PRIVATE_DIR": (13, "the private folder for verified copies exists already", "clear the temporary folder"),
    # loading
    "ID_FORM": (13, "a kernel's id is no plain lower-case name", "build the kernel with an id of its own"),
    "ID_SHADOWS": (13, "a kernel's id is the name of a standard or installed module",
                   "build the kernel with an id of its own"),
    "ID_LOADED": (13, "a module of the kernel's id was imported before, and not from verified bytes",
                  "attach in a fresh process"),
    "ID_TWICE": (13, "two builds have one id: their submodules would mix", "attach in processes of their own"),
    "OPS_TAKEN": (13, "the kernel's namespace of ops is registered already", "attach in a fresh process"),
    "LIBRARY_LOADED": (13, "a library of the kernel is mapped already", "attach in a fresh process"),
    "LOCAL_KERNELS": (13, "the environment overrides the kernel with a local folder", "unset LOCAL_KERNELS"),
    "JIT_CACHE": (13, "a compile cache belongs to others, is writable by them or is no folder",
                  "name a cache folder of your own"),
    "JIT_STALE": (13, "an extension of the kernel's name was compiled earlier", "remove it from the cache"),
    "LOAD": (14, "certified code cannot be imported here: it raises, or lacks a module or library",
             "install what the message names"),
    "BIND": (14, "the impl refuses the seat, or fails at it", "read the reason; the seat is not what the impl takes"),
    "SMOKE": (14, "the bound seat's one call raised, or gave a wrong shape or dtype, a NaN or an infinity",
              "tell the issuer"),
    # choice
    "NOT_CERTIFIED": (16, "the certificate itself lists this seat as refused", "nothing: the host's module stays"),
    "NO_PLAN": (16, "the policy activates plans and no accepted plan names this cell", "get the plan certificate"),
    "OVERLAP": (16, "a newer certificate or plan holds the seats already", "nothing: the newer one runs"),
    "SEATED": (16, "the seat is attached already", "detach the other handle first"),
    # faults that attach passes on
    "KERNEL_UNAVAILABLE": (11, "no build of the kernel serves this machine", "name a build: attach(kernels=...)"),
    "KERNEL_REFUSED": (11, "a build's metadata cannot be used", "build the kernel again"),
    "PROVIDER": (11, "an installed entry cannot be read", "install the certified release, unchanged"),
    "SPEC": (11, "an installed entry breaks its schema", "install the certified release, unchanged"),
    "USAGE": (11, "an entry that the certificate names is not installed", "install the package that brings it"),
    # endings of a run that certifies
    "WITHHELD": (0, "statements could not be made", "read the reason that is named beside it"),
    "PLANTED": (0, "statements or certificates lie in the output folder that the run did not write", "remove them"),
}  # fmt: skip
