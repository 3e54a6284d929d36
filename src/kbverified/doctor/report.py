"""The findings of ``doctor`` for the terminal."""

from __future__ import annotations

import sys

from rich.console import Console
from rich.text import Text

from kbverified.doctor import Sections, summary
from kbverified.printable import printable

STYLES = {"ok": "green", "warn": "yellow", "fail": "bold red"}


def print_findings(sections: Sections, console: Console | None = None) -> None:
    """A heading for each section, a line for each finding, and behind an arrow what to do."""
    console = console or Console(highlight=False, width=None if sys.stdout.isatty() else 120)
    width = max(len(finding.name) for found in sections.values() for finding in found)
    for title, found in sections.items():
        if not found:
            continue
        console.print(Text(f"\n{title}", "bold"))
        for finding in found:
            mark = Text(f"  {finding.status:<5}", STYLES[finding.status])
            console.print(mark + Text(printable(f"{finding.name:<{width}}  {finding.value}")), soft_wrap=True)
            if finding.todo is not None:
                console.print(Text(f"  {'':<5}{'':<{width}}  -> {finding.todo}", "dim"), soft_wrap=True)
    console.print()
    for line in summary(sections):
        console.print(Text(line), soft_wrap=True)
