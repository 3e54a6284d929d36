"""Which candidates are judged, by which LLM judges, and what these are told was measured.

Every verified candidate that is faster than the reference in the matched arm, or whose time is impossible, and a
sample of the other verified ones. Whether a candidate is in the sample depends on its own key and source and on the
seed alone, so that a new candidate changes nothing about the others.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kbverified.kernel_table import tail_of
from kbverified.llm_judges.own_model import why_own
from kbverified.llm_judges.records import Chosen, ChosenCandidate, Why
from kbverified.llm_judges.settings import LlmJudge, LlmJudges

Row = Mapping[str, Any]


def choose(rows: Iterable[Row], settings: LlmJudges, models: Mapping[str, str | None]) -> Chosen:
    """Whom to ask about which of these rows of kernel tables; ``models``: each generator's model in their table.

    Raises ValueError for a family of a generator that is not in that table.
    """
    if unknown := sorted(settings.families.keys() - models.keys()):
        raise ValueError(f"llm_judges.families: no generator {unknown[0]!r}; there are {', '.join(models)}")
    verified = [row for row in rows if is_verified(row)]
    found, few = [], []
    for row in verified:
        why = _why(row, settings)
        if why is None:
            continue
        names = _names(row, models.get(row["generator"]))
        family = settings.families.get(row["generator"])
        kept_out = _kept_out(settings, names, family)
        asked = [judge.name for judge in settings.judges if judge.name not in kept_out]
        if len(asked) < settings.each:
            few.append(tail_of(row))
        found.append(
            ChosenCandidate(
                candidate=tail_of(row),
                candidate_sha256=row["candidate_sha256"],
                problem_sha256=row["problem_sha256"],
                why=why,
                panel=tuple(asked[: settings.each]),
                substitutes=tuple(asked[settings.each :]),
                kept_out=kept_out,
                facts=facts(row),
                model_names=names,
                family=family,
            )
        )
    return Chosen(
        judges=tuple(judge.name for judge in settings.judges),
        n_verified=len(verified),
        candidates=tuple(found),
        too_few_judges=tuple(few),
    )


def is_verified(row: Row) -> bool:
    """Passes the hidden test of an active problem, as leaderboard/scopes.py has them."""
    return row["verdict_hidden"] == "pass" and row["usable"] is True and row["degenerate"] is False


def _why(row: Row, settings: LlmJudges) -> Why | None:
    speedup = row["speedup_matched"]
    if speedup is not None and speedup > 1:
        return "faster"
    if row["implausible_in"]:
        return "implausible"
    drawn = hashlib.sha256(f"{settings.seed}/{tail_of(row)}/{row['candidate_sha256']}".encode()).digest()
    return "sample" if int.from_bytes(drawn[:8], "big") < settings.others_share * 2**64 else None


def _names(row: Row, model: str | None) -> tuple[str, ...]:
    """What the model that wrote a candidate is called: at its endpoint, by its endpoint, in the table."""
    served = row["source"] if row["origin"] == "api" else None
    given = (model, served, row["generator"])
    return tuple(dict.fromkeys(name for name in given if name))


def _kept_out(settings: LlmJudges, names: Sequence[str], family: str | None) -> dict[str, str]:
    if settings.own_models:
        return {}
    whys = {judge.name: own(judge, names, family) for judge in settings.judges}
    return {name: why for name, why in whys.items() if why}


def own(judge: LlmJudge, names: Sequence[str], family: str | None, served: str | None = None) -> str | None:
    """Why a judge is of the model or family that wrote a candidate; ``served``: the name under which it answered."""
    return why_own((judge.model, judge.name, served), judge.family, names, family)


# --- facts --------------------------------------------------------------------------------------------------

_SPEEDUPS = {
    "matched": "speedup, reference and candidate both with TF32 allowed",
    "naive": "speedup under torch's defaults",
    "published": "speedup, reference with TF32 allowed and candidate under torch's defaults",
}
_MEMORY = {
    "allocator_peak": "peak memory by torch's allocator, reference / candidate",
    "device_peak": "peak memory on the whole device, reference / candidate",
}


def facts(row: Row) -> dict[str, str]:
    """What a judge is told of a row: numbers, and words of ours only, nothing that a candidate could have written.

    Two significant digits: another measurement of the same candidate should ask the same question, which is paid for.
    """
    told = {
        "dtype of inputs and weights": row["dtype"],
        **{words: _factor(row[f"speedup_{arm}"]) for arm, words in _SPEEDUPS.items()},
        **{words: _factor(row[f"memory_ratio_{figure}"]) for figure, words in _MEMORY.items()},
        "test on the original inputs": row["verdict_standard"],
        "test on rescaled and negated inputs as well": row["verdict_hidden"],
        "test on other input laws and other weights": row["verdict_hardened"],
        "arithmetic, by the size of the rounding errors": row["numerics_class"],
        "weights are those of the reference": _yes(row["weights_match"]),
        "changed torch's precision flags": _yes(row["precision_flags_changed"]),
        "timing stages with a time below what moving inputs and outputs takes": row["implausible_in"] or "none",
    }
    return {name: value if value is not None else "not measured" for name, value in told.items()}


def _factor(value: float | None) -> str | None:
    return None if value is None else f"{float(f'{value:.2g}'):g}"


def _yes(value: bool | None) -> str | None:
    return None if value is None else "yes" if value else "no"
