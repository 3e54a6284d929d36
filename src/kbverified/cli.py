"""The ``kbverified`` command. Imports are lazy: a stage that is skipped never imports torch.

Exit codes: 0 a record was written, whatever the verdict; the others are those of exit_codes.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import os
import subprocess
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path

from kbverified.exit_codes import EXIT_BAD_INPUT, EXIT_INFRASTRUCTURE
from kbverified.keys import EVERY_STAGE
from kbverified.printable import printable

# Commands whose modules bring their own arguments: add_parser(subparsers), run(arguments) -> exit code or None.
# In the order in which the help lists them: for people first, then what the workflow calls.
MODULES = {
    "check": "kbverified.check",
    "doctor": "kbverified.doctor",
    "import-problems": "kbverified.problem_import",
    "import-runs": "kbverified.run_import",
    "leaderboard": "kbverified.leaderboard",
    "llm-review": "kbverified.llm_judges.review",
    "device-run": "kbverified.device_run",
    "merge-records": "kbverified.merge_records",
    "estimate": "kbverified.estimate",
    "generate": "kbverified.generators",
    "prompt": "kbverified.prompts.command",
    "llm-judge": "kbverified.llm_judges.judge",
    "ceilings": "kbverified.roofline.ceilings",
}
OWN = ("stage", "audit-problem")

EXAMPLES = """\
examples:
  kbverified doctor                                                 what this machine can do, and what to mend
  kbverified check kernel.py --problem level1_1                     one kernel, every stage, a verdict
  kbverified import-problems --from ../KernelBench --suite kernelbench
  kbverified import-runs --from ../KernelBench/runs/my-run --generator my-model --suite kernelbench
  kbverified prompt --generator my-model --suite kernelbench --problem level1_90     what a model is asked
  kbverified estimate                                               what asking the models of API generators will cost
  snakemake --cores all                                             many kernels: the workflow
  kbverified leaderboard                                            what its last run found

kbverified COMMAND --help has more. stage, audit-problem, ceilings, generate and llm-judge: the workflow calls them.
exit code: 0 done, 2 usage or bad input, 75 a fault of the machine (try again); check and doctor: 1 fail, 3 a fault.
"""


def _parser(command: str | None) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="kbverified",
        description="Verified, timed and explained results for model-written GPU kernels.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    subparsers = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, module in MODULES.items():
        if command == name or command not in (*MODULES, *OWN):  # help and mistakes name them all
            importlib.import_module(module).add_parser(subparsers)
    stage = subparsers.add_parser("stage", help="run one stage of one candidate and write its record")
    stage.add_argument("stage", choices=EVERY_STAGE)
    stage.add_argument("--candidate", type=Path, required=True)
    stage.add_argument("--audit", type=Path, required=True, help="the problem's audit record")
    stage.add_argument("--compiled", type=Path, help="the compile record")
    stage.add_argument("--gate", type=Path, help="the hidden-gate record")
    audit = subparsers.add_parser("audit-problem", help="audit one problem and write its record")
    for one in (stage, audit):
        one.add_argument("--problem", type=Path, required=True)
        one.add_argument("--out", type=Path, required=True)
        _add_settings(one)
    audit.set_defaults(timeout_s=600.0)
    return parser


def _add_settings(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--device", choices=("cuda", "cpu"), required=True)
    parser.add_argument("--dtype", choices=("fp32", "bf16"), default="fp32")
    parser.add_argument("--sandbox", choices=("auto", "full", "user", "none"), default="auto")
    parser.add_argument(
        "--timeout-s",
        type=float,
        default=60.0,
        help="one answer of a worker; audit-problem: all of it, without waiting for a device (default there: 600)",
    )
    parser.add_argument("--build-timeout-s", type=float, default=900.0, help="an answer that may include building")
    parser.add_argument("--build-root", type=Path, default=Path(".build"))
    parser.add_argument("--arch", help="GPU architectures to build for, as in TORCH_CUDA_ARCH_LIST")
    parser.add_argument("--gate-mode", choices=("ieee", "default"), default="ieee")
    parser.add_argument(
        "--timing-budget-s", type=float, default=1.5, help="timing: what the rounds may take; ten are made in any case"
    )
    parser.add_argument("--threads", type=int, help="threads of judge and workers (default on a CPU: 1)")


def _settings(arguments: argparse.Namespace) -> object:
    from kbverified.judge.party import Settings

    return Settings(
        device=arguments.device,
        sandbox=arguments.sandbox,
        dtype=arguments.dtype,
        timeout_s=arguments.timeout_s,
        build_timeout_s=arguments.build_timeout_s,
        build_root=arguments.build_root,
        arch=arguments.arch or _default_arch(arguments.device),
        gate_mode=arguments.gate_mode,
        timing_budget_s=arguments.timing_budget_s,
        threads=arguments.threads or (1 if arguments.device == "cpu" else None),
    )


def _default_arch(device: str) -> str | None:
    """The architecture of this machine's first GPU; None on a CPU device."""
    if device != "cuda":
        return None
    from kbverified.lease import visible_gpus

    gpus = visible_gpus()
    return gpus[0].compute_capability if gpus else None


