"""What the leaderboard's page costs with as many candidates as the published run: to build, on disk, and to open.

Usage:  python -m benchmarks.page [--generators 7] [--problems 250] [--samples 5] [--work benchmarks/out/page] [--open]

Writes a synthetic run of that size below the work folder (kept, and used again where it has the same size), builds the
page from it and prints seconds and bytes. ``--open`` opens it in headless Chromium (playwright from the environment,
the browser from Debian's package) and prints how long the page took until it could be used, and the frames while it
scrolled. Sources are of the length of real candidates (5,000 characters), times have as many repetitions as a GPU run:
that is what a page weighs, and what the paper's synthetic run (kbverified.paper.example) does without.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import random
import sys
import time
from pathlib import Path

from kbverified import leaderboard, protocol
from kbverified.aggregation import AggregationSettings, aggregate_generator, load_problems, write_parquet
from kbverified.keys import CandidateKey, ProblemKey
from kbverified.leaderboard.files import PAGE_NAME
from kbverified.page import build
from kbverified.records.base import DeviceInfo, Provenance
from kbverified.records.files import write
from kbverified.records.problem import DistributionAudit, ProblemRecord
from kbverified.records.stages import Build, CompileRecord, GateRecord, MemoryRecord, SideMemory, TimeRecord
from kbverified.records.timing import Round
from kbverified.records.trials import TrialResult

SETTINGS = AggregationSettings()
GPU = DeviceInfo(kind="cuda", name="Synthetic", uuid="GPU-0", driver="0", torch="2.13.0", cuda="13.0")
ROUNDS, REPETITIONS = 24, 8
SOURCE_CHARACTERS = 5000
CHUNK = (
    'SOURCE_{n} = r"""\n#include <torch/extension.h>\n'
    "__global__ void kernel_{n}(const float* a, float* b, int size) {{\n"
    "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n  if (i < size) b[i] = a[i] * {n}.5f; // {w}\n}}\n"
    '"""\nmodule_{n} = load_inline(name="m{n}", cpp_sources="", cuda_sources=SOURCE_{n}, functions=["run_{n}"])\n\n'
)


def _where(stage: str, sha256: str | None, mode: str | None = None) -> Provenance:
    return Provenance(
        package_version="0.1.0",
        protocol_digest=protocol.digest(stage),
        problem_sha256="p" * 64,
        candidate_sha256=sha256,
        device=None if stage == "compile" else GPU,
        mode=mode,  # type: ignore[arg-type]
        sandbox="full",
        started_at="2026-01-01T00:00:00+00:00",
        duration_s=1.0,
    )


def _source(rng: random.Random) -> str:
    text = "import torch\nfrom torch.utils.cpp_extension import load_inline\n\n"
    while len(text) < SOURCE_CHARACTERS:
        text += CHUNK.format(n=rng.randrange(10**6), w=rng.getrandbits(128))
    return text + "\nclass ModelNew(torch.nn.Module):\n    def forward(self, x):\n        return module.run(x)\n"


def _timing(stage: str, mode: str, sha256: str, rng: random.Random, base: float, own: float) -> TimeRecord:
    def turn(centre: float) -> tuple[float, ...]:
        return tuple(centre * math.exp(rng.gauss(0, 0.01)) for _ in range(REPETITIONS))

    return TimeRecord(
        stage=stage,  # type: ignore[arg-type]
        provenance=_where(stage, sha256, mode),
        status="ok",
        verdict="pass",
        rounds=tuple(Round(first="baseline", baseline_ms=turn(base), candidate_ms=turn(own)) for _ in range(ROUNDS)),
        baseline_alone_ms=turn(base),
    )


def _write_candidate(root: Path, key: CandidateKey, rng: random.Random) -> None:
    source = _source(rng).encode()
    sha256 = hashlib.sha256(source).hexdigest()
    key.source_path(root).parent.mkdir(parents=True, exist_ok=True)
    key.source_path(root).write_bytes(source)
    base = math.exp(rng.gauss(0, 1.5))
    own = base / math.exp(rng.gauss(0, 0.6))
    log = f"[1/3] nvcc -c kernel_{rng.getrandbits(64)}.cu\n[2/3] c++ -c main.cpp\n[3/3] c++ -shared\n"
    trials = tuple(
        TrialResult(distribution=name, critical_tolerance=10 ** rng.uniform(-7, -1.5))
        for name in protocol.DISTRIBUTIONS
    )
    side = (SideMemory(allocator_peak_bytes=int(1e8 * math.exp(rng.gauss(0, 0.4)))) for _ in range(2))
    found = {
        "compile": CompileRecord(
            provenance=_where("compile", sha256),
            status="ok",
            verdict="pass",
            builds=(Build(name="m", key="k", log_tail=log),),
        ),
        "hidden-gate": GateRecord(
            provenance=_where("hidden-gate", sha256, "ieee"),
            status="ok",
            verdict="pass",
            trials=trials,
            weights_match=True,
        ),
        "time-fp32": _timing("time-fp32", "default", sha256, rng, base, own),
        "time-tf32": _timing("time-tf32", "tf32", sha256, rng, base * 0.8, own),
        "memory": MemoryRecord(
            provenance=_where("memory", sha256), status="ok", verdict="pass", baseline=next(side), candidate=next(side)
        ),
    }
    for stage, record in found.items():
        path = key.record_path(stage, root)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(
            record.model_dump_json()
        )  # without the fsync of records.files.write: nothing is lost with these


