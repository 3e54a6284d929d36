"""Whose kernels an LLM judge may not judge: its own model's, under whatever name either of them is served.

``gpt-5.5-mini`` is another model than ``gpt-5.5``, and of the same family.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from kbverified.model_names import normal_name, same_model


def of_family(name: str, family: str) -> bool:
    """Whether a model's name is the family's, or begins with it up to the end of a word: ``gpt`` has ``gpt-5.5``."""
    model, words = normal_name(name), normal_name(family)
    return bool(words) and re.match(rf"{re.escape(words)}(?![a-z])", model) is not None


def why_own(
    judge_names: Iterable[str | None],
    family: str | None,
    candidate_names: Iterable[str | None],
    candidate_family: str | None,
) -> str | None:
    """Why a judge of these names is of a candidate's own model or family; None where it is not.

    Names: as configured, and as served where that is known.
    """
    theirs = [name for name in candidate_names if name]
    for mine in filter(None, judge_names):
        for name in theirs:
            if same_model(mine, name):
                return f"{mine} is {name}, which wrote the candidate"
    if family is None:
        return None
    if candidate_family is not None and normal_name(family) == normal_name(candidate_family):
        return f"both are of the family {family}"
    relative = next((name for name in theirs if of_family(name, family)), None)
    return f"{relative}, which wrote the candidate, is of the family {family}" if relative else None
