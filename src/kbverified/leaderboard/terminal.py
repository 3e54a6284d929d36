"""The leaderboard on a terminal: the headline's table, its conditions, and what needs a look."""

from __future__ import annotations

import sys
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from kbverified.leaderboard.files import FILE_NAMES, PAGE_NAME
from kbverified.leaderboard.headline import conditions_lines, headline_columns, headline_rows
from kbverified.leaderboard.model import Leaderboard


def terminal_table(leaderboard: Leaderboard) -> Table:
    """The headline as a table for rich's console: intervals on a second line, a section per generator and suite."""
    table = Table(title="Leaderboard", header_style="bold", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    suites = len(leaderboard.conditions.suites) > 1
    names = headline_columns(leaderboard)
    suite, level = names.index("suite"), names.index("level")
    shown = [i for i in range(len(names)) if suites or i != suite]
    for i in shown:
        table.add_column(names[i].replace("+", "\n"), justify="left" if i <= level else "right")
    previous = None
    for row in headline_rows(leaderboard):
        if previous is not None and row[:level] != previous:
            table.add_section()
        previous = row[:level]
        cells = [Text(cell.replace(" [", "\n[").replace(", ", ",\u00a0")) for cell in row]
        table.add_row(*(cells[i] for i in shown), style="bold" if row[level] == "all" else None)
    return table


def print_leaderboard(leaderboard: Leaderboard, directory: Path, console: Console | None = None) -> None:
    """Print the table, its conditions, what needs a look, and where the files are."""
    console = console or Console(width=None if sys.stdout.isatty() else 140)
    console.print(terminal_table(leaderboard))
    for line in conditions_lines(leaderboard):
        console.print(line, highlight=False, markup=False)
    for summary in leaderboard.generators:
        counts = ", ".join(f"{name} {n}" for name, n in summary.verdicts[leaderboard.conditions.headline_test].items())
        console.print(f"{summary.generator}: {counts or 'no candidate'}", highlight=False, markup=False)
        for line in summary.unexpected:
            console.print(f"  unexpected: {line}", highlight=False, markup=False, style="red")
    if leaderboard.excluded:
        names = ", ".join(f"{e.suite}/{e.problem}" for e in leaderboard.excluded)
        console.print(f"Left out: {names} (reasons in {FILE_NAMES['md']})", highlight=False, markup=False)
    page = [PAGE_NAME] if (directory / PAGE_NAME).exists() else []
    for name in (*FILE_NAMES.values(), *page):
        console.print(str(directory / name), highlight=False, markup=False)
