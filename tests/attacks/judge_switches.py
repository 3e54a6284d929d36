"""Defences of the judge, each with a function that switches it off in the process that has it.

The judge's process is changed from here, and nothing in the package knows of it.
"""

from __future__ import annotations

import dataclasses
import fcntl
import json
import os
import sys
from collections.abc import Callable
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
            side.exchange.writer(index, inputs)()
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


def _excuses() -> None:
    """A worker may say of any launch that no guard could be put around it."""
    from kbverified.judge.exchange import Exchange
    from kbverified.judge.trial import NotApplicable

    forward = Exchange.forward

    def believing(self: Any, *arguments: Any) -> Any:
        reply = forward(self, *arguments)
        if "not_guarded" in reply:
            raise NotApplicable(str(reply["not_guarded"]))
        return reply

    Exchange.forward = believing  # type: ignore[method-assign]


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
    from kbverified.records.trials import TrialResult

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
    "excuses": _excuses,
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
