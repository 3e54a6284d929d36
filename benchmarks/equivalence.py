"""Does a build with slim headers do what torch's own does? Every build request of a list of candidates, both ways.

    python benchmarks/equivalence.py .candidates more.jsonl --kernelbench .kernelbench --out equivalence.json \
        --jobs 16 --seconds 540

Candidates are executed here, without a sandbox, to learn what they ask for: run it where that may happen. Requests are
met in the dry run, so that no GPU is needed; where torch has no CUDA, empty libraries stand in for its CUDA ones and
what is built is compared, not loaded. Results are kept in ``--work`` and the next call goes on from there.

A request is *equal* where both ways build and give the same machine code for the device and the same symbols, or where
both fail with the same message. Anything else is listed.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import inspect
import json
import os
import re
import resource
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeGuard

WORD = re.compile(r"cpp_extension|load_inline")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("candidates", nargs="*", type=Path, help="folders, .py files, JSON lines with custom_code")
    parser.add_argument(
        "--kernelbench", type=Path, help="folder with level1/, level2/, level3/: inputs for the dry run"
    )
    parser.add_argument("--out", type=Path, default=Path("equivalence.json"))
    parser.add_argument("--work", type=Path, default=Path("equivalence-work"))
    parser.add_argument("--arch", default="9.0")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="start nothing that would end later")
    parser.add_argument("--build-timeout", type=float, default=400.0)
    parser.add_argument("--plain", choices=("all", "sample", "none"), default="all", help="which to build plainly too")
    parser.add_argument("--sample", type=int, default=12, help="how many of them with --plain sample")
    arguments = parser.parse_args()
    deadline = time.monotonic() + arguments.seconds
    work = arguments.work.absolute()
    work.mkdir(parents=True, exist_ok=True)
    found = collect(arguments.candidates)
    requests = extract(found, arguments, work, deadline)
    tree = make_tree(arguments.arch, work)
    build_all(requests, arguments, work, tree, deadline)
    summary = summarise(found, requests, work)
    arguments.out.write_text(json.dumps(summary, indent=1))
    print(json.dumps({k: v for k, v in summary.items() if k != "requests"}, indent=1))
    return 1 if summary["differ"] else 0


# --- candidates ---------------------------------------------------------------------------------------------------


def collect(places: list[Path]) -> dict[str, dict[str, str]]:
    """sha256 to name and source of each candidate that mentions torch's builder."""
    texts: list[tuple[str, str]] = []
    for place in places:
        if place.suffix == ".jsonl":
            for number, line in enumerate(place.read_text().splitlines()):
                row = json.loads(line)
                name = f"{place.name}:{row.get('level_id', '')}/{row.get('task_id', number)}"
                texts += [(f"{name}:{key}", row[key]) for key in ("custom_code", "kernel_code") if row.get(key)]
        else:
            paths = [place] if place.suffix == ".py" else sorted(place.rglob("*.py"))
            texts += [(str(path), path.read_text(errors="replace")) for path in paths]
    found: dict[str, dict[str, str]] = {}
    for name, text in texts:
        if WORD.search(text):
            found.setdefault(hashlib.sha256(text.encode()).hexdigest(), {"name": name, "source": text})
    return found


def extract(found: dict[str, dict[str, str]], arguments: Any, work: Path, deadline: float) -> dict[str, dict[str, Any]]:
    """Content key to request; each names the candidates (sha256) that ask for it."""
    folder = work / "extracted"
    folder.mkdir(exist_ok=True)
    tasks = []
    for sha256, candidate in found.items():
        target = folder / f"{sha256}.json"
        source = folder / f"{sha256}.py"
        if target.exists():
            continue
        source.write_text(candidate["source"])
        problem = problem_of(candidate["name"], arguments.kernelbench)
        told = {"source": str(source), "problem": problem, "target": str(target), "arch": arguments.arch}
        tasks.append(Task(extract_one, told, folder / f"{sha256}.d", {"requests": []}))
    run_all(tasks, arguments.jobs, deadline, 120.0)
    requests: dict[str, dict[str, Any]] = {}
    for sha256 in found:
        if (folder / f"{sha256}.json").exists():
            for request in json.loads((folder / f"{sha256}.json").read_text())["requests"]:
                requests.setdefault(request["key"], {**request, "candidates": []})["candidates"].append(sha256)
    return requests


