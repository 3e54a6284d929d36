"""``kbverified estimate``: what a run's missing samples and judgements will cost, before one of them is asked for.

Prompts are built and counted in bytes; what answers take is taken from those that the store has. Whom LLM judges are
asked about follows from the kernel tables: once they are there. Nothing is sent and nothing is written.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kbverified import prompts, tokens
from kbverified.config import Settings
from kbverified.config_files import project_settings
from kbverified.device_choice import resolve_device
from kbverified.endpoint_settings import ClientSettings, EndpointSettings
from kbverified.generators import GeneratorSpec, read_generators
from kbverified.keys import CandidateKey, ProblemKey
from kbverified.llm_judges.judge import store
from kbverified.llm_judges.open_questions import open_questions
from kbverified.llm_judges.records import Chosen
from kbverified.llm_judges.settings import LlmJudges
from kbverified.paid_answers import answer_key
from kbverified.response_store import response_folder
from kbverified.selection import select
from kbverified.spending import Spending, Spent

Tell = Callable[[ProblemKey], prompts.Told]
"""What the configuration says about a problem's prompt."""


@dataclass(frozen=True)
class Amount:
    """Tokens and, where prices are known, money. None: cannot be told."""

    prompt_tokens: int
    completion_tokens: int | None
    usd: float | None


@dataclass(frozen=True)
class Estimate:
    """One generator's run, or one LLM judge's."""

    generator: str | None
    """None: an LLM judge's."""
    judge: str | None
    model: str
    stored: int
    """Samples whose answer is in the store: paid. Of a judge candidates."""
    placed: int
    """... which lie there without one: kept, not asked for."""
    to_ask: int
    perhaps: int
    """Candidates about which a judge is asked only where others do not agree."""
    changed: int
    """Candidates that were edited since they were measured: who judges them is not known yet."""
    expected: Amount
    """As the answers in the store were; without any, the completion is not known. Of a judge for ``to_ask`` alone."""
    at_most: Amount
    """With ``max_tokens`` each; of a judge with what is asked perhaps, and with every try until an answer is valid."""
    answers: int
    """Answers that the expectation is made of."""
    spent: Amount
    """So far: on answers, and on requests that brought none and may have been billed."""
    budget_tokens: int | None
    budget_usd: float | None
    fit: tuple[int | None, int | None]
    """How many of the missing samples the budget is enough for, as expected and at least. None: no budget, unknown."""
    minutes: float | None
    """The least that the limits a minute allow. None: there are none."""


def estimate(spec: GeneratorSpec, keys: tuple[CandidateKey, ...], root: Path, told: Tell) -> Estimate:
    """What a generator's samples will cost. Raises OSError, RecordError for an answer that cannot be read, and like
    ``prompts.build``."""
    client = spec.client()
    folder = response_folder(root, spec.generator)
    asked: dict[ProblemKey, tuple[list[dict[str, str]], int]] = {}
    there: list[tuple[str, int]] = []
    missing, placed = [], 0
    for key in keys:
        problem = key.problem_key
        if problem not in asked:
            built = prompts.for_generator(spec, problem.source_path(root), told(problem), root)
            asked[problem] = built.messages, tokens.message_tokens(built.messages)
        messages, prompt_tokens = asked[problem]
        answer = answer_key(client, messages, name=key.tail)
        if (folder / f"{answer}.json").exists():
            there.append((answer, prompt_tokens))
        elif key.source_path(root).exists():
            placed += 1
        else:
            missing.append(prompt_tokens)
    counts = _Counts(stored=len(there), placed=placed)
    return _estimate(client, folder, there, missing, missing, counts, generator=spec.generator)


def estimate_judges(chosen: Chosen, settings: LlmJudges, root: Path) -> list[Estimate]:
    """What the LLM judges' judgements will cost. Raises like ``open_questions``."""
    found = []
    for one in open_questions(chosen, settings, root):
        most = [q.prompt_tokens for q in (*one.surely, *one.perhaps) for _ in range(q.tries)]
        surely = [q.prompt_tokens for q in one.surely]
        counts = _Counts(stored=one.judged, perhaps=len(one.perhaps), changed=one.changed)
        folder = store(root, one.judge.name)
        found.append(_estimate(one.judge, folder, one.there, surely, most, counts, judge=one.judge.name))
    return found


