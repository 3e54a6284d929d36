"""memory: peak device memory of one forward, baseline and candidate, each alone on the device in a fresh process.

Two figures stand side by side: torch's allocator peak (the published metric; a raw cudaMalloc escapes it) and the
device-wide figure, which the judge itself reads while the worker runs. The forward that is measured gets inputs that
no earlier one had, and its output is compared with the reference's: a forward that answers from what it kept, or not
at all, would need no memory.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import torch

from kbverified import layout
from kbverified.correctness import compare_all
from kbverified.devices.cpu import reset_resident_peak, resident_bytes, resident_peak_bytes
from kbverified.distributions import draw
from kbverified.judge.exchange import Exchange
from kbverified.judge.inputs import needed_bytes, secret_seed
from kbverified.judge.loose import loose_verdict
from kbverified.judge.party import CandidateFailure, Party, machines_fault
from kbverified.judge.reference import Reference
from kbverified.judge.rounds import output_limit
from kbverified.judge.stage import Job
from kbverified.protocol import FORWARD_SEED, STANDARD_DISTRIBUTION
from kbverified.records.stages import SideMemory


def run(job: Job) -> dict[str, Any]:
    """Measure one candidate and its baseline; returns the fields of the record. Raises InfrastructureFault."""
    reference = Reference(job.problem, job.settings.dtype)
    job.weights_bytes = reference.weight_bytes()
    get_inputs = reference.problem.get_inputs
    with job.on_device():
        job.preflight(needed_bytes(job.audit, copies_of_buffers=2, models=1))
        fields: dict[str, Any] = {}
        with machines_fault("the baseline failed"):
            job.await_model(job.baseline)
            base = _side(job, job.baseline, get_inputs)
        # Of this generator's dtype: the audit's own figures are of fp32.
        fields.update(baseline=base.memory, input_bytes=base.input_bytes)
        fields["output_bytes"] = sum(t.numel() * t.element_size() for t in base.answers)
        del base
        job.post_open(job.party)  # a context is made while the other is torn down; no code of the candidate runs yet
        job.baseline.close()
        job.await_open(job.party)
        job.lap("baseline")
        try:
            job.model(job.party)
            with job.memory_is_the_candidates():
                candidate = _side(job, job.party, get_inputs)
            fields["candidate"] = candidate.memory
            job.lap("candidate")
            with _ended_meanwhile(job):
                fields.update(_verdict(job, reference, candidate.answers, candidate.seed))
            job.lap("verify")
        except CandidateFailure as failure:
            failure = job.blame(failure)
            fields.update(verdict=failure.verdict, detail=failure.detail)
        return {**fields, "output_tail": job.party.worker.output_tail()}


@contextlib.contextmanager
def _ended_meanwhile(job: Job) -> Iterator[None]:
    """End the candidate's worker: its answers are in private memory, and a context takes a tenth of a second to tear
    down. Before anything else where the device has no room for it and the reference."""
    with ThreadPoolExecutor(1) as pool:
        ended = pool.submit(job.party.close)
        if needed_bytes(job.audit, copies_of_buffers=2, models=1) > job.device.free_bytes():
            ended.result()
        yield
        ended.result()


@dataclass(frozen=True)
class _Side:
    """One side's figures, and the forward that was measured: its outputs, the seed of its inputs and their bytes."""

    memory: SideMemory
    answers: list[torch.Tensor]
    seed: int
    input_bytes: int


def _side(job: Job, party: Party, get_inputs: Any) -> _Side:
    exchange = Exchange(job.device, party, job.audit, job.settings.dtype)
    seed = secret_seed()
    try:
        where = job.device.torch_device
        exchange.offer(draw(get_inputs, STANDARD_DISTRIBUTION, secret_seed(), where, job.settings.dtype))
        job.device.release_cached()
        exchange.forward()  # warm: libraries' workspaces and compiled kernels are not what a forward costs
        inputs = draw(get_inputs, STANDARD_DISTRIBUTION, seed, where, job.settings.dtype)
        exchange.offer(inputs)
        input_bytes = inputs.nbytes
        del inputs
        job.device.release_cached()
        party.ask({"do": "settle"})
        figures = _cpu(party) if job.settings.device == "cpu" else _cuda(job, party, input_bytes)
        return _Side(figures, exchange.take(), seed, input_bytes)
    finally:
        exchange.close()


def _verdict(job: Job, reference: Reference, answers: list[torch.Tensor], seed: int) -> dict[str, Any]:
    """Whether the outputs are the reference's for these inputs, by the limit of timed launches in this mode."""
    reference.place(job.device)
    limit = output_limit(reference, job.mode, job.gate_error)
    expected = layout.leaves(reference.forward(reference.draw(STANDARD_DISTRIBUTION, seed)))
    return {**loose_verdict(compare_all(answers, expected), "measured", limit), "output_limit": limit}


_MESSAGE = {"do": "memory", "forward_seed": FORWARD_SEED}


def _cpu(party: Party) -> SideMemory:
    """Peak resident set as the kernel counts it, above what was resident before the launch."""
    pid = party.worker.pid
    fresh = reset_resident_peak(pid)
    before = resident_bytes(pid)
    party.ask(dict(_MESSAGE))
    peak = resident_peak_bytes(pid)
    above = peak - before if fresh and peak is not None and before is not None else None
    return SideMemory(device_peak_bytes=peak, device_above_bytes=max(above, 0) if above is not None else None)


def _cuda(job: Job, party: Party, shared: int) -> SideMemory:
    """``shared``: bytes of the inputs, which lie in the judge's buffer, outside the worker's allocator."""
    watch = _Watch(job)
    with watch:
        reply = party.ask(dict(_MESSAGE))
    before, peak = _claim(reply.get("before_bytes")), _claim(reply.get("peak_bytes"))
    return SideMemory(
        allocator_peak_bytes=peak + shared if peak is not None else None,
        allocator_above_bytes=max(peak - before, 0) if peak is not None and before is not None else None,
        device_peak_bytes=watch.peak_bytes,
        device_above_bytes=max(watch.peak_bytes - watch.before_bytes, 0),
    )


def _claim(value: Any) -> int | None:
    good = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 50
    return value if good else None


class _Watch:
    """Reads the device's used memory about every half millisecond while a worker launches."""

    def __init__(self, job: Job):
        self.device = job.device
        self.before_bytes = self._used()
        self.peak_bytes = self.before_bytes
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)

    def _used(self) -> int:
        return self.device.total_bytes() - self.device.free_bytes()

    def _read(self) -> None:
        while not self._stop.is_set():
            self.peak_bytes = max(self.peak_bytes, self._used())
            time.sleep(0.0005)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        # What the allocator still caches was taken during the launch and is seen here at the latest.
        self.peak_bytes = max(self.peak_bytes, self._used())
