"""Compilers and flags that a build depends on, as far as they decide what comes out. Torch-free."""

from __future__ import annotations

import functools
import importlib.metadata
import importlib.util
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path


class MissingCompiler(RuntimeError):
    """A C++ compiler is needed and none is there: an infrastructure fault."""


@dataclass(frozen=True)
class Toolchain:
    """What builds: interpreter, torch, host and device compiler, and the GPU architectures asked for."""

    python: str
    torch: str
    cxx: str
    """Path of the C++ compiler."""
    cxx_version: str | None
    """None where there is no C++ compiler: candidates that build nothing still run."""
    nvcc_version: str | None
    arch: str | None
    """TORCH_CUDA_ARCH_LIST, for example 9.0. None on a CPU device."""

    def identity(self) -> list[str | None]:
        return [self.python, self.torch, self.cxx_version, self.nvcc_version, self.arch]

    def require_compiler(self) -> None:
        """Raises MissingCompiler where a candidate has to be built and no C++ compiler is there, or it cannot work."""
        if self.cxx_version is None:
            what = self.cxx or "neither c++ nor g++ is on PATH"
            raise MissingCompiler(
                f"no C++ compiler ({what}): install one (Debian: apt install g++) or set CXX to its path"
            )
        folder = torch_folder()
        if folder is not None and any(character.isspace() for character in str(folder)):
            # torch's builder hands this path to the linker without quotes: every candidate would fail to build.
            raise MissingCompiler(
                f"torch lies in {str(folder)!r}, and its extension builder cannot link from a path with a space: "
                "make the environment elsewhere (make VENV=/path/without/space) or move the checkout"
            )

    def environment(self) -> dict[str, str]:
        """Variables that make torch's builder use this toolchain."""
        variables = {"CXX": self.cxx}
        if self.arch:
            variables["TORCH_CUDA_ARCH_LIST"] = self.arch
        home = cuda_home()
        if self.nvcc_version and home:
            variables["CUDA_HOME"] = str(home)
        return variables


def torch_folder() -> Path | None:
    """Where torch is installed, found without importing it; None where it is not."""
    found = importlib.util.find_spec("torch")
    return Path(found.origin).parent if found is not None and found.origin else None


def cuda_home() -> Path | None:
    """Where CUDA's compiler lives: CUDA_HOME, the nvcc on PATH, /usr/local/cuda; None where there is none."""
    named = os.environ.get("CUDA_HOME") or os.environ.get("CUDA_PATH")
    if named:
        return Path(named)
    nvcc = shutil.which("nvcc")
    if nvcc:
        return Path(nvcc).resolve().parent.parent
    return Path("/usr/local/cuda") if Path("/usr/local/cuda/bin/nvcc").exists() else None


@functools.cache
def find(arch: str | None) -> Toolchain:
    """The toolchain of this machine for an architecture list (None: no CUDA)."""
    cxx = os.environ.get("CXX") or shutil.which("c++") or shutil.which("g++") or ""
    version = _version([cxx, "--version"]) if cxx else None
    home = cuda_home() if arch else None
    nvcc = _version([str(home / "bin" / "nvcc"), "--version"], line=-1) if home else None
    return Toolchain(
        python=f"{sys.implementation.cache_tag}",
        torch=importlib.metadata.version("torch"),
        cxx=cxx,
        cxx_version=version,
        nvcc_version=nvcc,
        arch=arch,
    )


def _version(command: list[str], line: int = 0) -> str | None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    lines = [text for text in done.stdout.splitlines() if text.strip()]
    return lines[line] if lines and done.returncode == 0 else None
