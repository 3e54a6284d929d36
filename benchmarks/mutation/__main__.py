"""How good is the gate? Faulty kernels made from honest ones, and how many it catches.

    python -m benchmarks.mutation variants --work benchmarks/out/mutation          # GPU: the sizes of each problem
    python -m benchmarks.mutation reach    --work benchmarks/out/mutation          # GPU: which kernels are launched
    python -m benchmarks.mutation list     --work benchmarks/out/mutation          # which mutants, one JSON line each
    python -m benchmarks.mutation build    --work benchmarks/out/mutation          # each through the compile stage
    python -m benchmarks.mutation screen   --work benchmarks/out/mutation          # equivalents, before the gate
    python -m benchmarks.mutation gate     --work benchmarks/out/mutation          # each through the hidden-gate stage
    python -m benchmarks.mutation report   --work benchmarks/out/mutation
    python -m benchmarks.mutation all      --work benchmarks/out/mutation --per-parent 4
    python -m benchmarks.mutation waves    --work benchmarks/out/mutation --minutes 9 --out out

On a GPU: ``--device cuda [--candidates FOLDER --problems FOLDER] --jobs 16``. Each step goes on where an earlier call
stopped. The first two come before there is a list, on a GPU, and ``variants`` with ``--odd-sizes`` on a CPU: a mutant
that no launch can reach, or whose bound check is never false at the problem's size, is no faulty kernel. ``variants``
decides at which sizes a parent is tried (``odd_sizes.py``), ``reach`` in which of its code mutants are made
(``live_code.py``); what they found stays.

``waves`` is for a machine that is there for minutes: ``all`` for the first WAVES mutants, then for twice as
many, and so on, each with a report of its own in --out. Parents take turns in it, and a parent's operators, in an order
drawn beforehand, so that every wave is as good a sample as any. What a wave had no time for is said, and is in no
share. ``gate`` refuses to run before ``screened.jsonl`` is complete: what counts as equivalent is fixed before
anybody knows what the gate says.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from benchmarks.mutation import idle, launches, live_code, mutants, parents, running, screening, variants
from benchmarks.mutation.running import Kernel, Stages, Work, compiled

PREPARING = ("variants", "reach")
STEPS = ("list", "build", "screen", "gate", "report")
WAVES = 80
"""Mutants of the first wave: what one GPU builds, screens and gates in some seven minutes."""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="benchmarks.mutation", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("step", choices=(*PREPARING, *STEPS, "all", "waves"))
    parser.add_argument("--work", type=Path, required=True, help="the folder of this run")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--arch", default="9.0", help="GPU architectures, as in TORCH_CUDA_ARCH_LIST (default: 9.0)")
    parser.add_argument("--per-parent", type=int, default=25, help="at most so many mutants of a parent (default: 25)")
    parser.add_argument("--seed", type=int, default=mutants.SEED, help="of the choice among a parent's mutants")
    parser.add_argument(
        "--not-in",
        type=Path,
        nargs="+",
        default=[],
        metavar="FILE",
        help="mutants.jsonl of earlier lists",
    )
    parser.add_argument(
        "--odd-sizes", action="store_true", help="on a CPU too, try parents at odd sizes of their problems"
    )
    parser.add_argument("--parents", nargs="+", metavar="NAME", help="only these, as bundled-honest/level1_2")
    parser.add_argument(
        "--candidates", type=Path, help="a folder with the public parents (benchmarks.candidates --into)"
    )
    parser.add_argument(
        "--problems", type=Path, default=parents.PROJECT / "problems/kernelbench", help="their problems"
    )
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="processes (default: cores)")
    parser.add_argument("--first", type=int, help="only so many mutants in all, parents taking turns")
    parser.add_argument("--out", type=Path, help="of waves: the folder of its reports")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="start nothing after this")
    return parser


def _parents(arguments: argparse.Namespace) -> list[parents.Parent]:
    found = parents.on_cpu() if arguments.device == "cpu" else parents.on_gpu()
    if arguments.device == "cuda" and arguments.candidates:
        public, missing = parents.public(arguments.candidates.absolute(), arguments.problems.absolute())
        found += public
        for one in missing:
            print(f"mutation: {one}", file=sys.stderr)
    if arguments.parents:
        unknown = set(arguments.parents) - {parent.name for parent in found}
        if unknown:
            raise ValueError(f"--parents {sorted(unknown)[0]}: none of {', '.join(p.name for p in found)}")
        found = [parent for parent in found if parent.name in arguments.parents]
    return found


def _prepare(work: Work, stages: Stages, found: list[parents.Parent], steps: tuple[str, ...]) -> bool:
    """The steps before the list: False where the time was over. Raises ValueError, OSError, RuntimeError."""
    if "variants" in steps and not variants.choose(work, stages, found):
        return False
    return "reach" not in steps or launches.record(work, stages, _applied(work, found))


def _applied(work: Work, found: list[parents.Parent]) -> list[parents.Parent]:
    """Parents with the problems that they are tried on; who has none is told, and left out. Raises ValueError: all."""
    chosen, missing = variants.apply(work, found)
    if missing and not chosen:
        raise ValueError(missing[0])
    for one in missing:
        print(f"mutation: {one}", file=sys.stderr)
    return chosen


def make_list(
    work: Work,
    chosen_parents: list[parents.Parent],
    per_parent: int,
    seed: int,
    first: int | None = None,
    launched: Mapping[str, list[str] | None] | None = None,
    earlier: frozenset[str] = frozenset(),
) -> list[Kernel]:
    """Choose the mutants, write ``mutants.jsonl`` and their sources. Raises ValueError, OSError.

    ``launched``: by parent the kernels that it launches, as ``live_code.live`` takes them; None: all code is live.
    ``earlier``: ids of mutants that are not drawn again.
    """
    orders = []
    for parent in chosen_parents:
        text = parent.path.read_text(encoding="utf-8")
        every = mutants.of_parent(parent.name, parent.problem.stem, parent.device, text)
        every = live_code.live(every, text, launched[parent.name] if launched is not None else None)
        if parent.device == "cuda":
            every = idle.without(every, text)
        every = [mutant for mutant in every if mutant.id not in earlier]
        orders.append(mutants.drawn(every, seed)[:per_parent])
    if first is not None:
        orders = mutants.in_turns(orders, first)
    chosen = {
        parent.name: sorted(order, key=mutants.place) for parent, order in zip(chosen_parents, orders, strict=True)
    }
    work.root.mkdir(parents=True, exist_ok=True)
    mutants.write(work.root / "mutants.jsonl", [m for ms in chosen.values() for m in ms])
    return running.kernels(work, chosen_parents, chosen)


def main(argv: list[str] | None = None) -> int:
    """Exit code 0: done; 1: something is missing, or an honest parent failed; 2: bad input."""
    arguments = _parser().parse_args(argv)
    os.umask(0o022)
    work = Work(arguments.work.absolute())
    begin_s = time.monotonic()
    try:
        stages = Stages(work, arguments.device, arguments.arch, arguments.jobs, begin_s + 60 * arguments.minutes)
        found = _parents(arguments)
        possible = _preparing(arguments)
        if possible and arguments.step in ("waves", "all", *PREPARING):
            steps = tuple(step for step in possible if arguments.step in (step, "waves", "all"))
            if not _prepare(work, stages, found, steps):
                print("mutation: the time was over before there was a list; call again", file=sys.stderr)
                return _told(stages) or 1
        if arguments.step in PREPARING:
            return _told(stages)
        launched = None
        if "variants" in possible:
            found = _applied(work, found)
        if "reach" in possible:
            launched = launches.of(work, found)

        earlier = frozenset(mutant.id for path in arguments.not_in for mutant in mutants.read(path))

        def listed(first: int | None) -> list[Kernel]:
            return make_list(work, found, arguments.per_parent, arguments.seed, first, launched, earlier)

        if arguments.step == "waves":
            return _waves(work, stages, listed, arguments)
        kernels = listed(arguments.first)
        for step in STEPS if arguments.step == "all" else (arguments.step,):
            code = _step(step, work, stages, kernels, arguments)
            if code:
                return code
    except (ValueError, OSError, RuntimeError) as error:
        print(f"mutation: {error}", file=sys.stderr)
        return 2
    return _told(stages)


def _preparing(arguments: argparse.Namespace) -> tuple[str, ...]:
    """The steps that come before there is a list: launches are known of a GPU's kernels alone."""
    if arguments.device == "cuda":
        return PREPARING
    return ("variants",) if arguments.odd_sizes else ()


