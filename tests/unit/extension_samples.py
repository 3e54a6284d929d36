"""Extensions that build in a fifth of a second, since they read none of torch's headers."""

from __future__ import annotations

ANSWER = r"""
#include <Python.h>
static PyObject* answer(PyObject*, PyObject*) { return PyLong_FromLong(VALUE); }
static PyMethodDef methods[] = {{"answer", answer, METH_NOARGS, nullptr}, {nullptr, nullptr, 0, nullptr}};
static PyModuleDef module = {PyModuleDef_HEAD_INIT, "m", nullptr, -1, methods};
#define JOIN2(a, b) a##b
#define JOIN(a, b) JOIN2(a, b)
PyMODINIT_FUNC JOIN(PyInit_, TORCH_EXTENSION_NAME)() { return PyModule_Create(&module); }
"""


def source(value: int | str) -> str:
    """C++ of a module whose ``answer()`` gives this number."""
    return ANSWER.replace("VALUE", str(value))


BROKEN = source("undeclared_thing")
