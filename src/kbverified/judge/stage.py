"""What the GPU stages share: processes started early, a device leased late, a canary when it is unclear who failed."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kbverified import affinity, gpu_choice, lease
from kbverified.compilation import directory, slim_tree, toolchain
from kbverified.judge.party import (
    CandidateFailure,
    DoesNotFit,
    InfrastructureFault,
    Party,
    Settings,
    machines_fault,
    start_message,
    start_process,
)
from kbverified.protocol import STAGE_LIMIT_ANSWERS, WEIGHT_SEED
from kbverified.records.problem import ProblemRecord

COMPILING = "compile-baseline"
"""In place of a stage's name: the job that fills the caches of a compiled baseline. It has no candidate."""


@contextlib.contextmanager
def leased(kind: str, measuring: bool = True, place: int | None = None) -> Iterator[lease.Lease]:
    """Hold a device of a kind and make it the one that this process sees. Raises InfrastructureFault without one.

    ``place``: as of ``lease.acquire``.

    A GPU is held by whoever uses it. A CPU is held by who measures: a comparison needs none of it for itself, and an
    endless loop in one gate would keep all others waiting.
    """
    if kind == "cpu" and not measuring:
        yield lease.Lease("cpu", None, None, 0.0)
        return
    try:
        held = lease.acquire(kind, waiting=lambda text: print(text, file=sys.stderr), place=place)
    except (lease.NoDevice, TimeoutError) as error:
        raise InfrastructureFault(str(error)) from error
    with held:
        if held.gpu is not None:
            os.environ["CUDA_VISIBLE_DEVICES"] = held.gpu.uuid
        yield held


def timing_place(candidate: Path, problem: Path) -> str:
    """What decides on which of several GPUs a candidate is measured, in all three stages that do."""
    return f"{candidate} {problem}"