def make(root: Path, generators: int, problems: int, samples: int) -> tuple[list[ProblemKey], list[Path]]:
    """The run's problems and kernel tables; nothing is done where the same size lies there already."""
    keys = [ProblemKey("synthetic", f"level{1 + 3 * i // problems}_{i + 1}") for i in range(problems)]
    kernels = [root / "results" / "kernels" / f"model-{g}.parquet" for g in range(generators)]
    stamp = root / "size.json"
    size = json.dumps([generators, problems, samples])
    if stamp.exists() and stamp.read_text() == size:
        return keys, kernels
    for key in keys:
        audits = tuple(
            DistributionAudit(distribution=n, applicable=True, replay_tolerance=0.5) for n in protocol.DISTRIBUTIONS
        )
        audit = ProblemRecord(
            provenance=_where("audit-problem", None), status="ok", name=key.problem, level=key.level, usable=True,
            degenerate=False, distributions=audits,
        )  # fmt: skip
        write(key.record_path(root), audit)
    rng = random.Random(0)
    tables = {}
    for path in kernels:
        candidates = [CandidateKey(path.stem, k.suite, k.problem, s) for k in keys for s in range(samples)]
        for candidate in candidates:
            _write_candidate(root, candidate, rng)
        tables[path.stem] = aggregate_generator(root, path.stem, candidates, SETTINGS)
        write_parquet(tables[path.stem], path)
        print(f"{path.stem}: {len(candidates)} candidates", flush=True)
    leaderboard.write(leaderboard.build(tables, load_problems(root, keys), SETTINGS), root / "results")
    stamp.write_text(size)
    return keys, kernels


def open_page(page: Path) -> dict[str, float]:
    """Seconds until the page can be used (three fresh browsers, the median), and how it scrolls and refilters."""
    from playwright.sync_api import sync_playwright

    flags = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
    seconds = []
    with sync_playwright() as player:
        for _ in range(3):
            browser = player.chromium.launch(executable_path="/usr/bin/chromium", args=flags)
            tab = browser.new_page(viewport={"width": 1280, "height": 900})
            tab.goto("about:blank")
            began = time.perf_counter()
            tab.goto(page.resolve().as_uri(), wait_until="commit")
            tab.wait_for_selector("html[data-ready]", timeout=60000)
            seconds.append(time.perf_counter() - began)
            if len(seconds) < 3:
                browser.close()
        frames = tab.evaluate(_SCROLL)
        moved = tab.evaluate(_MOVE_TAU)
        began = time.perf_counter()
        tab.evaluate("location.hash = '#/candidate/' + leaderboard.keys()[4000]")
        tab.wait_for_selector("#detail h2")
        opened = time.perf_counter() - began
        browser.close()
    return {"open_s": sorted(seconds)[1], "opens_s": seconds, **frames, **moved, "candidate_s": opened}


_SCROLL = """async () => {
  const body = document.querySelector('.grid .body'); const gaps = []; let before = performance.now();
  for (let i = 0; i < 90; i += 1) {
    body.scrollTop += 2500;
    await new Promise(requestAnimationFrame);
    const now = performance.now(); gaps.push(now - before); before = now;
  }
  gaps.sort((a, b) => a - b);
  return { scroll_frame_median_ms: gaps[45], scroll_frame_p95_ms: gaps[85] };
}"""
_MOVE_TAU = """async () => {
  const slider = document.querySelector('#tau-fp32'); const spent = [];
  for (let i = 0; i < 20; i += 1) {
    const began = performance.now();
    slider.value = String(-120 + 5 * i); slider.dispatchEvent(new Event('input'));
    await new Promise(requestAnimationFrame); spent.push(performance.now() - began);
  }
  spent.sort((a, b) => a - b);
  return { tau_step_median_ms: spent[10], tau_step_worst_ms: spent[19] };
}"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--generators", type=int, default=7)
    parser.add_argument("--problems", type=int, default=250)
    parser.add_argument("--samples", type=int, default=5)
    parser.add_argument("--work", type=Path, default=Path("benchmarks/out/page"))
    parser.add_argument("--open", action="store_true")
    arguments = parser.parse_args()
    root = arguments.work
    keys, kernels = make(root, arguments.generators, arguments.problems, arguments.samples)
    out = root / "results" / PAGE_NAME
    began, cpu = time.perf_counter(), time.process_time()
    build.write(root, kernels, keys, root / "results" / "leaderboard.json", SETTINGS, out)
    found: dict[str, object] = {
        "candidates": arguments.generators * arguments.problems * arguments.samples,
        "build_s": round(time.perf_counter() - began, 1),
        "build_cpu_s": round(time.process_time() - cpu, 1),
        "page_bytes": out.stat().st_size,
    }
    if arguments.open:
        found |= open_page(out)
    print(json.dumps(found, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
