"""The other side of ``benchmarks/compile.py``: what torch's own builder costs for the requests of one candidate.

    python -m benchmarks.plain_build --candidate FILE --audit FILE --out FILE --device cuda --arch 9.0

The same requests in a fresh sandboxed process: ``torch.utils.cpp_extension`` as it is, a fresh build directory, no
precompiled header. What leads to the requests (fake tensors, a GPU that is pretended) is what the compile stage does.
The functions are wrapped only to be timed, and a request that was made before is answered as it was then, so that no
candidate builds twice here and once there.

Writes {"builds": [{"key", "ok", "wall_s", "cpu_s", "log"}], "met": what stopped the dry run, "level": sandbox level}.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

LIMIT_S = 1200.0


# --- inside the sandbox --------------------------------------------------------------------------------------
class Timed:
    """torch's load and load_inline, timed."""

    def __init__(self) -> None:
        self.builds: list[dict[str, Any]] = []
        self._known: dict[str, tuple[bool, Any]] = {}

    def install(self, cpp_extension: Any) -> None:
        for name in ("load_inline", "load"):
            setattr(cpp_extension, name, self._wrap(name, getattr(cpp_extension, name)))

    def _wrap(self, name: str, build: Any) -> Any:
        import inspect

        from kbverified.compilation.hooks import request_key

        def timed(*args: Any, **kwargs: Any) -> Any:
            bound = inspect.signature(build).bind(*args, **kwargs)
            # load_inline inserts into the lists that it is given.
            arguments = {k: list(v) if isinstance(v, list | tuple) else v for k, v in bound.arguments.items()}
            key = request_key(name, arguments)
            if key not in self._known:
                self._known[key] = self._time(key, build, args, kwargs)
            ok, answer = self._known[key]
            if not ok:
                raise answer
            return answer

        return timed

    def _time(self, key: str, build: Any, args: Any, kwargs: Any) -> tuple[bool, Any]:
        ok, answer, log = True, None, ""
        start, before = time.monotonic(), _children_cpu_s()
        try:
            answer = build(*args, **kwargs)
        except Exception as error:  # whatever the builder, or the import of what it built, raises
            ok, answer, log = False, error, f"{type(error).__name__}: {error}"[-6000:]
        wall_s, cpu_s = time.monotonic() - start, _children_cpu_s() - before
        self.builds.append({"key": key, "ok": ok, "wall_s": round(wall_s, 3), "cpu_s": round(cpu_s, 3), "log": log})
        return ok, answer


def _children_cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def build(request: dict[str, Any]) -> dict[str, Any]:
    """Meet the candidate's build requests as the compile stage does, with torch's own builder."""
    import importlib.util

    import torch
    from torch.utils import cpp_extension

    from kbverified import codec
    from kbverified.compilation import dry_run

    torch.set_grad_enabled(False)
    timed = Timed()
    timed.install(cpp_extension)
    if request["device"] == "cuda":
        dry_run.pretend_gpu(request["arch"])
    met: str | None
    try:
        spec = importlib.util.spec_from_file_location("candidate", request["candidate"])
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules["candidate"] = module
        spec.loader.exec_module(module)
        init_inputs = codec.decode(request["init_inputs"], [])
        met = None
        if request["call"]:  # as in the compile stage: elsewhere nothing asks for an extension
            met = dry_run.dry_forward(module.ModelNew, init_inputs, request["inputs"], request["device"])
    except BaseException as error:  # the candidate's own code: what it built until then is what is asked for
        met = f"{type(error).__name__}: {error}"[:500]
    return {"builds": timed.builds, "met": met}


# --- outside -------------------------------------------------------------------------------------------------
def spawn_and_wait(arguments: argparse.Namespace) -> dict[str, Any]:
    """Run ``build`` in a sandboxed process of its own. Raises SandboxError, OSError, ValueError."""
    from kbverified.compilation import requests, toolchain
    from kbverified.lease import UNTOUCHED_DRIVER
    from kbverified.records.files import read
    from kbverified.records.problem import ProblemRecord
    from kbverified.sandbox import PASSED_ON, SpawnRequest, import_path, reclaim, spawn

    audit = read(arguments.audit, ProblemRecord)
    tools = toolchain.find(arguments.arch)
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="plain-", dir=arguments.out.parent)).absolute()
    request = {
        "candidate": str(arguments.candidate.absolute()),
        "call": not requests.only_at_import(arguments.candidate.read_text("utf-8")),
        "init_inputs": audit.init_inputs,
        "inputs": [[list(spec.shape), spec.dtype] if spec is not None else None for spec in audit.inputs],
        "device": arguments.device,
        "arch": arguments.arch,
    }
    (folder / "request.json").write_text(json.dumps(request))
    os.chmod(folder / "request.json", 0o644)
    environment = {
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "/usr/bin:/bin")]),
        "PYTHONPATH": import_path(),
        "PYTHONDONTWRITEBYTECODE": "1",
        "TORCH_EXTENSIONS_DIR": str(folder / "torch"),
        "CUDA_VISIBLE_DEVICES": "",
        **UNTOUCHED_DRIVER,
        **tools.environment(),
        **{k: os.environ[k] for k in PASSED_ON if k in os.environ},
    }
    spawned = SpawnRequest(
        argv=[sys.executable, "-P", str(Path(__file__).absolute()), "--inside", str(folder)],
        level=arguments.sandbox,
        readable=(arguments.candidate.absolute(), Path(__file__).absolute()),
        writable=(folder,),
        env=environment,
        name="plain",
    )
    try:
        with spawn(spawned) as worker:
            status = worker.wait(LIMIT_S)
            tail, level = worker.output_tail(), worker.level
        reclaim(folder)
        try:
            answer = json.loads((folder / "answer.json").read_text())
        except (OSError, ValueError) as error:
            raise ValueError(
                f"{arguments.candidate}: no answer ({error}); it ended by {status}: {tail[-2000:]}"
            ) from None
        return {**answer, "level": level}
    finally:
        reclaim(folder)
        _remove(folder)


def _remove(folder: Path) -> None:
    import shutil

    shutil.rmtree(folder, ignore_errors=True)


def main(argv: list[str] | None = None) -> int:
    """Exit code 0: an answer was written, whatever was built."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inside", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--candidate", type=Path)
    parser.add_argument("--audit", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--arch")
    parser.add_argument("--sandbox", choices=("auto", "full", "user", "none"), default="auto")
    arguments = parser.parse_args(argv)
    if arguments.inside:
        answer = build(json.loads((arguments.inside / "request.json").read_text()))
        (arguments.inside / "answer.json").write_text(json.dumps(answer))
        return 0
    os.umask(0o022)
    arguments.out.write_text(json.dumps(spawn_and_wait(arguments)) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