@dataclass
class Job:
    """One candidate, one problem, one stage."""

    stage: str
    candidate: Path
    problem: Path
    audit: ProblemRecord
    settings: Settings
    build: Path
    build_writable: bool = False
    builds_in_gate: bool = False
    """The compile stage left building to the gate: its first launch may take as long as a build."""
    mode: str = "ieee"
    weights_bytes: int = 0
    """Of the models that a worker constructs while the device is held, by the reference's."""
    gate_error: float | None = None
    """Relative rms error under the original inputs in the gate; None where no gate record says it."""
    compiled: Any = None
    """compiled.Compiled: the baseline goes through torch.compile and starts from these caches."""
    parties: list[Party] = field(default_factory=list)
    party: Any = None
    """The candidate's worker."""
    baseline: Any = None
    device: Any = None
    held: lease.Lease | None = None
    kept_cores: dict[str, frozenset[int]] = field(default_factory=dict)
    """The cores that are kept for each device, by its uuid."""
    cores: frozenset[int] | None = None
    """The cores kept for the device that this job holds; None where nothing is reserved."""
    hold_parts_s: dict[str, float] = field(default_factory=dict)
    """What the hold of the device went into, part by part."""
    _lap_start: float = 0.0

    def start(self, source: Path, class_name: str, name: str) -> Party:
        """Spawn a worker for a source; the job ends it."""
        own = self.build if class_name == "ModelNew" else None
        if name == "baseline" and self.compiled is not None:
            own = self.compiled.folder
        party = start_process(source, class_name, self.settings, name, own, self.build_writable)
        self.parties.append(party)
        return party

    def spawn_workers(self) -> None:
        """The candidate's worker and, where something is measured against it, the baseline's."""
        if self.stage == COMPILING:
            self.party = self.baseline = self.start(self.problem, "Model", "baseline")
            return
        self.party = self.start(self.candidate, "ModelNew", "candidate")
        if self.stage != "hidden-gate":
            self.baseline = self.start(self.problem, "Model", "baseline")

    def lap(self, part: str) -> None:
        """Close a part of the hold: the time since the part before, added under this name."""
        now = time.monotonic()
        self.hold_parts_s[part] = round(self.hold_parts_s.get(part, 0.0) + now - self._lap_start, 3)
        self._lap_start = now

    def construct_baseline(self) -> None:
        """Have the baseline construct its model before a device is held: the weights may be gigabytes."""
        message = self._start_message(self.baseline, WEIGHT_SEED)
        limit_s = self.settings.build_timeout_s if self.compiled is not None else None  # it imports a compiler as well
        with machines_fault("the baseline could not be constructed"):
            self.baseline.ask({**message, "do": "construct"}, timeout_s=limit_s)

    def _start_message(self, party: Party, weight_seed: int) -> dict[str, Any]:
        gpu = self.held.gpu.uuid if self.held and self.held.gpu else None
        message = start_message(party, self.settings, self.mode, self.audit.init_inputs, weight_seed, gpu)
        message["cores"] = sorted(self.cores) if self.cores else None
        if self.compiled is not None and party is self.baseline:
            message["compile"] = self.compiled.options()
        return message

    def post_open(self, party: Party) -> None:
        """Have a worker open the device while others do the same; ``await_open`` waits for it.

        Raises InfrastructureFault where it has died.
        """
        with machines_fault(f"the {party.name} is gone"):
            party.post({**self._start_message(party, WEIGHT_SEED), "do": "open"})

    def await_open(self, party: Party) -> None:
        """Raises InfrastructureFault: nothing of a candidate has run yet."""
        with machines_fault(f"the {party.name} could not open the device"):
            party.reply()

    def post_model(
        self, party: Party, weight_seed: int = WEIGHT_SEED, digests: bool = False, more: dict[str, Any] | None = None
    ) -> None:
        """Tell a worker to construct its model on the leased device; ``await_model`` waits for it.

        ``more``: what else the worker's ``start`` is told.
        """
        message = {**self._start_message(party, weight_seed), "digests": digests, **(more or {})}
        if party.class_name == "ModelNew":
            headers = slim_tree.existing(self.settings.build_root, toolchain.find(self.settings.arch))
            message.update(build_directory=str(self.build), build_writable=self.build_writable)
            message["header"] = str(headers) if headers else None
        party.post(message)

    def await_model(self, party: Party) -> dict[str, Any]:
        """Raises CandidateFailure."""
        may_build = self.builds_in_gate and party is self.party
        reply = party.reply(self.settings.build_timeout_s if may_build else None)
        party.flags = reply.get("flags") if isinstance(reply.get("flags"), dict) else None
        return reply

    def model(self, party: Party, weight_seed: int = WEIGHT_SEED) -> dict[str, Any]:
        self.post_model(party, weight_seed)
        return self.await_model(party)

    @contextlib.contextmanager
    def on_device(self) -> Iterator[Any]:
        """Hold a device, open it in this process, and end every worker before it is given back.

        Everything that needs no device has happened before: this process and the workers have imported torch, so
        that the device is held for launches and not for imports. Raises InfrastructureFault where there is none.
        """
        import torch

        from kbverified import precision
        from kbverified.devices import open_device, prepare

        torch.set_grad_enabled(False)
        prepare(self.settings.device)
        with machines_fault("a worker did not start"):  # nothing of the candidate has run yet
            for party in self.parties:
                party.wait_ready()
        # The published arm divides a time of one timing stage by one of the other.
        same_for = None if self.stage == "hidden-gate" else timing_place(self.candidate, self.problem)
        with gpu_choice.chosen(self.settings.device, same_for) as place:
            if place is not None:
                self._start_drivers(lease.visible_gpus()[place])
            if self.baseline is not None:
                self.construct_baseline()
            if self.settings.threads:
                torch.set_num_threads(self.settings.threads)
            with leased(self.settings.device, measuring=self.stage != "hidden-gate", place=place) as self.held:
                self._lap_start = time.monotonic()
                try:
                    self.party.deadline = time.monotonic() + self._stage_limit_s()
                    self._move_to_reserved_cores()
                    first = self.baseline or self.party
                    self.post_model(first, digests=first is self.party)  # it opens the device while this process does
                    if self.stage.startswith("time-"):
                        self.post_open(self.party)
                    self.device = open_device(self.settings.device, self.held.gpu)
                    precision.set_mode(self.mode)
                    self.lap("open")
                    yield self.device
                finally:
                    self._lap_start = time.monotonic()
                    self.end()
                    self.lap("end")

    def _start_drivers(self, gpu: lease.Gpu) -> None:
        """Start the CUDA driver here and in the workers while the GPU is somebody else's: nothing is made on it."""
        from kbverified.devices import start_driver, start_readings

        visible = {"CUDA_VISIBLE_DEVICES": gpu.uuid}
        before = os.environ.get("CUDA_VISIBLE_DEVICES")
        with machines_fault("a worker could not start the CUDA driver"):
            message = {"do": "driver", "device": self.settings.device, "environment": visible}
            for party in self.parties:
                # Also the baseline, whose model is there before the device is held: both sides' heaps are alike.
                party.post({**message, "weights_bytes": self.weights_bytes})
            os.environ.update(visible)
            start_driver(self.settings.device)
            if self.stage.startswith("time-"):
                start_readings(self.settings.device, gpu)
            if before is None:  # the lease counts the GPUs that this job may use
                del os.environ["CUDA_VISIBLE_DEVICES"]
            else:
                os.environ["CUDA_VISIBLE_DEVICES"] = before
            for party in self.parties:
                party.reply()

    def _move_to_reserved_cores(self) -> None:
        if self.stage == COMPILING:
            return  # nothing is timed, and more cores give the device back sooner
        if self.held is not None:
            self.cores = self.kept_cores.get(self.held.device)
        if self.cores:
            affinity.pin(self.cores)

    def _stage_limit_s(self) -> float:
        """How long a candidate may keep the device in all: limits are per answer, and their number is its claim."""
        building = self.settings.build_timeout_s if self.builds_in_gate else 0.0
        return STAGE_LIMIT_ANSWERS * self.settings.timeout_s + building

    @contextlib.contextmanager
    def memory_is_the_candidates(self) -> Iterator[None]:
        """The judge found no device memory while a candidate held the device's: its failure, if a canary finds some.

        What the judge itself needs was there at the preflight. Raises CandidateFailure for ``blame``.
        """
        import torch

        try:
            yield
        except (MemoryError, torch.OutOfMemoryError) as error:
            text = f"no memory was left for the judge beside the candidate: {error}"
        else:
            return
        raise CandidateFailure("out_of_memory", text)

    def preflight(self, needed_bytes: int) -> None:
        """Refuse before anything is launched what cannot fit: that is no verdict about the candidate.

        Raises DoesNotFit where the device is too small, InfrastructureFault where only now too little is free.
        """
        free, total = self.device.free_bytes(), self.device.total_bytes()
        if needed_bytes <= free:
            return
        text = f"{self.problem}: {self.stage} needs about {needed_bytes / 2**30:.1f} GiB of device memory"
        if needed_bytes > total:
            raise DoesNotFit(f"{text}, the device has {total / 2**30:.1f} GiB")
        raise InfrastructureFault(f"{text}, {free / 2**30:.1f} of {total / 2**30:.1f} GiB are free: who else uses it?")

    def end(self) -> None:
        """End every worker; their contexts are torn down side by side."""
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(Party.close, self.parties))

    def blame(self, failure: CandidateFailure) -> CandidateFailure:
        """Decide whether a crash, timeout, lack of memory or lost device is the candidate's: a reference canary runs
        afresh.

        Returns the failure where the canary works; raises InfrastructureFault where it fails too.
        """
        if failure.verdict == "compile_error" and directory.disk_is_full(self.build):
            raise InfrastructureFault(f"{failure}, and the disk of {self.build} is full: free some of it and run again")
        if not failure.is_ambiguous():
            return failure
        self.end()
        failure.__traceback__ = failure.__context__ = None  # its frames keep tensors, whose memory the canary needs
        self.device.release_cached()
        canary = self.start(self.problem, "Model", "canary")
        try:
            self.model(canary)
            from kbverified.judge.exchange import Exchange
            from kbverified.judge.inputs import draw_trial

            exchange = Exchange(self.device, canary, self.audit, self.settings.dtype)
            exchange.offer(draw_trial(self, seed=0))
            exchange.forward()
            exchange.close()
        except (CandidateFailure, MemoryError, RuntimeError) as error:
            raise InfrastructureFault(
                f"the candidate ended with {failure}, and the reference canary failed as well: {error}; "
                f"it printed {canary.worker.output_tail()[-500:]!r}"
            ) from error
        finally:
            canary.close()
        return failure
