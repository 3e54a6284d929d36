"""The host compiler as torch's own builder calls it, for what the trusted side makes of torch's headers. Torch-free."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sysconfig
from pathlib import Path

from kbverified.compilation.declarations import Declarations, scan
from kbverified.compilation.toolchain import Toolchain, cuda_home, torch_folder

LIMIT_S = 300.0
"""A compiler that takes longer hangs: the longest of these runs takes some 10 s, and all other builds wait for it."""


class Compiler:
    """The host compiler with the include path of torch's builder."""

    def __init__(self, toolchain: Toolchain):
        installed = torch_folder()
        assert installed is not None
        include = installed / "include"
        paths = [include, include / "torch" / "csrc" / "api" / "include"]
        home = cuda_home() if toolchain.nvcc_version else None
        if home is not None:
            paths.append(home / "include")
        paths.append(Path(sysconfig.get_path("include")))
        self.command = [toolchain.cxx, "-DTORCH_API_INCLUDE_EXTENSION_H"]
        self.paths = [word for path in paths for word in ("-isystem", str(path))]
        self.flags = ["-fPIC", cxx_standard(installed)]

    def run(self, arguments: list[str], before: list[str] | None = None, limit_s: float = LIMIT_S) -> str:
        """Standard output. Raises CalledProcessError with ``stderr``; TimeoutExpired after ``limit_s``."""
        command = [*self.command, *(before or []), *self.paths, *self.flags, *arguments]
        pipe = subprocess.PIPE
        # A session of its own: what the driver has started holds the pipes, and has to end with it.
        with subprocess.Popen(
            command, stdout=pipe, stderr=pipe, text=True, errors="replace", start_new_session=True
        ) as process:
            try:
                out, errors = process.communicate(timeout=limit_s)
            except BaseException:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                raise
        if process.returncode:
            raise subprocess.CalledProcessError(process.returncode, command, out, errors)
        return out

    def declared(self, folder: Path, header: str, before: list[str] | None = None) -> Declarations:
        """What a header declares, with all that it includes."""
        probe = folder / "kbv" / "probe.cpp"
        probe.write_text(f"#include <{header}>\n")
        return scan(self.run(["-E", "-dD", str(probe)], before))

    def included(self, folder: Path, header: str) -> frozenset[str]:
        """The files that a header includes, and theirs."""
        probe = folder / "kbv" / "probe.cpp"
        probe.write_text(f"#include <{header}>\n")
        return frozenset(self.run(["-M", str(probe)]).replace("\\\n", " ").split()[1:])


def cxx_standard(installed: Path) -> str:
    """The -std flag of torch's own builder, which a precompiled header has to share."""
    text = (installed / "utils" / "cpp_extension.py").read_text()
    start = max(text.find("def _write_ninja_file_to_build_library"), 0)
    match = re.search(r"-std=c\+\+\d+", text[start:]) or re.search(r"-std=c\+\+\d+", text)
    return match.group(0) if match else "-std=c++17"
