"""Where compilers that run inside a process keep finished code, as the environment states it."""

from __future__ import annotations

import os
import pwd
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

TRITON: Final = "TRITON_CACHE_DIR"
EXTENSIONS: Final = "TORCH_EXTENSIONS_DIR"
INDUCTOR: Final = "TORCHINDUCTOR_CACHE_DIR"


def jit_caches(environ: Mapping[str, str]) -> dict[str, Path]:
    """Return the folders that compilers of kernels take finished code from: the variable that names each, and it."""
    home = Path(environ.get("HOME") or Path.home())
    cache = Path(environ.get("XDG_CACHE_HOME") or home / ".cache")
    triton = Path(environ.get("TRITON_HOME") or home) / ".triton" / "cache"
    user = environ.get("LOGNAME") or environ.get("USER") or environ.get("LNAME") or environ.get("USERNAME") or _login()
    inductor = Path(tempfile.gettempdir()) / f"torchinductor_{user}"
    defaults = {TRITON: triton, EXTENSIONS: cache / "torch_extensions", INDUCTOR: inductor}
    return {name: Path(environ.get(name) or folder) for name, folder in defaults.items()}


def _login() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # a user without an entry
        return f"uid_{os.getuid()}"
