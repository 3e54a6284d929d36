"""A table of the paper, and the three forms in which it is written: CSV to compute with, Markdown to read, LaTeX.

The cells are values; how they look is the column's. A mean or a share is an ``Estimate``: with its interval in every
form. What is not measured is a dash, and the text below the table says why.
"""

from __future__ import annotations

import csv
import io
from collections import Counter
from dataclasses import dataclass
from typing import Literal

from kbverified.leaderboard.model import Estimate

Cell = None | str | int | float | Estimate
Kind = Literal["text", "count", "number", "factor", "percent"]

DASH = "–"
LONG_TABLE_ROWS = 45
"""A LaTeX table of more rows than fit a page is a longtable."""

_DIGITS: dict[Kind, int] = {"text": 0, "count": 0, "number": 3, "factor": 2, "percent": 1}


@dataclass(frozen=True)
class Column:
    """One column.

    ``kind``: ``text``; ``count``, whole numbers; ``number``, ``digits`` significant digits; ``factor``, ``digits``
    decimals; ``percent``, shares from 0 to 1 shown in percent with ``digits`` decimals. CSV has shares as they are.
    """

    name: str
    """In the CSV's first line: plain, lower case, with the unit as a suffix."""
    header: str
    unit: str | None = None
    digits: int | None = None
    """None: count 0, number 3, factor 2, percent 1."""
    kind: Kind = "text"
    interval: bool = False
    """The cells are Estimates (or None): three columns in the CSV, ``name``, ``name_low``, ``name_high``."""

    @property
    def title(self) -> str:
        unit = self.unit or ("%" if self.kind == "percent" else None)
        return f"{self.header} ({unit})" if unit else self.header


@dataclass(frozen=True)
class Table:
    """Rows of cells under columns. Raises ValueError where a row does not fit, or a dash would have no reason."""

    name: str
    """Of its files, and of its label in LaTeX."""
    title: str
    note: str
    """Conditions and definitions, below the table: arm, test, tau, problems, and why a plain None is not measured.
    Reasons of Estimates are added by themselves."""
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]

    def __post_init__(self) -> None:
        names = [column.name for column in self.columns]
        if len(set(names)) < len(names):
            raise ValueError(f"table {self.name}: two columns of one name among {', '.join(names)}")
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ValueError(f"table {self.name}: a row of {len(row)} cells under {len(self.columns)} columns")
            for column, cell in zip(self.columns, row):
                self._check(column, cell)

    def _check(self, column: Column, cell: Cell) -> None:
        where = f"table {self.name}, column {column.name}: {cell!r}"
        if isinstance(cell, Estimate):
            if not column.interval:
                raise ValueError(f"{where}: an Estimate needs a column with interval=True")
        elif column.interval and cell is not None:
            raise ValueError(f"{where}: a column with interval=True takes Estimates or None")
        elif isinstance(cell, str) and column.kind != "text":
            raise ValueError(f"{where}: text in a column of kind {column.kind}")
        if cell is None and not self.note:
            raise ValueError(f"{where}: not measured, and the table has no note that says why")

    def reasons(self) -> list[str]:
        """Why Estimates have no value or no interval, the commonest first, with their counts."""
        cells = [cell for row in self.rows for cell in row if isinstance(cell, Estimate)]
        found = Counter(cell.why_null for cell in cells if cell.why_null)
        return [f"{why} ({n})" if n > 1 else why for why, n in sorted(found.items(), key=lambda i: (-i[1], i[0]))]

    def below(self) -> list[str]:
        """The paragraphs below the table."""
        reasons = self.reasons()
        dash = f"{DASH}, or no interval: {'; '.join(reasons)}." if reasons else ""
        return [text for text in (self.note, dash) if text]


# --- cells --------------------------------------------------------------------------------------------------


def shown(column: Column, cell: Cell) -> str:
    """A cell as text: ``0.88 [0.80, 0.97]`` for an Estimate, a dash for what is not measured."""
    if isinstance(cell, Estimate):
        if cell.value is None:
            return DASH
        value = _number(column, cell.value)
        if cell.low is None or cell.high is None:
            return value
        return f"{value} [{_number(column, cell.low)}, {_number(column, cell.high)}]"
    if cell is None:
        return DASH
    return cell if isinstance(cell, str) else _number(column, cell)


