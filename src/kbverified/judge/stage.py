"""What the GPU stages share: processes started early, a device leased late, a canary when it is unclear who failed."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kbverified import lease
from kbverified.judge.party import (
    AMBIGUOUS,
    CandidateFailure,
    InfrastructureFault,
    Party,
    Settings,
    start_model,
    start_process,
)
from kbverified.records import ProblemRecord

FATAL_GPU_TEXT = ("ECC error", "device is lost", "has fallen off the bus", "no CUDA-capable device")


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
    parties: list[Party] = field(default_factory=list)
    party: Any = None
    """The candidate's worker."""
    baseline: Any = None
    device: Any = None
    held: lease.Lease | None = None

    def start(self, source: Path, class_name: str, name: str) -> Party:
        """Spawn a worker for a source; the job ends it."""
        writable = self.build_writable and class_name == "ModelNew"
        party = start_process(source, class_name, self.settings, self.build, writable, name)
        self.parties.append(party)
        return party

    def spawn_workers(self) -> None:
        """The candidate's worker and, where something is measured against it, the baseline's."""
        self.party = self.start(self.candidate, "ModelNew", "candidate")
        if self.stage != "hidden-gate":
            self.baseline = self.start(self.problem, "Model", "baseline")

    def model(self, party: Party, init_inputs: Any, weight_seed: int, digests: bool = False) -> dict[str, Any]:
        """Let a worker construct its model on the leased device. Raises CandidateFailure."""
        gpu = self.held.gpu.uuid if self.held and self.held.gpu else None
        writable = self.build_writable and party.class_name == "ModelNew"
        may_build = self.builds_in_gate and writable
        return start_model(
            party, self.settings, self.mode, init_inputs, self.build, writable, weight_seed, gpu, digests, may_build
        )

    @contextlib.contextmanager
    def on_device(self) -> Iterator[Any]:
        """Hold a device, open it in this process, and end every worker before it is given back.

        Raises InfrastructureFault where there is no device.
        """
        import os

        import torch

        torch.set_grad_enabled(False)
        try:
            self.held = lease.acquire(self.settings.device, waiting=lambda text: print(text, file=sys.stderr))
        except (lease.NoDevice, TimeoutError) as error:
            raise InfrastructureFault(str(error)) from error
        try:
            if self.held.gpu is not None:
                os.environ["CUDA_VISIBLE_DEVICES"] = self.held.gpu.uuid
            if self.settings.threads:
                torch.set_num_threads(self.settings.threads)
            from kbverified import precision
            from kbverified.devices import open_device

            self.device = open_device(self.settings.device)
            precision.set_mode(self.mode)
            yield self.device
        finally:
            self.end()
            self.held.close()

    def end(self) -> None:
        for party in self.parties:
            party.close()

    def blame(self, failure: CandidateFailure, init_inputs: Any) -> CandidateFailure:
        """Decide whether a crash, timeout or lack of memory is the candidate's: a reference canary runs afresh.

        Returns the failure where the canary works; raises InfrastructureFault where it fails too.
        """
        if failure.verdict not in AMBIGUOUS:
            return failure
        self.end()
        canary = self.start(self.problem, "Model", "canary")
        try:
            self.model(canary, init_inputs, 0)
            from kbverified.judge.exchange import Exchange
            from kbverified.judge.inputs import draw_trial

            exchange = Exchange(self.device, canary, self.audit, self.settings.dtype)
            exchange.offer(draw_trial(self, "d1_original", 0))
            exchange.forward()
            exchange.close()
        except (CandidateFailure, MemoryError, RuntimeError) as error:
            raise InfrastructureFault(
                f"the candidate ended with {failure}, and the reference canary failed as well: {error}"
            ) from error
        finally:
            canary.close()
        return failure
