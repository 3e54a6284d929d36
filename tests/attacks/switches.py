"""Defences, each with a function that switches it off in the process that has it.

The judge's process is changed from here, and nothing in the package knows of it. What is a defence in the worker, for
candidates that mean no harm, is switched off there.
"""

from __future__ import annotations

import dataclasses
import fcntl
import json
import math
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any


def everywhere(module: str, name: str, new: Any) -> None:
    """Put something in the place of a module's function, also where others have taken it from there already."""
    old = getattr(sys.modules[module], name)
    for holder in [m for n, m in sys.modules.items() if n.startswith("kbverified")]:
        if getattr(holder, name, None) is old:
            setattr(holder, name, new)


# --- the judge's: times -----------------------------------------------------------------------------------------
def _verify() -> None:
    """No output of a timed launch is held against the reference's."""
    from kbverified.judge import bound, loose, rounds  # noqa: F401  those that have taken it

    everywhere(loose.__name__, "loose_verdict", lambda *_, **__: {"verdict": "pass", "detail": None})


def _replay() -> None:
    """A timed output is held to the limit of its error alone, not to how far apart other inputs' outputs are."""
    from kbverified.judge import rounds

    rounds.TIMED_OUTPUT_REPLAY_RATIO = 100.0


def _arithmetic() -> None:
    """A timed output may be as far off as any arithmetic could take it, whatever gate and mode say of this one."""
    from kbverified.judge import rounds, timing  # noqa: F401  that has taken it

    limit = rounds.output_limit
    everywhere(rounds.__name__, "output_limit", lambda reference, mode, _: limit(reference, mode, None))


def _bound() -> None:
    """No claim is held against the judge's own clock."""
    from kbverified.judge.bound import Bound

    Bound.outcome = lambda self: "agreed"  # type: ignore[method-assign]


def _one_by_one() -> None:
    """A batch shows all its inputs before the first launch, and has as many as on a machine with nothing else to do."""
    from kbverified.judge import bound

    run_batch = bound.run_batch
    bound.batch_size = lambda *_: 12

    def show_all(side: Any, drawn: list[Any], reference: Any = None) -> Any:
        for index, inputs in enumerate(drawn):
            side.exchange.write(index, inputs)
        return run_batch(side, drawn, reference)

    bound.run_batch = show_all


# --- the judge's: values ----------------------------------------------------------------------------------------
def _distributions() -> None:
    """The original inputs, drawn once, are all that a candidate is judged by."""
    from kbverified import protocol
    from kbverified.judge import gate

    gate.DISTRIBUTIONS = {protocol.STANDARD_DISTRIBUTION: 1.0}


def _secret_seed() -> None:
    """Inputs are drawn from the seed that KernelBench made known to everybody."""
    from kbverified.judge import inputs

    everywhere(inputs.__name__, "secret_seed", lambda: 42)


def _unchanged() -> None:
    """Nobody looks whether inputs were written to."""
    from kbverified.judge.exchange import Exchange

    Exchange.inputs_unchanged = lambda *_: True  # type: ignore[method-assign]


def _private_inputs() -> None:
    """The reference runs after the candidate, on what that has left of the inputs."""
    from kbverified.judge.exchange import Exchange
    from kbverified.judge.reference import Reference

    left: list[Any] = []
    forward = Reference.forward

    def keep(self: Any, _: Any) -> bool:
        left[:] = [view.clone() for view in self._input_views()]
        return True

    def on_what_is_left(self: Any, inputs: Any) -> Any:
        inputs.tensors = left[:] or inputs.tensors
        return forward(self, inputs)

    Exchange.inputs_unchanged = keep  # type: ignore[method-assign]
    Reference.forward = on_what_is_left  # type: ignore[method-assign]


def _poison() -> None:
    """The output's buffer is where the reference has just left its own output, as memory that was freed is."""
    from kbverified import layout
    from kbverified.judge.exchange import Exchange
    from kbverified.judge.reference import Reference

    place, offer, placed = Reference.place, Exchange.offer, []

    def remember(self: Any, device: Any) -> None:
        placed.append(self)
        place(self, device)

    def offer_after_it(self: Any, inputs: Any) -> None:
        expected = layout.leaves(placed[0].forward(inputs))
        self.poison_outputs = lambda: layout.copy_into(self._output_views(), expected)
        offer(self, inputs)

    Reference.place = remember  # type: ignore[method-assign]
    Exchange.offer = offer_after_it  # type: ignore[method-assign]


