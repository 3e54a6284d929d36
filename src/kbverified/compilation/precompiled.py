"""A precompiled torch/extension.h: torch's headers are most of what a small C++ extension costs to build.

GCC takes the header it finds first on the include path, and a ``.gch`` beside it where that was made under the
same code generation flags; otherwise it reads the plain header behind it. So a precompiled header can change how
long a build takes, never what it builds. The trusted side makes it, once per compiler, torch and flag set.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import subprocess
import sysconfig
from pathlib import Path

from kbverified.compilation.toolchain import Toolchain

_WRAPPER = "#pragma once\n#include_next <torch/extension.h>\n"
_OPTIMISATION = re.compile(r"-O(?:[0-3sg]|fast)")


def guess_flags(source: str) -> tuple[str, ...]:
    """The optimisation flag that a candidate's text asks of the host compiler; a wrong guess only costs time."""
    found = _OPTIMISATION.findall(source)
    return (found[-1],) if found else ()


def precompiled_header(root: Path, toolchain: Toolchain, flags: tuple[str, ...]) -> Path | None:
    """Folder to put first on the include path; built on first use (about 15 s), shared by all later builds.

    None where it cannot be made: builds then read the plain headers. Safe under parallel use.
    """
    name = hashlib.sha256(json.dumps([toolchain.identity(), flags]).encode()).hexdigest()[:16]
    folder = root.absolute() / "pch" / name
    gch = folder / "torch" / "extension.h.gch"
    if gch.exists():
        return folder
    (folder / "torch").mkdir(parents=True, exist_ok=True)
    fd = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        if gch.exists() or _build(folder, gch, toolchain, flags):
            return folder
        return None
    finally:
        os.close(fd)


def _build(folder: Path, gch: Path, toolchain: Toolchain, flags: tuple[str, ...]) -> bool:
    import torch  # only its place and C++ standard are asked for; importing it is cheap beside the build

    (folder / "torch" / "extension.h").write_text(_WRAPPER)
    # Made from a file of its own: include_next means nothing in the file that the compiler starts with.
    header = folder / "precompile.h"
    header.write_text("#include <torch/extension.h>\n")
    include = Path(torch.__file__).parent / "include"
    command = [toolchain.cxx, "-x", "c++-header", "-DTORCH_API_INCLUDE_EXTENSION_H"]
    for path in (include, include / "torch" / "csrc" / "api" / "include", Path(sysconfig.get_path("include"))):
        command += ["-isystem", str(path)]
    temporary = gch.with_suffix(f".{os.getpid()}.tmp")
    command += ["-fPIC", cxx_standard(), *flags, "-c", str(header), "-o", str(temporary)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        (folder / "failed.log").write_text(done.stderr[-4000:])
        temporary.unlink(missing_ok=True)
        return False
    temporary.rename(gch)
    return True


def cxx_standard() -> str:
    """The -std flag of torch's own builder, which a precompiled header has to share."""
    import inspect

    from torch.utils import cpp_extension

    match = re.search(r"-std=c\+\+\d+", inspect.getsource(cpp_extension._write_ninja_file_to_build_library))
    if match is None:
        match = re.search(r"-std=c\+\+\d+", inspect.getsource(cpp_extension))
    return match.group(0) if match else "-std=c++17"
