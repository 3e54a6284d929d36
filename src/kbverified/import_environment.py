"""Environment variables that decide how torch computes, read while it is imported: no judge has them. Torch-free.

A worker gets an environment of its own, with none of them (judge/party.py). TORCH_ALLOW_TF32_CUBLAS_OVERRIDE, say,
would otherwise change the reference's arithmetic and not the candidate's. And a judge that is forked from an evaluator,
which imports torch once for all, could not have them anyway.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping

from kbverified.sandbox import PASSED_ON

THREAD_COUNTS = (
    "OMP_NUM_THREADS",
    "GOTO_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMEXPR_NUM_THREADS",
)
"""Snakemake sets these for each job. Libraries read them when they are loaded; a forked judge is told afterwards."""

READ_AT_IMPORT = (
    "OMP_", "GOMP_", "KMP_", "MKL", "DNNL_", "ONEDNN_", "OPENBLAS_", "NPY_", "TORCH", "PYTORCH_",
    "NVIDIA_TF32_OVERRIDE", "CUBLAS_", "CUDNN_",
)  # fmt: skip
"""Families of variables that torch, numpy and their libraries read while they are loaded, or decide arithmetic by.

All but the last three seen with an interposed getenv() and os.environ while torch 2.13 was imported.
"""

READ_AT_START = ("LD_", "PYTHON")
"""Families that the loader and the interpreter read before any code of ours runs: nothing can be taken back."""

READ_LATER = (
    *PASSED_ON, *THREAD_COUNTS, "TORCH_CUDA_ARCH_LIST", "TORCH_HOME", "TORCH_EXTENSIONS_DIR", "TORCHINDUCTOR_CACHE_DIR",
    "PYTORCH_NVML_BASED_CUDA_CHECK", "PYTHONPATH", "PYTHONNOUSERSITE", "PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE",
    "PYTHONSAFEPATH", "PYTHONHASHSEED", "PYTHONIOENCODING", "PYTHONUTF8", "PYTHON_VERSION", "PYTHON_SHA256",
)  # fmt: skip
"""Of these families: what is handed on, changes nothing that is recorded, or is read when it is used."""


def read_at_import(environ: Mapping[str, str]) -> list[str]:
    """Names in ``environ`` that torch or a library of its would read while it is imported, in order."""
    return [name for name in sorted(environ) if name.startswith(READ_AT_IMPORT) and name not in READ_LATER]


def read_at_start(environ: Mapping[str, str]) -> list[str]:
    """Names in ``environ`` that the loader or the interpreter has read by the time that anybody asks, in order."""
    return [name for name in sorted(environ) if name.startswith(READ_AT_START) and name not in READ_LATER]


def drop(environ: MutableMapping[str, str]) -> list[str]:
    """Take out what torch would read while it is imported, and say what that was. To be called before it is."""
    names = read_at_import(environ)
    for name in names:
        del environ[name]
    return names