def _all_elements() -> None:
    """Only the first 64 elements are compared."""
    from kbverified import correctness

    compare = correctness.compare

    def compare_first(answer: Any, reference: Any, *more: Any) -> Any:
        return compare(answer.reshape(-1)[:64], reference.reshape(-1)[:64], *more)

    everywhere(correctness.__name__, "compare", compare_first)


def _nonfinite() -> None:
    """What is not finite is left out of the comparison: every comparison with NaN is false, also "too far off"."""
    from kbverified import correctness

    compare = correctness.compare

    def compare_numbers(answer: Any, reference: Any, *more: Any) -> Any:
        return compare(answer.where(answer.isfinite(), reference), reference, *more)

    everywhere(correctness.__name__, "compare", compare_numbers)


def _trust() -> None:
    """The judge believes what is said to it of the comparison that the worker makes (``_one_process``)."""
    from kbverified import correctness
    from kbverified.judge.exchange import Exchange

    forward, compare, said = Exchange.forward, correctness.compare, [False]

    def listen(self: Any, *more: Any, **named: Any) -> Any:
        reply = forward(self, *more, **named)
        said[0] = bool(reply.get("allclose"))
        return reply

    def believe(answer: Any, reference: Any, *more: Any) -> Any:
        wrong = 0.0 if said[0] else 1.0
        found = compare(reference, reference, *more)  # nobody looks at the answer
        return dataclasses.replace(found, critical_tolerance=wrong, max_abs_error=wrong, equal=said[0])

    Exchange.forward = listen  # type: ignore[method-assign]
    everywhere(correctness.__name__, "compare", believe)


# --- the judge's: processes -------------------------------------------------------------------------------------
def _believe(found: Callable[[dict[str, Any]], bool]) -> None:
    """Where ``found`` says so of the gate's fields, every trial is a pass."""
    from kbverified.judge import gate
    from kbverified.records import TrialResult

    run = gate.run

    def run_and_believe(job: Any) -> dict[str, Any]:
        fields = run(job)
        if not found(fields):
            return fields
        trial = TrialResult(distribution="d1_original", critical_tolerance=0.0)
        return {**fields, "verdict": "pass", "detail": None, "trials": (trial,)}

    gate.run = run_and_believe


def _exit_code() -> None:
    """A process that has ended with 0 has done what it was to do."""
    _believe(lambda fields: fields["verdict"] == "crash" and "exit code 0" in fields["detail"])


def _printed() -> None:
    """The result is what the process printed last, as where an evaluation is a script."""

    def passed(fields: dict[str, Any]) -> bool:
        lines = fields["output_tail"].split()
        return bool(lines) and lines[-1].startswith("{") and json.loads(lines[-1])["verdict"] == "pass"

    _believe(passed)


def _started(**changes: Any) -> None:
    """Workers are started otherwise."""
    from kbverified.judge import party

    spawn = party.spawn
    party.spawn = lambda request: spawn(dataclasses.replace(request, **changes))


def _sandbox() -> None:
    """Workers are processes of the judge's own, with all its rights."""
    _started(level="none")


def _limits() -> None:
    """Workers may have, and print, what they like."""
    from kbverified.sandbox import Limits

    _started(limits=Limits(processes=None, file_size_bytes=None, output_bytes=1 << 40))


def _environment() -> None:
    """Workers inherit the judge's environment."""
    from kbverified.judge import party

    spawn, mine = party.spawn, dict(os.environ)
    party.spawn = lambda request: spawn(dataclasses.replace(request, env={**mine, **request.env}))


def _seals() -> None:
    """A file that judge and worker share can be cut short."""
    call = fcntl.fcntl
    fcntl.fcntl = lambda fd, command, *more: 0 if command == fcntl.F_ADD_SEALS else call(fd, command, *more)


# --- the worker's -----------------------------------------------------------------------------------------------
def _join() -> None:
    """A launch is over when the current stream is."""
    import torch

    from kbverified.devices.cuda import CudaDevice

    def time_ms(self: Any, launch: Callable[[], Any]) -> tuple[float, Any]:
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # noqa: TID251
        start.record()
        result = launch()
        end.record()
        self.synchronize()
        return start.elapsed_time(end), result

    CudaDevice.time_ms = time_ms  # type: ignore[method-assign]


def _persisting() -> None:
    """A flush leaves the lines that the L2 was asked to keep."""
    from kbverified.devices.cuda import CudaDevice

    CudaDevice.forget_persisting = lambda self: None  # type: ignore[method-assign]