def _stage(arguments: argparse.Namespace) -> int:
    from kbverified.stages import run_stage

    # What is made below the build root is for workers to read, whose uid is another.
    os.umask(0o022)
    record = run_stage(
        arguments.stage,
        arguments.candidate,
        arguments.problem,
        arguments.audit,
        _settings(arguments),  # type: ignore[arg-type]
        arguments.out,
        arguments.compiled,
        arguments.gate,
    )
    print(f"{arguments.stage} {arguments.candidate}: {record.verdict or 'skipped, ' + str(record.reason)}")
    return 0


def _drop_read_at_import() -> None:
    """Leave this command without what would change torch in a judge and not in its workers."""
    from kbverified import import_environment

    names = import_environment.drop(os.environ)
    if names:
        print(f"kbverified: not handed to torch, as in every worker: {', '.join(names)}", file=sys.stderr)


def _in_evaluator(arguments: argparse.Namespace, words: list[str]) -> int | None:
    """Exit code of a stage that a forked judge has run; None where it is to run in this process."""
    from kbverified import evaluator

    if not evaluator.wanted():
        return None
    if arguments.command == "stage":
        from kbverified.stages import imports_torch

        paths = arguments.candidate, arguments.audit, arguments.dtype, arguments.compiled, arguments.gate
        if not imports_torch(arguments.stage, *paths):
            return None
    from kbverified.evaluator import client

    return client.run(words)


def _audit(arguments: argparse.Namespace) -> int:
    from kbverified.stages import audit_problem

    record = audit_problem(arguments.problem, _settings(arguments), arguments.out)  # type: ignore[arg-type]
    print(f"audit {arguments.problem}: {'usable' if record.usable else record.detail}")
    if arguments.device == "cuda" and record.needs_why_not is not None:
        _leave()
    return 0


def _leave() -> None:
    """End a process whose CUDA context may be lost before torch's destructors abort it: the record is written.

    A forked judge ends like this by itself, and has its exit code to hand over first.
    """
    from kbverified.sandbox import forked

    if forked.source() is None:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


@contextlib.contextmanager
def reader_may_leave() -> Iterator[None]:
    """Where a report is printed: whoever reads it may have seen enough (``| head``), and the exit code stays."""
    try:
        yield
        sys.stdout.flush()
    except (BrokenPipeError, SystemExit):  # the second is rich's word for the first
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or the interpreter complains at its end


def main(argv: list[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    words = sys.argv[1:] if argv is None else argv
    arguments = _parser(words[0] if words else None).parse_args(words)
    try:
        if arguments.command in ("stage", "audit-problem", "ceilings"):
            _drop_read_at_import()
        if arguments.command in ("stage", "audit-problem"):
            code = _in_evaluator(arguments, words)
            if code is not None:
                return code
            return _stage(arguments) if arguments.command == "stage" else _audit(arguments)
        return importlib.import_module(MODULES[arguments.command]).run(arguments) or 0
    except (ValueError, FileNotFoundError) as error:
        print(f"kbverified: {printable(str(error))}", file=sys.stderr)
        return EXIT_BAD_INPUT
    except (OSError, RuntimeError, MemoryError, subprocess.TimeoutExpired) as error:  # full disk, no GPU, no compiler
        print(f"kbverified: {_fault_says(arguments)}: {printable(str(error))}", file=sys.stderr)
        return _fault_code(arguments)
    except Exception:  # whatever a candidate brought about in the judge: no verdict, no record, and tried again
        print(f"kbverified: unforeseen, nothing was recorded:\n{printable(traceback.format_exc())}", file=sys.stderr)
        return _fault_code(arguments)


def _fault_says(arguments: argparse.Namespace) -> str:
    people = hasattr(arguments, "fault_code")
    return "a fault of the machine, no verdict" if people else "infrastructure fault, nothing was recorded"


def _fault_code(arguments: argparse.Namespace) -> int:
    """The exit code of a fault of the machine: a command for people has a small one of its own."""
    return getattr(arguments, "fault_code", EXIT_INFRASTRUCTURE)
