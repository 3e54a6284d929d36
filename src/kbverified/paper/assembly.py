"""findings.md from the findings of all topics."""

from __future__ import annotations

from collections.abc import Sequence

from kbverified.leaderboard.render import conditions_lines
from kbverified.paper.finding import Finding
from kbverified.paper.inputs import PaperInputs


def markdown(findings: Sequence[Finding], inputs: PaperInputs) -> str:
    """The findings topic by topic, in the order given, each with its outcome and conditions; the run's own first."""
    lines = ["# Findings", "", *(f"- {line}" for line in conditions_lines(inputs.leaderboard)), ""]
    for topic in dict.fromkeys(finding.topic for finding in findings):
        lines += [f"## {topic}", ""]
        lines += [f"- {f.sentence} ({f.outcome}; {f.conditions})" for f in findings if f.topic == topic]
        lines.append("")
    return "\n".join(lines).rstrip("\n") + "\n"