def _number(column: Column, value: int | float) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    digits = _DIGITS[column.kind] if column.digits is None else column.digits
    if column.kind == "percent":
        text = f"{100 * value:.{digits}f}"
    elif column.kind == "factor":
        text = f"{value:.{digits}f}"
    elif column.kind == "number":
        text = f"{value:.{digits}g}"
    else:
        text = str(value) if isinstance(value, int) else f"{value:.9g}"
    return text if text.strip("-0.") else text.lstrip("-")  # no minus zero


def _raw(cell: Cell | bool) -> str:
    """A cell of the CSV: nine significant digits, beyond which the machine's summation order shows; empty for None."""
    if cell is None:
        return ""
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    return f"{cell:.9g}" if isinstance(cell, float) else str(cell)


# --- forms --------------------------------------------------------------------------------------------------


def to_csv(table: Table) -> str:
    """The header and the rows, nothing else; an Estimate as three columns, null empty."""
    lines = io.StringIO()
    writer = csv.writer(lines, lineterminator="\n")
    writer.writerow(
        [f"{c.name}{end}" for c in table.columns for end in (("", "_low", "_high") if c.interval else ("",))]
    )
    for row in table.rows:
        values: list[Cell] = []
        for column, cell in zip(table.columns, row):
            if isinstance(cell, Estimate):
                values += [cell.value, cell.low, cell.high]
            else:
                values += [cell, None, None] if column.interval else [cell]
        writer.writerow([_raw(value) for value in values])
    return lines.getvalue()


def to_markdown(table: Table) -> str:
    """Title, table and note."""
    lines = [[c.title for c in table.columns], [_rule(c) for c in table.columns]]
    lines += [[shown(c, cell) for c, cell in zip(table.columns, row)] for row in table.rows]
    body = ["| " + " | ".join(" ".join(cell.split()).replace("|", "\\|") for cell in line) + " |" for line in lines]
    below = [line for text in table.below() for line in ("", text)]
    return "\n".join([f"### {table.title}", "", *body, *below]) + "\n"


def _rule(column: Column) -> str:
    return "---" if column.kind == "text" else "---:"


_LATEX = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "%": r"\%", "_": r"\_",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "|": r"\textbar{}", "–": "--", "—": "---", "≥": r"$\geq$", "≤": r"$\leq$", "×": r"$\times$", "±": r"$\pm$",
    "τ": r"$\tau$", "µ": r"$\mu$", "→": r"$\to$", "−": r"$-$", "·": r"$\cdot$", "…": r"\dots{}", '"': "''",
    "\u00a0": "~",
}  # fmt: skip


def latex_escaped(text: str) -> str:
    """Text as LaTeX sets it literally; whitespace becomes single spaces."""
    return "".join(_LATEX.get(character, character) for character in " ".join(text.split()))


def to_latex(table: Table) -> str:
    """A booktabs ``table``, or a ``longtable`` where there are many rows. Needs the packages booktabs and longtable."""
    spec = "".join("l" if c.kind == "text" else "r" for c in table.columns)
    head = [_latex_row([c.title for c in table.columns])]
    body = [_latex_row([shown(c, cell) for c, cell in zip(table.columns, row)]) for row in table.rows]
    caption = f"\\caption{{{latex_escaped(table.title)}}}\\label{{tab:{table.name}}}"
    below = [f"\\par\\smallskip\\footnotesize {latex_escaped(text)}" for text in table.below()]
    if len(table.rows) > LONG_TABLE_ROWS:
        lines = [
            f"\\begin{{longtable}}{{{spec}}}", f"{caption}\\\\", "\\toprule", *head, "\\midrule", "\\endfirsthead",
            "\\toprule", *head, "\\midrule", "\\endhead", "\\bottomrule", "\\endfoot", *body, "\\end{longtable}",
            *(["{%", *below, "\\par}"] if below else []),
        ]  # fmt: skip
    else:
        lines = [
            "\\begin{table}", "\\centering", caption, f"\\begin{{tabular}}{{{spec}}}", "\\toprule", *head, "\\midrule",
            *body, "\\bottomrule", "\\end{tabular}", *below, "\\end{table}",
        ]  # fmt: skip
    return "\n".join(lines) + "\n"


def _latex_row(cells: list[str]) -> str:
    # A row that begins with a bracket would be taken for an argument of the rule or line break before it.
    texts = [latex_escaped(cell) for cell in cells]
    return " & ".join(["{}" + texts[0] if texts[0].startswith(("[", "*")) else texts[0], *texts[1:]]) + " \\\\"
