"""Python packages, torch, compilers: what builds and runs a candidate, tried out where that takes seconds only."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from kbverified.check.chain import environment
from kbverified.compilation import toolchain
from kbverified.doctor.finding import Finding, fail, ok, warn

PROBE_S = 180.0
COMPILE_S = 120.0
SNAKEMAKE_LEAST = (9, 27)
CXX_SOURCE = "#include <Python.h>\n#include <vector>\nint probe(std::vector<int> v) { return (int)v.size(); }\n"
CUDA_SOURCE = "__global__ void probe(float *x) { x[threadIdx.x] *= 2.0f; }\n"


def torch_facts() -> dict[str, Any]:
    """What devices/probe.py prints, from a process of its own. Raises RuntimeError with its words where it fails."""
    command = [sys.executable, "-P", "-m", "kbverified.devices.probe"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PROBE_S, env=environment())
    if done.returncode:
        raise RuntimeError("; ".join(done.stderr.strip().splitlines()[-2:]) or f"exit {done.returncode}")
    facts: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return facts


def packages() -> Iterator[Finding]:
    yield ok("Python", f"{platform.python_version()}, {sys.executable}")
    found = _version("snakemake")
    todo = "pip install 'snakemake>=9.27,<10' (kbverified check does without)"
    if found is None:
        yield warn("Snakemake", "not installed", todo)
    elif tuple(map(int, re.findall(r"\d+", found)[:2])) < SNAKEMAKE_LEAST or not found.startswith("9."):
        yield warn("Snakemake", found, todo)
    else:
        yield ok("Snakemake", found)
        yield report_parts(_package_folder("snakemake"))


REPORT_PARTS = ("react/react.production.min.js", "tailwindcss/tailwind.css", "vega/vega.js", "vega-embed/vega-embed.js")
"""Some of what Snakemake puts into its report; they lie in its wheel, and are downloaded where they do not."""


def report_parts(snakemake: Path | None) -> Finding:
    """Whether ``snakemake --report`` needs no network: its JavaScript is beside the installed package."""
    missing = [part for part in REPORT_PARTS if snakemake is None or not (snakemake / "assets/data" / part).is_file()]
    if missing:
        todo = "pip install --force-reinstall snakemake, from a wheel: else snakemake --report downloads it each time"
        return warn("Snakemake's report", f"parts are missing: {', '.join(missing)}", todo)
    return ok("Snakemake's report", "its parts are installed: snakemake --report needs no network")


def _package_folder(package: str) -> Path | None:
    """Where a package lies, found without importing it."""
    found = importlib.util.find_spec(package)
    return Path(found.origin).parent if found is not None and found.origin else None


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def torch(facts: Mapping[str, Any] | str, device: str) -> Iterator[Finding]:
    """torch and the CPU device, from the probe's facts; a string says why there are none."""
    if isinstance(facts, str):
        yield fail("torch", facts, "mend the environment: make demo sets one up, and pip install -e . does")
        return
    yield _torch(facts, device)
    if "cpu_error" in facts or not facts["cpu"]["shared"]:
        why = facts.get("cpu_error") or "a shared buffer did not show what was written into it"
        yield fail("device cpu", why, "it needs memfd_create and a writable /proc/self: run outside this container")
        return
    cpu = facts["cpu"]
    works = f"works: buffers are shared, a product of 256 rows takes {cpu['matmul_ms']:.2g} ms"
    if cpu["resident_peak"]:
        yield ok("device cpu", works)
    else:
        yield warn("device cpu", works, "allow writing /proc/self/clear_refs: without it memory is not measured")


def _torch(facts: Mapping[str, Any], device: str) -> Finding:
    cuda = facts["cuda"]
    value = f"{facts['torch']}, {f'for CUDA {cuda}' if cuda else 'without CUDA'}"
    if device != "cuda":
        return ok("torch", value)
    if facts["cuda"] is None:
        return fail(
            "torch", value, "install a CUDA build of torch: pip install torch --force-reinstall, see pytorch.org"
        )
    if not facts["cuda_bindings"]:
        return fail("torch", f"{value}; cuda-bindings missing", "pip install -r envs/gpu.txt")
    if not facts["available"]:
        return fail("torch", f"{value}, and it sees no GPU", "look at nvidia-smi and CUDA_VISIBLE_DEVICES")
    if not facts["triton"]:
        return warn("torch", f"{value}; triton missing", "pip install triton: candidates in Triton fail without")
    return ok("torch", value)


