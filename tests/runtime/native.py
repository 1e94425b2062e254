"""Tiny compiled libraries for tests: one that Python imports, and one that registers an op of torch."""

from __future__ import annotations

import shutil
import subprocess
import sysconfig
from pathlib import Path

import pytest
import torch

SUFFIX = sysconfig.get_config_var("EXT_SUFFIX")
MODULE = """
#include <Python.h>
static PyObject *mark(PyObject *self, PyObject *args) { return PyUnicode_FromString("MARK"); }
static PyMethodDef methods[] = {{"mark", mark, METH_NOARGS, "Return who this is."}, {0}};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "NAME", 0, -1, methods};
PyMODINIT_FUNC PyInit_NAME(void) { return PyModule_Create(&definition); }
"""
OPS = """
#include <stdint.h>
extern int aoti_torch_library_init_def(const char *, const char *, uint32_t, void **);
extern int aoti_torch_library_def(void *, const char *);
__attribute__((constructor)) static void start(void) {
  void *library;
  aoti_torch_library_init_def("NAME", "ops.c", 1, &library);
  aoti_torch_library_def(library, "MARK(Tensor x) -> Tensor");
}
"""


def compiled(source: str, at: Path, name: str, mark: str) -> Path:
    """Compile a source with NAME and MARK put in; skips the test where there is no compiler."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    headers = Path(sysconfig.get_path("include"))
    if compiler is None or not (headers / "Python.h").is_file():
        pytest.skip("needs a C compiler and the headers of Python")
    text = at.with_suffix(".c")
    text.write_text(source.replace("NAME", name).replace("MARK", mark))
    libraries = [f"-L{Path(torch.__file__).parent / 'lib'}", "-ltorch_cpu"] if source is OPS else []
    command = [compiler, "-shared", "-fPIC", f"-I{headers}", str(text), "-o", str(at), *libraries]
    subprocess.run(command, check=True, capture_output=True)
    text.unlink()
    return at