def problem_of(name: str, kernelbench: Path | None) -> str | None:
    match = re.search(r"level_(\d)_problem_(\d+)_", name) or re.search(r":(\d)/(\d+):", name)
    if match is None or kernelbench is None:
        return None
    return next((str(p.absolute()) for p in (kernelbench / f"level{match[1]}").glob(f"{match[2]}_*.py")), None)


# --- processes ------------------------------------------------------------------------------------------------------


@dataclass
class Task:
    """One step in a process of its own, which writes ``told["target"]``."""

    function: Callable[[dict[str, Any]], None]
    told: dict[str, Any]
    folder: Path
    without: dict[str, Any]
    """What to write where the process gives no result."""


def run_all(tasks: list[Task], jobs: int, deadline: float, limit_s: float) -> None:
    """Run tasks in forks of this process, which has imported torch once for all; none starts near the deadline."""
    import torch.utils.cpp_extension
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        torch.empty(1)  # what it imports at first use is imported before the forks
    waiting = list(reversed(tasks))
    active: dict[int, tuple[Task, float]] = {}
    while waiting or active:
        while waiting and len(active) < jobs and deadline - time.monotonic() > 30:
            task = waiting.pop()
            active[fork(task)] = (task, time.monotonic())
        if not active:
            return
        time.sleep(0.05)
        for pid, (task, start) in list(active.items()):
            over = time.monotonic() > min(start + limit_s, deadline)
            if over:
                os.killpg(pid, 9)
            if os.waitpid(pid, 0 if over else os.WNOHANG)[0]:
                del active[pid]
                finish(task, over and time.monotonic() > deadline)


def finish(task: Task, cut_short: bool) -> None:
    target = Path(task.told["target"])
    if not target.exists() and not cut_short:
        printed = (task.folder / "printed.txt").read_text(errors="replace")[-2000:]
        target.write_text(json.dumps({**task.without, "error": f"no result: {printed}"}))
    shutil.rmtree(task.folder, ignore_errors=True)


