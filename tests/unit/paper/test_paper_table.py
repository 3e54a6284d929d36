"""Tables in their three forms: what stands there, and what a table refuses."""

from __future__ import annotations

import csv
import io

import pytest

from kbverified.leaderboard.model import Estimate
from kbverified.paper.table import LONG_TABLE_ROWS, Column, Table, latex_escaped, to_csv, to_latex, to_markdown

SPEED = Estimate(value=0.876543219, low=0.8, high=0.97, n=98)
NONE = Estimate(value=None, n=0, why_null="no verified sample")
FEW = Estimate(value=2.0, n=3, why_null="no interval: only 3 problems have a value")

TABLE = Table(
    "small",
    "Speedups | & shares",
    "Matched arm; a dash under solved: not asked.",
    (
        Column("generator", "generator"),
        Column("solved", "solved", kind="count"),
        Column("speedup", "Correct Speedup", kind="factor", interval=True),
        Column("share", "fast_1", kind="percent"),
        Column("tolerance", "tolerance", kind="number"),
        Column("time_ms", "time", unit="ms", kind="number", digits=2),
    ),
    (
        ("a_b|c", 98, SPEED, 0.525, 1.23456e-4, 12.345),
        ("d", None, NONE, 0.0, 1e-3, 0.5),
        ("e", 3, FEW, 1.0, -1e-9, 1234.0),
    ),
)


def test_csv_has_values_and_three_columns_for_an_estimate() -> None:
    lines = list(csv.reader(io.StringIO(to_csv(TABLE))))
    assert lines == [
        ["generator", "solved", "speedup", "speedup_low", "speedup_high", "share", "tolerance", "time_ms"],
        ["a_b|c", "98", "0.876543219", "0.8", "0.97", "0.525", "0.000123456", "12.345"],
        ["d", "", "", "", "", "0", "0.001", "0.5"],
        ["e", "3", "2", "", "", "1", "-1e-09", "1234"],
    ]


def test_markdown_reads_as_a_table_with_intervals_and_reasons() -> None:
    assert to_markdown(TABLE) == (
        "### Speedups | & shares\n"
        "\n"
        "| generator | solved | Correct Speedup | fast_1 (%) | tolerance | time (ms) |\n"
        "| --- | ---: | ---: | ---: | ---: | ---: |\n"
        "| a_b\\|c | 98 | 0.88 [0.80, 0.97] | 52.5 | 0.000123 | 12 |\n"
        "| d | – | – | 0.0 | 0.001 | 0.5 |\n"
        "| e | 3 | 2.00 | 100.0 | -1e-09 | 1.2e+03 |\n"
        "\n"
        "Matched arm; a dash under solved: not asked.\n"
        "\n"
        "–, or no interval: no interval: only 3 problems have a value; no verified sample.\n"
    )


def test_latex_escapes_what_a_generator_may_be_called() -> None:
    text = to_latex(TABLE)
    assert "a\\_b\\textbar{}c & 98 & 0.88 [0.80, 0.97] & 52.5 & 0.000123 & 12 \\\\\n" in text
    assert "\\caption{Speedups \\textbar{} \\& shares}\\label{tab:small}\n\\begin{tabular}{lrrrrr}\n\\toprule\n" in text
    assert "d & -- & -- & 0.0" in text
    assert text.count("\\begin{") == text.count("\\end{") == 2
    assert latex_escaped("\\input{x} 50 % τ ≤ 1e-3\nnext") == (
        "\\textbackslash{}input\\{x\\} 50 \\% $\\tau$ $\\leq$ 1e-3 next"
    )


def test_a_long_table_breaks_over_pages() -> None:
    rows = tuple((f"level1_{i}",) for i in range(LONG_TABLE_ROWS + 1))
    long = Table("long", "t", "n", (Column("problem", "problem"),), rows)
    short = Table("short", "t", "n", (Column("problem", "problem"),), rows[:-1])
    assert "\\begin{longtable}{l}" in to_latex(long) and "tabular" not in to_latex(long)
    assert "\\begin{tabular}{l}" in to_latex(short)
    assert to_latex(long).count("level1\\_") == LONG_TABLE_ROWS + 1


def test_a_row_that_begins_with_a_bracket_is_no_argument_of_the_rule_above() -> None:
    table = Table("t", "t", "", (Column("a", "a"), Column("b", "b")), (("[x]", "[y]"), ("*", "")))
    assert "\n{}[x] & [y] \\\\\n{}* &  \\\\\n" in to_latex(table)


@pytest.mark.parametrize(
    ("column", "cell", "why"),
    [
        (Column("x", "x", kind="factor"), SPEED, "interval=True"),
        (Column("x", "x", kind="factor", interval=True), 1.0, "takes Estimates"),
        (Column("x", "x", kind="count"), "three", "text in a column of kind count"),
        (Column("x", "x"), None, "no note"),
    ],
)
def test_a_cell_that_does_not_fit_is_refused(column: Column, cell: object, why: str) -> None:
    with pytest.raises(ValueError, match=f"table t, column x: .*{why}"):
        Table("t", "t", "", (column,), ((cell,),))  # type: ignore[arg-type]


def test_rows_and_names_have_to_fit() -> None:
    with pytest.raises(ValueError, match="2 cells under 1 columns"):
        Table("t", "t", "", (Column("x", "x"),), (("a", "b"),))
    with pytest.raises(ValueError, match="two columns of one name"):
        Table("t", "t", "", (Column("x", "x"), Column("x", "y")), ())