def _kind() -> None:
    """An output is taken for what it is meant to be."""
    from kbverified import layout

    layout.mismatch = lambda *_: None  # type: ignore[assignment]


def _aliases() -> None:
    """An output may be the input."""
    from kbverified import layout

    layout.aliases = lambda *_: False  # type: ignore[assignment]


def _called() -> None:
    """``forward`` is judged, and nobody looks at what a call of the model does."""
    from kbverified.worker import Bootstrap

    Bootstrap._launch = lambda self, arguments: self.model.forward(*arguments)  # type: ignore[method-assign]


def _strides() -> None:
    """An output is copied as its bytes lie in memory."""
    from kbverified import layout

    def copy_bytes(targets: list[Any], sources: list[Any]) -> None:
        for target, source in zip(targets, sources, strict=True):
            target.view(-1).copy_(source.as_strided((source.numel(),), (1,)))

    layout.copy_into = copy_bytes


def _flags() -> None:
    """The precision flags are those that were set before the candidate was loaded."""
    from kbverified.worker import Bootstrap

    start = Bootstrap.do_start

    def remember(self: Any, message: Any, fds: Any) -> Any:
        reply = start(self, message, fds)
        self.before = reply["flags"]
        return reply

    Bootstrap.do_start = remember  # type: ignore[method-assign]
    Bootstrap.do_flags = lambda self, *_: {"flags": self.before}  # type: ignore[method-assign]


def _one_process() -> None:
    """The reference is constructed and run, and the comparison made, where the candidate runs: after its source was
    loaded, and before its forward."""
    import torch

    from kbverified import problems
    from kbverified.worker import Bootstrap

    construct = Bootstrap._construct
    Bootstrap.reference = None  # type: ignore[attr-defined]

    def construct_both(self: Any, message: Any) -> Any:
        model = construct(self, message)
        if message["class"] == "ModelNew":
            problem = problems.load(Path(os.environ["KBV_ATTACKED_PROBLEM"]))
            torch.manual_seed(message["weight_seed"])
            sys.modules["__main__"].Model = problem.Model  # type: ignore[attr-defined]
            self.reference = problem.Model(*problem.get_init_inputs())
        return model

    def do_forward(self: Any, message: Any, fds: Any) -> dict[str, Any]:
        if self.reference is None:  # a canary's
            return forward(self, message, fds)
        arguments = self._arguments()
        torch.manual_seed(message["forward_seed"])
        expected = self.reference(*arguments)
        torch.manual_seed(message["forward_seed"])
        result = self._guard("runtime_error", lambda: self.model(*arguments))
        return {"ok": True, "allclose": bool(result.allclose(expected, rtol=1e-3, atol=1e-3))}

    forward = Bootstrap.do_forward
    Bootstrap._construct = construct_both  # type: ignore[method-assign]
    Bootstrap.do_forward = do_forward  # type: ignore[method-assign]


JUDGES: dict[str, Callable[[], None]] = {
    "verify": _verify,
    "replay": _replay,
    "arithmetic": _arithmetic,
    "bound": _bound,
    "one_by_one": _one_by_one,
    "distributions": _distributions,
    "secret_seed": _secret_seed,
    "unchanged": _unchanged,
    "private_inputs": _private_inputs,
    "poison": _poison,
    "all_elements": _all_elements,
    "nonfinite": _nonfinite,
    "one_process": _trust,
    "exit_code": _exit_code,
    "printed": _printed,
    "sandbox": _sandbox,
    "limits": _limits,
    "environment": _environment,
    "seals": _seals,
}
WORKERS: dict[str, Callable[[], None]] = {
    "join": _join,
    "persisting": _persisting,
    "kind": _kind,
    "aliases": _aliases,
    "called": _called,
    "strides": _strides,
    "flags": _flags,
    "one_process": _one_process,
}
SWITCHES = {*JUDGES, *WORKERS, "hardened"}
"""``hardened``: that verdict is not looked at. Nothing is run for it: the hidden verdict stands in the same record."""


def switch_off_in_judge(names: list[str]) -> None:
    """Change this process, which is or will be a judge. Raises KeyError for a name that there is not."""
    for name in names:
        if name in JUDGES or name not in WORKERS:
            JUDGES[name]()
    from kbverified.judge import rounds

    rounds.TIMING_UNSTABLE_HALF_WIDTH = dict.fromkeys(rounds.TIMING_UNSTABLE_HALF_WIDTH, math.inf)  # not the question
