"""Lists of mutants as one run: who is left out, who is back in, and where an unfinished list ends."""

from __future__ import annotations

import gzip
import json
from dataclasses import asdict

import pytest

from benchmarks.mutation import one_run, score
from benchmarks.mutation.score import Line

EQUAL = "bitwise equal on 16 inputs"


def line(name: str, screened: str = "kept", verdict: str | None = "wrong_value", why: str = "differs") -> Line:
    verdict = verdict if screened == "kept" else None
    known = {"standard": verdict, "hidden": verdict, "hardened": verdict}
    return Line(name, "p", "c++", "off by one", "loop-end-early", False, "a -> b", screened, why, **known)


def parent() -> Line:
    return Line("p", "p", "", None, None, False, "", "honest", "", "pass", "pass", "pass")


def screened(lines: list[Line]) -> dict[str, str]:
    return {x.id: x.screened for x in lines if x.fault is not None}


def test_a_tenth_of_all_is_left_out_and_those_of_the_smallest_ids():
    first = [parent(), *(line(f"a{n:02}") for n in range(19)), line("z", "equivalent", why=EQUAL)]
    more = [line("b", "kept", "pass", f"{EQUAL}, but a tenth is left out already"), line("c", "equivalent", why=EQUAL)]
    second = [parent(), *(line(f"d{n}") for n in range(7)), *more]
    found = one_run.one_run([first, second])
    assert sum(x.fault is None for x in found) == 1
    assert {name for name, outcome in screened(found).items() if outcome == "equivalent"} == {"b", "c"}
    # z is back in, was never judged, and survives.
    assert [x.id for x in score.survivors(found, "hardened")] == ["z"]
    assert score.share(found, "hardened").text().startswith("26/27")


def test_an_unfinished_list_ends_where_the_gate_stopped():
    lines = [parent(), line("a"), line("b", "equivalent", why=EQUAL), line("c", verdict=None), line("d")]
    lines += [line("e", verdict=None), line("f", "equivalent", why=EQUAL), line("g", "does not build")]
    assert [x.id for x in one_run.cut(lines)] == ["p", "a", "b", "d"]
    whole = lines[:3]
    assert one_run.cut(whole) == whole
    assert [x.id for x in one_run.cut([parent(), line("a", verdict=None)])] == ["p"]


def test_a_mutant_in_two_lists_is_an_error():
    with pytest.raises(ValueError, match="mutant a is in two"):
        one_run.one_run([[parent(), line("a")], [line("a")]])


def test_the_command_reads_lists_and_says_what_is_missing(tmp_path, capsys):
    path = tmp_path / "lines.jsonl.gz"
    path.write_bytes(gzip.compress("".join(json.dumps(asdict(x)) + "\n" for x in (parent(), line("a"))).encode()))
    assert one_run.main([str(path)]) == 0
    assert "1 mutants of 1 honest kernels" in capsys.readouterr().out
    assert one_run.main([str(tmp_path / "none.gz")]) == 2
    assert "none.gz" in capsys.readouterr().err