def _told(stages: Stages) -> int:
    for fault in stages.faults:
        print(f"mutation: {fault}", file=sys.stderr)
    return 1 if stages.faults else 0


def _waves(
    work: Work, stages: Stages, listed: Callable[[int | None], list[Kernel]], arguments: argparse.Namespace
) -> int:
    """Twice as many mutants each time, until all are judged or the time is over. Exit code as of ``main``."""
    code, first = 1, WAVES
    total = len([k for k in listed(None) if k.mutant is not None])
    while True:
        kernels = listed(min(first, total))
        stages.compile(kernels, builds=screening.wants_build(work, kernels))
        built = {k.name for k in kernels if compiled(work, k) is not None}
        honest = {k.parent.name for k in kernels if k.mutant is None and k.name in built}
        there = [k for k in kernels if k.name in built and k.parent.name in honest]
        if len(there) < len(kernels):
            print(f"waves: {len(kernels) - len(there)} of the first {first} are not built", flush=True)
            if time.monotonic() > stages.until_s:
                break
        # Who has no compile record by a fault of the machine is out of this wave: it is told among the faults.
        if _step("screen", work, stages, there, arguments):
            break
        _step("gate", work, stages, there, arguments)
        code = _step("report", work, stages, there, arguments)
        if arguments.out:
            arguments.out.mkdir(parents=True, exist_ok=True)
            for name in ("report.md", "lines.jsonl.gz", "screened.jsonl"):
                shutil.copy(work.root / name, arguments.out / f"first-{min(first, total)}-{name}")
        if first >= total or time.monotonic() > stages.until_s:
            break
        first *= 2
    return _told(stages) or code


def _step(step: str, work: Work, stages: Stages, kernels: list[Kernel], arguments: argparse.Namespace) -> int:
    if step == "list":
        print(
            f"{sum(k.mutant is not None for k in kernels)} mutants of {sum(k.mutant is None for k in kernels)} parents"
        )
    elif step == "build":
        stages.compile(kernels, builds=screening.wants_build(work, kernels))
    elif step == "screen":
        return 0 if screening.screen(work, kernels, arguments.device, arguments.jobs, stages.until_s) else 1
    elif step == "gate":
        kept, digest = screening.require(work, kernels), running.gate_digest()
        stages.compile(kept, builds=lambda kernel: not running.is_gated(work, kernel, digest))
        stages.gate(kept)
    else:
        from benchmarks.mutation import report

        return report.write(work, kernels, arguments.device)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