@dataclass(frozen=True)
class _Counts:
    stored: int
    placed: int = 0
    perhaps: int = 0
    changed: int = 0


def _estimate(
    client: ClientSettings,
    folder: Path,
    there: list[tuple[str, int]],
    missing: list[int],
    most: list[int],
    counts: _Counts,
    generator: str | None = None,
    judge: str | None = None,
) -> Estimate:
    """``there``: answers in the store and what their prompts were estimated at; ``missing``: prompts that are to be
    asked; ``most``: of all requests that there may be."""
    spent = Spending(folder, client).spent(look_only=True)
    taken = spent.total()
    mean = spent.answers.completion_tokens / spent.answers.requests if spent.answers.requests else None
    expected_completion = None if mean is None else round(mean * len(missing))
    most_completion = client.max_tokens * len(most) if client.max_tokens else None
    expected = _amount(client, round(sum(missing) * _prompt_scale(spent, there)), expected_completion if missing else 0)
    at_most = _amount(client, sum(most), most_completion if most else 0)
    return Estimate(
        generator=generator,
        judge=judge,
        model=client.model,
        **dataclasses.asdict(counts),
        to_ask=len(missing),
        expected=expected,
        at_most=at_most,
        answers=spent.answers.requests,
        spent=_amount(client, *taken),
        budget_tokens=client.budget_tokens,
        budget_usd=client.budget_usd,
        fit=(_fit(client, taken, expected, len(missing)), _fit(client, taken, at_most, len(missing))),
        minutes=_minutes(client, expected if expected.completion_tokens is not None else at_most, len(missing)),
    )


def _prompt_scale(spent: Spent, there: list[tuple[str, int]]) -> float:
    """Tokens as counted by the server for each that was estimated, over the stored answers of this selection."""
    known = [(spent.by_key[key][0], estimated) for key, estimated in there if key in spent.by_key]
    return sum(counted for counted, _ in known) / sum(estimated for _, estimated in known) if known else 1.0


def _amount(spec: EndpointSettings, prompt_tokens: int, completion_tokens: int | None) -> Amount:
    usd = None if completion_tokens is None else spec.usd(prompt_tokens, completion_tokens)
    return Amount(prompt_tokens, completion_tokens, usd)


def _fit(spec: EndpointSettings, spent: tuple[int, int], amount: Amount, count: int) -> int | None:
    """How many of ``count`` samples, which together take ``amount``, what is left of the budgets is enough for."""
    if amount.completion_tokens is None or (spec.budget_tokens is None and spec.budget_usd is None):
        return None
    shares = [1.0]
    if spec.budget_tokens is not None:
        needed = amount.prompt_tokens + amount.completion_tokens
        shares.append((spec.budget_tokens - sum(spent)) / needed if needed else 1.0)
    if spec.budget_usd is not None:
        shares.append((spec.budget_usd - (spec.usd(*spent) or 0.0)) / amount.usd if amount.usd else 1.0)
    return max(0, int(min(shares) * count + 1e-9))


def _minutes(spec: EndpointSettings, amount: Amount, count: int) -> float | None:
    found = [count / spec.requests_per_minute] if spec.requests_per_minute else []
    if spec.tokens_per_minute and amount.completion_tokens is not None:
        found.append((amount.prompt_tokens + amount.completion_tokens) / spec.tokens_per_minute)
    return max(found, default=None)


# --- words --------------------------------------------------------------------------------------------------


