"""A small seeded run for the page: records, sources and tables of three generators, some of whose texts are hostile."""

from __future__ import annotations

import hashlib
import math
import os
import random
from pathlib import Path
from typing import Any
from unittest import mock

import record_factory as rf

from kbverified import leaderboard, protocol
from kbverified.aggregation import AggregationSettings, aggregate_generator, load_problems, write_parquet
from kbverified.keys import CandidateKey, ProblemKey
from kbverified.leaderboard.files import PAGE_NAME
from kbverified.page import build
from kbverified.records.stages import Build, CompileRecord, GateRecord, MemoryRecord, TimeRecord
from kbverified.records.trials import OracleErrors

SETTINGS = AggregationSettings(resamples=100)
GENERATORS = {"alpha": "fp32", "beta": "fp32", "constructor": "bf16"}
PROBLEMS = [ProblemKey("kb", f"level{level}_{number}") for level in (1, 2) for number in range(1, 8)]
SAMPLES = 3
TAUS = (1e-6, 1e-4, 0.1)

# What a page that builds markup from text would run, and what would end the element or the string that holds it.
HOSTILE = (
    "</script><script>window.pwned=1</script><!-- <img src=x onerror=window.pwned=2> ]]> "
    "<svg onload=window.pwned=3> \u2028\u2029 ${window.pwned=4} `+window.pwned+` \"'> "
    "<a href=javascript:window.pwned=5>x</a> "
    "\u202egnp.exe\u2066 \x1b[31m @@data@@ </textarea></title></style> "
    # What nobody sees, what piles up over the lines above, what no browser breaks by itself.
    "pa\u00adss\u3164\U000e0041 e" + "\u0301" * 300 + " " + "W" * 4000
)
HOSTILE_SOURCE = f'''"""{HOSTILE}"""
import torch
# {HOSTILE}
__proto__ = {{"__proto__": {{"pwned": 6}}, "constructor": {{"prototype": {{"pwned": 7}}}}}}
CUDA = r"""#include <torch/extension.h>
// {HOSTILE}
__global__ void k(float* x) {{ x[0] = 1.5f; }}
"""


class ModelNew(torch.nn.Module):
    pass
'''
HOSTILE_KEY = CandidateKey("alpha", "kb", "level1_1", 0)
BEYOND_KEY = CandidateKey("alpha", "kb", "level1_1", 1)
"""Within every tau under the four distributions, and under one of them beyond what the oracle allows."""

# Texts that would cost a careless highlighter, or a browser's layout, a long time; by the candidates that have them.
SLOW = {
    CandidateKey("beta", "kb", "level1_2", 0): "\n" * 250_000,
    CandidateKey("beta", "kb", "level1_2", 1): "1 " * 125_000,
    CandidateKey("beta", "kb", "level1_2", 2): "'''#include" + "\\'" * 120_000,
    CandidateKey("beta", "kb", "level1_4", 0): "rb" * 125_000 + '"',
    CandidateKey("beta", "kb", "level1_4", 1): '"""' + "/*" * 120_000 + "#include",
    CandidateKey("beta", "kb", "level1_4", 2): "(" * 250_000,
}


def make(root: Path) -> Path:
    """Write the whole run below root and return the page's path."""
    with mock.patch.object(os, "fsync"):  # 770 files, none of which has to outlive a power cut
        return _make(root)


def _make(root: Path) -> Path:
    rng = random.Random(6)
    for key in PROBLEMS:
        replay = 3e-3 if key.number == 5 else 0.5
        rf.write_problem(
            root,
            key,
            replay=replay,
            degenerate=key.number == 7,
            name=HOSTILE if key.number == 6 else f"Problem_{key.number}",
        )
        _source(key.source_path(root), "class Model:\n    pass\n")
    tables = []
    for generator, dtype in GENERATORS.items():
        keys = [CandidateKey(generator, p.suite, p.problem, sample) for p in PROBLEMS for sample in range(SAMPLES)]
        for key in keys:
            hostile = key == HOSTILE_KEY
            plain = f"# {key}\nimport torch\n\n\nclass ModelNew(torch.nn.Module):\n    pass\n"
            text = HOSTILE_SOURCE if hostile else SLOW.get(key, plain)
            sha256 = _source(key.source_path(root), text)
            stages = hostile_stages(sha256) if hostile else stages_of(rng, dtype, sha256)
            if key == BEYOND_KEY:
                stages = stages_beyond(sha256)
            extra = {"source": HOSTILE, "settings": {"__proto__": HOSTILE, HOSTILE: 1}} if hostile else {}
            rf.write_candidate(root, key, stages, candidate_sha256=sha256, **extra)
        table = aggregate_generator(root, generator, keys, SETTINGS)
        tables.append(table)
        write_parquet(table, root / "results" / "kernels" / f"{generator}.parquet")
    board = leaderboard.build(dict(zip(GENERATORS, tables)), load_problems(root, PROBLEMS), SETTINGS)
    leaderboard.write(board, root / "results")
    return write_page(root)


