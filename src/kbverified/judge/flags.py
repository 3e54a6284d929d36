"""A worker's claims about its global precision flags."""

from __future__ import annotations

from typing import Any

from kbverified.judge.party import CandidateFailure, Party
from kbverified.records.base import FlagState


def flag_state(claim: Any) -> FlagState | None:
    """The claim as a record; None where it is no such claim."""
    try:
        return FlagState.model_validate(claim)
    except ValueError:
        return None


def flags_now(party: Party) -> FlagState | None:
    """Ask a worker for its flags after the work is done; None where it does not answer."""
    try:
        return flag_state(party.ask({"do": "flags"}).get("flags"))
    except CandidateFailure:
        return None
