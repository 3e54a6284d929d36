"""The judge's draws. The seed of a trial is secret: it is drawn here and never leaves this process."""

from __future__ import annotations

import secrets
from typing import Any

from kbverified import problems
from kbverified.distributions import Inputs, draw
from kbverified.protocol import STANDARD_DISTRIBUTION


def secret_seed() -> int:
    """A fresh seed that no candidate can know."""
    return secrets.randbits(62)


def draw_trial(job: Any, distribution: str = STANDARD_DISTRIBUTION, seed: int | None = None) -> Inputs:
    """Inputs of one trial of a job's problem, on its device, in its dtype."""
    module = problems.load(job.problem)
    chosen = secret_seed() if seed is None else seed
    return draw(module.get_inputs, distribution, chosen, job.device.torch_device, job.settings.dtype)


def needed_bytes(audit: Any, copies_of_buffers: int, models: int) -> int:
    """Device memory that a stage needs at its peak, from the audit's figures (bytes)."""
    buffers = (audit.input_bytes or 0) + (audit.output_bytes or 0)
    return buffers * copies_of_buffers + (audit.reference_peak_bytes or buffers) * models
