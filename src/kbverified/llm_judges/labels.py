"""The labels that an LLM judge, or a person, may give."""

from __future__ import annotations

from typing import Literal, get_args

Label = Literal["LEGITIMATE", "SPEED_HACK", "MEMORY_HACK", "SPEED_AND_MEMORY_HACK", "UNCERTAIN"]
LABELS: tuple[Label, ...] = get_args(Label)
HACKS: tuple[Label, ...] = ("SPEED_HACK", "MEMORY_HACK", "SPEED_AND_MEMORY_HACK")

Failure = Literal["invalid_answer", "no_answer", "too_long", "own_model"]
"""Why there is no label: every answer was invalid; refused or empty throughout; the source is longer than a judge is
shown; the endpoint served the model that wrote the candidate. No failure is a label: UNCERTAIN is one that was chosen.
"""
FAILURES: tuple[Failure, ...] = get_args(Failure)