def words(one: Estimate) -> str:
    """A paragraph for people."""
    completion = f"mean of {one.answers} answers" if one.answers else "no answer yet to tell from"
    if one.judge is None:
        lines = [
            f"{one.generator} ({one.model})",
            f"  samples            {one.stored} stored, {one.placed} placed, {one.to_ask} to ask",
        ]
        most = "max_tokens each"
    else:
        changed = f"; {one.changed} not as they were measured" if one.changed else ""
        lines = [
            f"LLM judge {one.judge} ({one.model})",
            f"  candidates         {one.stored} judged, {one.to_ask} to ask, {one.perhaps} perhaps{changed}",
        ]
        most = "max_tokens each, with all tries, and with those where others may not agree"
    lines += [
        f"  expected           {_said(one.expected)} ({completion})",
        f"  at most            {_said(one.at_most)} ({most})",
        f"  spent so far       {_said(one.spent)}",
    ]
    for name, budget in (("budget_usd", one.budget_usd), ("budget_tokens", one.budget_tokens)):
        if budget is not None:
            lines.append(f"  {name:<18} {budget:,}: enough for {_fits(one)}")
    if one.minutes is not None:
        lines.append(f"  time               at least {one.minutes:.0f} min, by the limits a minute")
    return "\n".join(lines)


def _said(amount: Amount) -> str:
    completion = "unknown" if amount.completion_tokens is None else f"{amount.completion_tokens:,}"
    money = "unknown" if amount.usd is None else f"{amount.usd:,.2f}"
    return f"{amount.prompt_tokens:,} prompt + {completion} completion tokens, {money} USD"


def _fits(one: Estimate) -> str:
    expected, least = one.fit
    if expected is None or expected == least:
        return f"{least} of {one.to_ask}"
    return f"{expected} of {one.to_ask} as expected, {least} at least"


def add_parser(subparsers: Any) -> None:
    """Add ``estimate`` to the command line."""
    parser = subparsers.add_parser("estimate", help="what missing samples and judgements will cost")
    parser.add_argument("--configfile", type=Path, nargs="+", default=[], help="as snakemake gets them")
    parser.add_argument("--generator", help="only this one")
    parser.add_argument("--root", type=Path, default=Path("."))
    parser.add_argument("--json", action="store_true", help="for scripts")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print the estimates of the selected API generators, and of LLM judges. Raises ValueError, FileNotFoundError for a
    configuration or table that cannot be used."""
    found, missing = _all(args)
    if args.json:
        print(json.dumps([dataclasses.asdict(one) for one in found], indent=1))
        if missing:
            print(f"estimate: {missing}", file=sys.stderr)
    else:
        print("\n\n".join(filter(None, [*map(words, found), missing])) or "No generator of the selection asks a model.")
    return 0


def _all(args: argparse.Namespace) -> tuple[list[Estimate], str | None]:
    """All estimates, and why there are none of LLM judges although some are configured."""
    settings = project_settings(args.root, args.configfile)
    rows = read_generators(args.root / settings.generators_tsv)
    if args.generator and args.generator not in {row.generator for row in rows}:
        raise ValueError(f"{settings.generators_tsv}: no generator {args.generator!r}")
    selection = settings.selection
    if args.generator:
        selection = selection.model_copy(update={"generators": (args.generator,)})
    selected = select(selection, rows, resolve_device(settings.device, check=False), args.root)
    found = [
        estimate(row, selected.candidates[row.generator], args.root, _tell(settings, row))
        for row in rows
        if row.asks and row.generator in selected.candidates
    ]
    if args.generator or not settings.llm_judges.judges:
        return found, None
    # With pandas, which no estimate of generators needs.
    from kbverified import kernel_table
    from kbverified.llm_judges.choose import choose
    from kbverified.llm_judges.plan import kernel_paths

    tables = [args.root / path for path in kernel_paths(settings.llm_judges, selected.candidates)]
    if absent := [path for path in tables if not path.exists()]:
        why = f"{absent[0]} is not there yet: whom LLM judges are asked about is known once all is measured"
        return found, why
    chosen = choose(kernel_table.read_rows(tables), settings.llm_judges, {row.generator: row.model for row in rows})
    return found + estimate_judges(chosen, settings.llm_judges, args.root), None


def _tell(settings: Settings, row: GeneratorSpec) -> Tell:
    return lambda key: prompts.from_settings(settings, key.suite, key.problem, row.prompt)