# --- compilers ----------------------------------------------------------------------------------------------


def compilers(torch_cuda: str | None, arch: str | None) -> Iterator[Finding]:
    """C++ compiler, ninja and, with an architecture to build for, nvcc; each tried on a small file."""
    found = toolchain.find(arch)
    try:
        found.require_compiler()
    except toolchain.MissingCompiler as error:
        yield fail("C++ compiler", found.cxx or "none", str(error))
    else:
        include = sysconfig.get_paths()["include"]
        command = [found.cxx, "-std=c++17", "-fPIC", "-I", include, "-c", "probe.cpp", "-o", "probe.o"]
        said = _compile(command, "probe.cpp", CXX_SOURCE)
        value = f"{found.cxx_version} ({found.cxx})"
        if said is None:
            yield ok("C++ compiler", value)
        else:
            python_h = not Path(include, "Python.h").exists()
            todo = "install Python's headers (Debian: apt install python3-dev)" if python_h else "mend the compiler"
            yield fail("C++ compiler", f"{value}: does not compile: {said}", todo)
    yield _ninja()
    if arch is not None:
        yield from nvcc(found.nvcc_version, torch_cuda, arch)


def _ninja() -> Finding:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    ninja = shutil.which("ninja", path=path)
    if ninja is None:
        return fail("ninja", "not found", "pip install ninja: torch builds extensions with it")
    done = subprocess.run([ninja, "--version"], capture_output=True, text=True, check=False, timeout=60)
    if done.returncode:
        return fail("ninja", f"{ninja} does not run", "pip install --force-reinstall ninja")
    return ok("ninja", f"{done.stdout.strip()} ({ninja})")


def nvcc(version: str | None, torch_cuda: str | None, arch: str) -> Iterator[Finding]:
    """nvcc beside the CUDA that torch was built for: torch refuses another major version."""
    if version is None:
        todo = "install the CUDA toolkit of torch's version and set CUDA_HOME: only candidates in CUDA C++ need it"
        yield warn("nvcc", "not found", todo)
        return
    release = cuda_release(version)
    value = f"CUDA {release or '?'} ({toolchain.cuda_home()})"
    if release is not None and torch_cuda is not None and release.split(".")[0] != torch_cuda.split(".")[0]:
        todo = f"install CUDA {torch_cuda} and set CUDA_HOME, or a torch for CUDA {release}"
        yield fail("nvcc", f"{value}, and torch is for CUDA {torch_cuda}: it will not build", todo)
        return
    home = toolchain.cuda_home()
    code = arch.replace(".", "")
    said = _compile(
        [f"{home}/bin/nvcc", f"-arch=sm_{code}", "-c", "probe.cu", "-o", "probe.o"], "probe.cu", CUDA_SOURCE
    )
    if said is not None:
        yield fail(
            "nvcc", f"{value}: does not compile for {arch}: {said}", "use a host compiler that this nvcc supports"
        )
    elif torch_cuda is not None and release != torch_cuda:
        yield warn("nvcc", f"{value}, and torch is for CUDA {torch_cuda}", "usually works; the same version is safer")
    else:
        yield ok("nvcc", value)


def cuda_release(text: str) -> str | None:
    """``13.0`` of the last line of ``nvcc --version``: ``Build cuda_13.0.r13.0/compiler.36424714_0``."""
    match = re.search(r"(?:cuda_|release )(\d+\.\d+)", text)
    return match[1] if match else None


def _compile(command: list[str], name: str, source: str) -> str | None:
    """What a compiler said last where it failed; None where it did not."""
    with tempfile.TemporaryDirectory(prefix="kbverified-doctor-") as folder:
        Path(folder, name).write_text(source)
        try:
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=COMPILE_S)
        except subprocess.TimeoutExpired:
            return f"no end within {COMPILE_S:.0f} s"
        except OSError as error:
            return str(error)
    lines = [line for line in (done.stderr + done.stdout).splitlines() if "error" in line.lower()] or ["no message"]
    return lines[0][:200] if done.returncode else None