def fork(task: Task) -> int:
    task.folder.mkdir(parents=True, exist_ok=True)
    printed = os.open(task.folder / "printed.txt", os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    pid = os.fork()
    if pid:
        os.close(printed)
        with contextlib.suppress(OSError):
            os.setpgid(pid, pid)
        return pid
    try:
        os.setpgid(0, 0)
        os.dup2(printed, 1)
        os.dup2(printed, 2)
        os.chdir(task.folder)
        os.environ.update(TMPDIR=str(task.folder), CUDA_VISIBLE_DEVICES="", MAX_JOBS="2")
        os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        task.function(task.told)
    except BaseException as error:
        print(f"{type(error).__name__}: {error}", flush=True)
    finally:
        sys.stdout.flush()
        os._exit(0)


def extract_one(told: dict[str, Any]) -> None:
    """Import, construct and call the candidate once on fake tensors; keep what it asks torch's builder for."""
    import importlib.util
    from unittest.mock import MagicMock

    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.utils import cpp_extension

    from kbverified.compilation import dry_run
    from kbverified.compilation.hooks import request_key

    requests: list[dict[str, Any]] = []

    def recorded(original: Any) -> Any:
        def build(*args: Any, **kwargs: Any) -> Any:
            bound = dict(inspect.signature(original).bind(*args, **kwargs).arguments)
            request = {"function": original.__name__, "key": request_key(original.__name__, bound), "arguments": bound}
            if original.__name__ == "load":
                named = bound["sources"]
                paths = [named] if isinstance(named, str) else list(named)
                request["files"] = {Path(p).name: Path(p).read_text(errors="replace") for p in paths}
            requests.append(json.loads(json.dumps(request, default=str)))
            return MagicMock()

        return build

    cpp_extension.load, cpp_extension.load_inline = recorded(cpp_extension.load), recorded(cpp_extension.load_inline)
    dry_run.pretend_gpu(told["arch"])
    met = None
    try:
        model = load_module(importlib.util, "candidate", told["source"])
        problem = load_module(importlib.util, "problem", told["problem"]) if told["problem"] else None
        if problem is not None and hasattr(model, "ModelNew"):
            with FakeTensorMode(allow_non_fake_inputs=True):
                inputs = problem.get_inputs()
            specs = [
                [list(t.shape), str(t.dtype).split(".")[-1]] if isinstance(t, torch.Tensor) else None for t in inputs
            ]
            met = dry_run.dry_forward(model.ModelNew, problem.get_init_inputs(), specs, "cuda")
    except BaseException as error:  # the candidate's
        met = f"{type(error).__name__}: {error}"[:500]
    unique = list({request["key"]: request for request in requests}.values())
    Path(told["target"]).write_text(json.dumps({"requests": unique, "met": met}))


def load_module(util: Any, name: str, path: str) -> Any:
    spec = util.spec_from_file_location(name, path)
    module = util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def build_one(told: dict[str, Any]) -> None:
    """Build one request through the hooks, with or without slim headers, and say what came out."""
    import torch
    from torch.utils import cpp_extension

    from kbverified.compilation import toolchain
    from kbverified.compilation.hooks import Hooks

    os.environ["TORCH_CUDA_ARCH_LIST"] = told["arch"]
    folder, request = Path(told["folder"]), told["request"]
    arguments = dict(request["arguments"])
    if request["function"] == "load":
        arguments["sources"] = []
        for name, text in request["files"].items():
            (folder / name).write_text(text)
            arguments["sources"].append(str(folder / name))
    if not torch.version.cuda:
        cpp_extension.CUDA_HOME = str(toolchain.cuda_home())  # torch does not look for it where it could not use it
        arguments["extra_ldflags"] = [*(arguments.get("extra_ldflags") or []), f"-L{told['stand_ins']}"]
    reports: list[dict[str, Any]] = []
    Hooks(folder / "build", True, Path(told["tree"]) if told["tree"] else None, reports.append).install()
    start, before = time.monotonic(), cpu_s()
    error = None
    try:
        getattr(cpp_extension, request["function"])(**arguments)
    except BaseException as raised:  # the builder's, or the loader's
        error = f"{type(raised).__name__}: {raised}"
    report = reports[-1] if reports else {}
    libraries = sorted((folder / "build").rglob("*.so"))
    built = bool(libraries) and (error is None or "undefined symbol" in error or "cannot open shared" in error)
    outcome = {
        "built": built,
        "error": error and error[-20000:],
        "headers": report.get("log", "")[:400] if built else "",
        "cpu_s": round(cpu_s() - before, 2),
        "wall_s": round(time.monotonic() - start, 2),
        **(contents(libraries[0], sorted((folder / "build").rglob("*.o"))) if built else {}),
    }
    Path(told["target"]).write_text(json.dumps(outcome))


def cpu_s() -> float:
    """CPU seconds of this process's finished children: compilers, and what they start."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def contents(library: Path, objects: list[Path]) -> dict[str, Any]:
    """What a library holds, as far as it says what it does: device code, and the symbols that others see.

    Symbols are those of the request's own objects: a C++ runtime that is linked in statically brings others along, by
    what else of it is used.
    """
    symbols = printed(["nm", "-C", "--defined-only", *map(str, objects)])
    section = library.with_suffix(".fatbin")
    printed(["objcopy", "-O", "binary", "--only-section=.nv_fatbin", str(library), str(section)])
    code = section.read_bytes() if section.exists() else b""
    # Names of what has internal linkage hold a number of nvcc's, which may differ where instructions do not.
    sass = printed([disassembler(), "-sass", str(library)])
    lines = [line for line in sass.splitlines() if re.match(r"\s+(/\*[0-9a-f]{4,}\*/|Function)", line)]
    text = re.sub(r"_GLOBAL__N__[0-9a-f]+_|_INTERNAL_[0-9a-f]+_", "", "\n".join(lines))
    return {
        "device_sha256": hashlib.sha256(code).hexdigest(),
        "device_bytes": len(code),
        "sass_sha256": hashlib.sha256(text.encode()).hexdigest() if text else None,
        "strong": sorted(re.findall(r"^\w+ ([TDB] .*)$", symbols, re.MULTILINE)),
    }


def disassembler() -> str:
    """cuobjdump, which Triton brings where the toolkit does not."""
    from kbverified.compilation.toolchain import torch_folder

    folder = torch_folder()
    brought = folder.parent / "triton/backends/nvidia/bin/cuobjdump" if folder is not None else Path("cuobjdump")
    return shutil.which("cuobjdump") or (str(brought) if brought.exists() else "/usr/local/cuda/bin/cuobjdump")


def printed(command: list[str]) -> str:
    """Standard output of a tool; nothing where it fails or is not there."""
    try:
        return subprocess.run(command, capture_output=True, text=True, errors="replace", check=False).stdout
    except OSError:
        return ""


# --- builds -----------------------------------------------------------------------------------------------------------


def make_tree(arch: str, work: Path) -> Path:
    """The slim headers, and their bindings precompiled for the usual flags."""
    from kbverified.compilation import precompiled, slim_tree, toolchain

    tools = toolchain.find(arch)
    tree = slim_tree.slim_tree(work, tools)
    if tree is None:
        raise SystemExit(f"no slim headers could be made: see failed.log in {work}/pch")
    for flags in ((), ("-O3",), ("-O2",)):
        precompiled.precompile(tree, tools, flags)
    stand_ins = work / "stand-ins"
    stand_ins.mkdir(exist_ok=True)
    for name in ("c10_cuda", "torch_cuda"):
        library = stand_ins / f"lib{name}.so"
        subprocess.run([tools.cxx, "-shared", "-x", "c++", os.devnull, "-o", str(library)], check=True)
    return tree


def build_all(requests: dict[str, dict[str, Any]], arguments: Any, work: Path, tree: Path, deadline: float) -> None:
    """Slim builds of all requests, then plain ones, as many at a time as there are jobs."""

    def tasks(keys: list[str], way: str) -> list[Task]:
        found = []
        for key in keys:
            told = {
                "request": requests[key],
                "folder": str(work / "building" / key),  # the same both ways: nvcc makes names from paths
                "tree": str(tree) if way == "slim" else None,
                "stand_ins": str(work / "stand-ins"),
                "arch": arguments.arch,
                "target": str(work / "built" / f"{key}.{way}.json"),
            }
            if not Path(told["target"]).exists():
                found.append(Task(build_one, told, Path(told["folder"]), {"built": None, "headers": ""}))
        return found

    (work / "built").mkdir(exist_ok=True)
    keys = sorted(requests)
    run_all(tasks(keys, "slim"), arguments.jobs, deadline, arguments.build_timeout)
    slim = {key: read(work, key, "slim") for key in keys}
    odd = [key for key in keys if (slim[key] or {}).get("headers") != "headers: slim"]
    rest = [key for key in keys if key not in odd]
    if arguments.plain == "sample":
        rest = rest[:: max(len(rest) // max(arguments.sample, 1), 1)][: arguments.sample]
    if arguments.plain != "none":
        run_all(tasks(odd + rest, "plain"), arguments.jobs, deadline, arguments.build_timeout)


def read(work: Path, key: str, way: str) -> dict[str, Any] | None:
    path = work / "built" / f"{key}.{way}.json"
    return json.loads(path.read_text()) if path.exists() else None


# --- comparison -------------------------------------------------------------------------------------------------------


def compare(slim: dict[str, Any], plain: dict[str, Any]) -> str:
    """``equal``, or in what the two ways differ."""
    if slim["built"] != plain["built"]:
        return f"slim {'built' if slim['built'] else 'failed'}, plain {'built' if plain['built'] else 'failed'}"
    if not slim["built"]:
        return "equal" if messages(slim["error"]) == messages(plain["error"]) else "other error messages"
    same_code = slim["device_sha256"] == plain["device_sha256"]
    if not same_code and (slim["sass_sha256"] is None or slim["sass_sha256"] != plain["sass_sha256"]):
        return "other device code"
    if difference := set(slim["strong"]) ^ set(plain["strong"]):
        return f"other symbols: {sorted(difference)[:5]}"
    if (slim["error"] is None) != (plain["error"] is None):
        return "one of them cannot be loaded"
    return "equal"


def messages(text: str | None) -> list[str]:
    """The compilers' error messages, without the places of files."""
    lines = [line for line in str(text).splitlines() if re.search(r"\berror\b", line) and "Error building" not in line]
    return sorted({re.sub(r"\S*/(building|build)/\S*/", "", line) for line in lines})


def has_result(outcome: dict[str, Any] | None) -> TypeGuard[dict[str, Any]]:
    """Whether a build ended by itself; one that was cut short says nothing."""
    return outcome is not None and outcome["built"] is not None


def summarise(found: dict[str, Any], requests: dict[str, dict[str, Any]], work: Path) -> dict[str, Any]:
    rows = []
    for key, request in sorted(requests.items()):
        slim, plain = read(work, key, "slim"), read(work, key, "plain")
        rows.append(
            {
                "key": key,
                "function": request["function"],
                "candidates": request["candidates"],
                "names": [found[sha256]["name"] for sha256 in request["candidates"]],
                "slim": slim and {k: v for k, v in slim.items() if k != "strong"},
                "plain": plain and {k: v for k, v in plain.items() if k != "strong"},
                "outcome": compare(slim, plain) if has_result(slim) and has_result(plain) else None,
            }
        )
    both = [row for row in rows if row["outcome"] is not None]
    slim_rows = [row for row in rows if has_result(row["slim"])]
    return {
        "candidates": len(found),
        "candidates_without_request": len(found) - len({s for r in requests.values() for s in r["candidates"]}),
        "requests": rows,
        "requests_total": len(rows),
        "built_slim_way": len(slim_rows),
        "with_slim_headers": sum(row["slim"]["headers"] == "headers: slim" for row in slim_rows),
        "with_full_headers": {
            row["key"]: row["slim"]["headers"] for row in slim_rows if "full" in row["slim"]["headers"]
        },
        "failed_slim_way": [row["key"] for row in slim_rows if row["slim"]["built"] is False],
        "cut_short": [
            f"{row['key']}.{way}" for row in rows for way in ("slim", "plain") if row[way] and not has_result(row[way])
        ],
        "compared": len(both),
        "both_built": sum(bool(row["slim"]["built"] and row["plain"]["built"]) for row in both),
        "both_failed": sum(not row["slim"]["built"] and not row["plain"]["built"] for row in both),
        "differ": {row["key"]: row["outcome"] for row in both if row["outcome"] != "equal"},
        "cpu_s": costs(both, slim_rows),
    }


def costs(both: list[dict[str, Any]], slim_rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Medians over requests that built both ways, and over all slim ones."""
    pairs = [
        (row["slim"]["cpu_s"], row["plain"]["cpu_s"]) for row in both if row["slim"]["built"] and row["plain"]["built"]
    ]
    pairs = [pair for pair in pairs if pair[0] > 0]
    all_slim = [row["slim"]["cpu_s"] for row in slim_rows if row["slim"].get("cpu_s")]
    return {
        "slim_median_all": statistics.median(all_slim) if all_slim else None,
        "slim_max_all": max(all_slim, default=None),
        "slim_median": statistics.median(s for s, _ in pairs) if pairs else None,
        "plain_median": statistics.median(p for _, p in pairs) if pairs else None,
        "ratio_median": round(statistics.median(p / s for s, p in pairs), 2) if pairs else None,
    }


if __name__ == "__main__":
    raise SystemExit(main())
