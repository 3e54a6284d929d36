"""findings.md from the findings of all topics: in the order of the topics, each under its conditions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from kbverified.leaderboard.headline import conditions_lines
from kbverified.paper.finding import Finding
from kbverified.paper.inputs import PaperInputs

TITLES = {
    "headline": "In short: each dtype and tolerance",
    "verified": "Verified performance",
    "memory": "Memory",
    "arms": "Arms and tests",
    "deflation": "From the naive claim to the verified one",
    "speedups": "Distribution of speedups",
    "roofline": "Against the device's ceilings",
    "decomposition": "What takes a win away",
    "tolerance": "Tolerance",
    "best_of_n": "Best of n samples",
    "bf16": "bf16",
    "failures": "Failure modes",
    "problems": "Problems",
    "environment": "Environment",
    "llm_judges": "What LLM judges say",
    "aa": "A/A: what the measurement can tell apart",
    "published": "Published numbers",
}
"""A topic that is not named here has its own name as title."""

LEGEND = {
    "claim holds": "the whole interval is on the claimed side of the threshold",
    "claim does not hold": "the whole interval is on the other side: the sentence says *not*",
    "undecided": "the interval has both sides of the threshold, or there is none: nothing is claimed",
    "reported": "a number or a count, compared with nothing",
    "not measured": "this run says nothing about it",
}
"""What is said of a sentence, in the order of the overview's columns."""


def said_of(finding: Finding) -> str:
    """A finding's outcome as a word of LEGEND: of a claim it is told whether the *claim* holds, not the sentence, which
    is worded so that it does."""
    if finding.outcome in ("holds", "does not hold"):
        return "reported" if finding.threshold is None else f"claim {finding.outcome}"
    return finding.outcome


def markdown(findings: Sequence[Finding], inputs: PaperInputs) -> str:
    """The findings topic by topic, in the order given, each with its outcome under its conditions; the run's own first.

    Within a topic, sentences of the same conditions stand together, in the order in which their conditions came first.
    """
    lines = ["# Findings", ""]
    if not inputs.leaderboard.conditions.findings:
        lines += ["**Nothing below may be used as a finding:** the device is no GPU, or environments are mixed.", ""]
    lines += [*(f"- {line}" for line in conditions_lines(inputs.leaderboard)), "", *_overview(findings)]
    for topic in dict.fromkeys(finding.topic for finding in findings):
        lines += [f"## {TITLES.get(topic, topic)}", ""]
        of_topic = [finding for finding in findings if finding.topic == topic]
        for conditions in dict.fromkeys(finding.conditions for finding in of_topic):
            lines += [f"Under: {conditions}", ""]
            lines += [f"- {f.sentence} *({said_of(f)})*" for f in of_topic if f.conditions == conditions]
            lines.append("")
    return "\n".join(lines).rstrip("\n") + "\n"


def _overview(findings: Sequence[Finding]) -> list[str]:
    """How many sentences of each topic have which outcome, and what an outcome means."""
    counts = Counter((finding.topic, said_of(finding)) for finding in findings)
    rows = [
        [TITLES.get(topic, topic), *(str(counts[topic, word]) for word in LEGEND)]
        for topic in dict.fromkeys(finding.topic for finding in findings)
    ]
    table = [["topic", *LEGEND], ["---", *("---:" for _ in LEGEND)], *rows]
    return [
        *("| " + " | ".join(row) + " |" for row in table if rows),
        "",
        *(f"- *{word}*: {meaning}." for word, meaning in LEGEND.items()),
        "",
    ]