def board_at(root: Path, tau: float) -> leaderboard.Leaderboard:
    """The leaderboard of a run that was aggregated with another tau, from its records."""
    settings = SETTINGS.model_copy(update={"tau": {"fp32": tau, "bf16": tau}})
    keys = [[CandidateKey(g, p.suite, p.problem, s) for p in PROBLEMS for s in range(SAMPLES)] for g in GENERATORS]
    tables = {g: aggregate_generator(root, g, some, settings) for g, some in zip(GENERATORS, keys, strict=True)}
    return leaderboard.build(tables, load_problems(root, PROBLEMS), settings)


def write_page(root: Path) -> Path:
    kernels = [root / "results" / "kernels" / f"{generator}.parquet" for generator in GENERATORS]
    out = root / "results" / PAGE_NAME
    return build.write(root, kernels, PROBLEMS, root / "results" / "leaderboard.json", SETTINGS, out, TAUS)


def _source(path: Path, text: str) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    data = text.encode("utf-8", "surrogatepass")
    path.write_bytes(data)
    return hashlib.sha256(data).hexdigest()


def stages_of(rng: random.Random, dtype: str, sha256: str) -> dict[str, Any]:
    """A candidate's records: one in ten does not build, one in ten fails for good, the rest needs some tau."""
    about = {"dtype": dtype, "candidate_sha256": sha256}
    kind = rng.random()
    if kind < 0.1:
        compiled = rf.compiled("compile_error", "nvcc says no", **about)
        stages = {"hidden-gate": GateRecord, "time-fp32": TimeRecord, "time-tf32": TimeRecord, "memory": MemoryRecord}
        return {"compile": compiled} | {
            s: rf.skipped(m, s, "compile: compile_error", **about) for s, m in stages.items()
        }
    tolerances = {
        name: 10 ** rng.uniform(-6.5, -0.5) if rng.random() < 0.3 else 10 ** rng.uniform(-7, -4)
        for name in protocol.DISTRIBUTIONS
    }
    failing: dict[str, Any] = {}
    if kind < 0.2:
        law = rng.choice(list(protocol.DISTRIBUTIONS)[1:])
        tolerances[law], failing = "nonfinite", {"verdict": "nonfinite", "detail": f"{law}: 3 NaN"}
    base = math.exp(rng.gauss(0, 1))
    ratio = math.exp(rng.gauss(0, 0.5))
    return {
        "compile": rf.compiled(**about),
        "hidden-gate": rf.gate(tolerances, weights_match=rng.random() < 0.95, **failing, **about),
        "time-fp32": rf.timing("time-fp32", rounds_of(rng, base * 1.2), rounds_of(rng, base / ratio), **about),
        "time-tf32": rf.timing("time-tf32", rounds_of(rng, base), rounds_of(rng, base / ratio), **about),
        "memory": rf.memory(int(1e6 * base) + 100, int(1e6 * base * math.exp(rng.gauss(0, 0.3))) + 100, **about),
    }


def rounds_of(rng: random.Random, centre: float, rounds: int = 8, repetitions: int = 5) -> list[tuple[float, ...]]:
    """Repetitions in ms."""
    return [tuple(centre * math.exp(rng.gauss(0, 0.02)) for _ in range(repetitions)) for _ in range(rounds)]


def hostile_stages(sha256: str) -> dict[str, Any]:
    about = {"candidate_sha256": sha256}
    compiled = CompileRecord(
        provenance=rf.provenance("compile", **about),
        status="ok",
        verdict="pass",
        output_tail=HOSTILE,
        builds=(Build(name=HOSTILE, key="k", ok=False, seconds=1.0, log_tail=HOSTILE),),
    )
    tolerances = dict.fromkeys(protocol.DISTRIBUTIONS, 1e-6) | {"d2_scale_3": "runtime_error"}
    gate = rf.gate(tolerances, verdict="runtime_error", detail=HOSTILE, **about)
    trials = tuple(t.model_copy(update={"detail": HOSTILE}) if t.failure else t for t in gate.trials)
    return {
        "compile": compiled,
        "hidden-gate": gate.model_copy(update={"trials": trials, "output_tail": HOSTILE}),
        "time-fp32": rf.timing("time-fp32", 4.0, 2.0, rounds=8, **about),
        "time-tf32": rf.timing("time-tf32", 4.0, 2.0, rounds=8, **about),
        "memory": rf.memory(2000, 1000, **about),
    }


def stages_beyond(sha256: str) -> dict[str, Any]:
    gate = rf.gate(candidate_sha256=sha256)
    beyond = OracleErrors(kind="fp64", scaled_error=7.5e-4, reference_scaled_error=1e-6)
    trials = [t.model_copy(update={"oracle": beyond}) if t.distribution == "d3_scale_0.01" else t for t in gate.trials]
    passing = {**hostile_stages(sha256), "compile": rf.compiled(candidate_sha256=sha256)}
    return {**passing, "hidden-gate": gate.model_copy(update={"trials": tuple(trials)})}


if __name__ == "__main__":
    import sys

    print(make(Path(sys.argv[1])))
