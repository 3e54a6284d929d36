"""The slim bindings' header, precompiled: pybind11 is most of what a generated main.cpp costs to build.

GCC looks into the folder ``torch/extension.h.gch`` for a precompiled header that was made under the same code
generation flags, and reads the header beside it where there is none; it takes one only where it is the very first
include of a file. So a precompiled header can change how long a build takes,
never what it builds. The trusted side makes it, once per compiler, torch and flag set.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
from pathlib import Path

from kbverified.compilation.slim_compiler import Compiler
from kbverified.compilation.slim_headers import BINDINGS
from kbverified.compilation.slim_tree import DEFINE, failed_lately, locked
from kbverified.compilation.toolchain import Toolchain

_OPTIMISATION = re.compile(r"-O(?:[0-3sg]|fast)")
_FOR_THE_HOST = re.compile(r"\bextra_cflags\s*=\s*\[([^\]]*)\]")
_FOR_THE_DEVICE = re.compile(r"\bextra_cuda_cflags\s*=\s*\[[^\]]*\]")


def guess_flags(source: str) -> tuple[str, ...]:
    """The optimisation flag that a candidate's text asks of the host compiler; a wrong guess only costs time."""
    said = _FOR_THE_HOST.findall(source)
    found = _OPTIMISATION.findall(said[-1] if said else _FOR_THE_DEVICE.sub("", source))
    return (found[-1],) if found else ()


def precompile(tree: Path, toolchain: Toolchain, flags: tuple[str, ...]) -> bool:
    """Have the bindings' header precompiled for these flags (about 6 s, once). Safe under parallel use.

    False where it cannot be made: builds then read the plain header.
    """
    folder = tree / BINDINGS / "torch" / "extension.h.gch"
    name = "".join(flags).strip("-") or "none"
    made, failed = folder / f"{name}.gch", tree / f"failed-{name}.log"
    if made.exists():
        return True
    if failed_lately(failed):
        return False
    try:
        folder.mkdir(exist_ok=True)
        folder.chmod(0o755)
        with locked(tree):
            return made.exists() or (not failed_lately(failed) and _build(tree, made, failed, toolchain, flags))
    except OSError as error:
        print(f"the bindings' header is not precompiled: {error}", file=sys.stderr)
        return False


def _build(tree: Path, made: Path, failed: Path, toolchain: Toolchain, flags: tuple[str, ...]) -> bool:
    # Beside the folder, which GCC tries file by file: half a header would only be a warning, but in a candidate's log.
    temporary = tree / f"{made.name}.{os.getpid()}.tmp"
    arguments = [*flags, "-x", "c++-header", "-c", str(tree / "kbv" / "precompile.h"), "-o", str(temporary)]
    try:
        Compiler(toolchain).run(arguments, [f"-I{tree / BINDINGS}", f"-I{tree}", DEFINE])
    except (OSError, subprocess.SubprocessError) as error:
        with contextlib.suppress(OSError):
            failed.write_text(str(getattr(error, "stderr", "") or error)[-4000:])
        temporary.unlink(missing_ok=True)
        return False
    temporary.chmod(0o644)  # whatever the umask: workers have uids of their own
    temporary.rename(made)
    return True
