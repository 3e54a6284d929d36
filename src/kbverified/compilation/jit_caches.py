"""Inside the worker: what the gate left of JIT caches, copied to where this process may write."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

_CACHE_LIMIT_BYTES = 1 << 30
_CACHE_LIMIT_FILES = 20_000
_SHARED = "/tmp"


def unseal() -> None:
    """Copy the gate's JIT caches (Triton and the like) to this process's private folder: never written back.

    The candidate wrote them, so they may be anything. What is no plausible cache stays behind: nothing in it may end
    this process before the candidate itself is loaded, for then nobody could be blamed.
    """
    sealed = os.environ.pop("KBV_SEALED_CACHE", None)
    if sealed is None:
        return
    _move_to_scratch()
    private = os.environ.get("TRITON_CACHE_DIR")
    if private is None:
        return
    for name in ("triton", "nv", "inductor"):
        source, target = Path(sealed) / name, Path(private).parent / name
        if source.is_symlink() or not source.is_dir() or target.exists():
            continue
        if not _plausible_cache(source):
            print(f"worker: the {name} cache is too large to be one and is not used")
            continue
        try:
            shutil.copytree(source, target, symlinks=True)
        except (OSError, RecursionError) as error:
            print(f"worker: the {name} cache could not be copied and is not used: {str(error)[:200]}")
            shutil.rmtree(target, ignore_errors=True)


def _move_to_scratch() -> None:
    """Without a /tmp of its own a worker has a scratch folder, and would else find the caches that others left in /tmp.

    What is already there is not copied, so that it would start from those and not from its own.
    """
    scratch = os.environ.get("TMPDIR", _SHARED)
    for name in ("TORCH_EXTENSIONS_DIR", "TRITON_CACHE_DIR", "CUDA_CACHE_PATH", "TORCHINDUCTOR_CACHE_DIR"):
        place = Path(os.environ.get(name, ""))
        if scratch != _SHARED and place.is_relative_to(_SHARED):
            os.environ[name] = str(Path(scratch) / place.relative_to(_SHARED))


def _plausible_cache(folder: Path) -> bool:
    """Whether a folder has the size of a cache; links are not followed."""
    size = files = 0
    for place, folders, names in os.walk(folder):
        files += len(folders) + len(names)
        if files > _CACHE_LIMIT_FILES:
            return False
        size += sum(os.lstat(os.path.join(place, name)).st_size for name in names)
    return size <= _CACHE_LIMIT_BYTES
