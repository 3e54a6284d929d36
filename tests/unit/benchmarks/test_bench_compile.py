"""Compiling beside torch's builder: order, what is counted, what is left out, and the measuring of a process."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import types
from pathlib import Path
from typing import Any

import pytest

from benchmarks import compile as compiling
from benchmarks import compile_rows, plain_build, shapes
from benchmarks.compile import Item

ROOT = Path(__file__).resolve().parents[3]
SPIN = "import time; t=time.process_time()\nwhile time.process_time()-t < 0.3: pass"


def item(name: str) -> Item:
    return Item(f"g/s/{name}/0", Path("c.py"), Path(f"{name}.py"))


def row(side: str, name: str, cpu_s: float, **changes: Any) -> dict[str, Any]:
    values = {"outcome": "built", "builds": 1, "wall_s": 2 * cpu_s, "build_cpu_s": cpu_s - 1.0}
    return {"side": side, "candidate": name, "cpu_s": cpu_s, **values, **changes}


def test_sides_take_turns_in_going_first_and_done_ones_are_left_out() -> None:
    order = compiling.tasks([item("level1_1"), item("level1_2")], compile_rows.SIDES, [("g/s/level1_1/0", "plain")])
    assert [(task.item.problem.stem, task.side) for task in order] == [
        ("level1_1", "ours"),
        ("level1_2", "plain"),
        ("level1_2", "ours"),
    ]


def test_levels_in_turn() -> None:
    items = [item(name) for name in ("level1_1", "level1_2", "level1_3", "level2_1", "level3_1")]
    order = [one.problem.stem for one in compiling.level_by_level(items)]
    assert order == ["level1_1", "level2_1", "level3_1", "level1_2", "level1_3"]


def test_ratios_are_over_pairs_that_came_out_alike() -> None:
    rows = [row("ours", f"c{n}", 10.0) for n in range(8)] + [row("plain", f"c{n}", 40.0) for n in range(7)]
    rows += [row("ours", "odd", 1.0), row("plain", "odd", 900.0, outcome="failed")]
    rows += [row("ours", "twice", 1.0), row("plain", "twice", 900.0, builds=2)]
    summary = compile_rows.summarize(rows)
    assert summary.cpu_ratio is not None and summary.cpu_ratio.n == 7
    assert summary.cpu_ratio.value == pytest.approx(4.0) and summary.cpu_ratio.low == pytest.approx(4.0)
    assert [one.partition(":")[0] for one in summary.unlike] == ["odd", "twice"]
    assert summary.sides["ours"].cpu_s is not None and summary.sides["ours"].cpu_s.median == 10.0
    assert "not alike: odd: ours built (1), plain failed (1)" in compile_rows.text(summary, 16)


def test_what_does_not_build_counts_only_where_all_candidates_do() -> None:
    rows = [row(side, f"c{n}", 10.0) for n in range(3) for side in compile_rows.SIDES]
    rows += [row("ours", "broken", 70.0, outcome="failed"), row("plain", "broken", 70.0, outcome="failed")]
    summary = compile_rows.summarize(rows)
    ours = summary.sides["ours"]
    assert ours.cpu_s is not None and (ours.cpu_s.n, ours.cpu_s.largest) == (3, 10.0)
    assert ours.mean_cpu_s == 25.0 and ours.outcomes == {"built": 3, "failed": 1}
    assert summary.cpu_ratio is not None and summary.cpu_ratio.n == 3 and summary.unlike == []


def test_a_second_measurement_replaces_the_first_and_faults_are_no_times() -> None:
    fault = row("ours", "b", 0.1, outcome=None, builds=None, build_cpu_s=None)
    summary = compile_rows.summarize([row("ours", "a", 99.0), row("ours", "a", 20.0), fault])
    ours = summary.sides["ours"]
    assert ours.cpu_s is not None and (ours.cpu_s.n, ours.cpu_s.median, ours.faults) == (1, 20.0, 1)
    assert summary.cpu_ratio is None and "plain" not in summary.sides
    said = compile_rows.text(summary, 16)
    assert "target: median at most 25 CPU-s: met (20.0)" in said and "ours wrote no answer for 1 candidates" in said
    assert "target" not in compile_rows.text(summary, 16, target=False)


def test_what_is_made_once_is_told_apart() -> None:
    summary = compile_rows.summarize([row("ours", "a", 60.0, build_cpu_s=30.0), row("ours", "b", 20.0)])
    assert summary.sides["ours"].one_off_cpu_s == (30.0,)
    assert "made once, and counted above: 30 CPU-s" in compile_rows.text(summary, 16)
    both = compile_rows.summarize(
        [
            row("ours", "a", 60.0, build_cpu_s=30.0),
            row("plain", "a", 90.0),
            row("ours", "b", 20.0),
            row("plain", "b", 60.0),
        ]
    )
    assert both.cpu_ratio is not None and both.cpu_ratio.value == pytest.approx((1.5 * 3) ** 0.5)
    assert both.later_cpu_ratio is not None and both.later_cpu_ratio.value == pytest.approx(3.0)


def test_descendants_count_and_the_exit_code_is_kept(tmp_path: Path) -> None:
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {SPIN!r}]); sys.exit(3)"
    with (tmp_path / "log").open("wb") as log:
        measured = compiling.measure([sys.executable, "-c", parent], log, lambda: False)
    assert measured is not None and measured["exit"] == 3 and measured["cpu_s"] >= 0.3
    assert measured["wall_s"] >= 0.3


def test_when_the_time_is_over_descendants_are_killed_too(tmp_path: Path) -> None:
    mark = tmp_path / "pid"
    parent = (
        "import subprocess, sys, time; child = subprocess.Popen(['sleep', '60'], start_new_session=True);"
        f"open({str(mark)!r}, 'w').write(str(child.pid)); time.sleep(60)"
    )
    begin = time.monotonic()
    with (tmp_path / "log").open("wb") as log:
        over = compiling.measure([sys.executable, "-c", parent], log, lambda: mark.exists() and mark.read_text() != "")
    assert over is None and time.monotonic() - begin < 30
    while _runs(mark.read_text()) and time.monotonic() - begin < 30:  # a killed process still has to die
        time.sleep(0.05)
    assert not _runs(mark.read_text())


def _runs(pid: str) -> bool:
    state = Path(f"/proc/{pid}/stat")
    return state.exists() and state.read_text().rpartition(")")[2].split()[0] not in "ZX"


def test_rows_of_another_machine_and_torn_lines_are_left_out(tmp_path: Path) -> None:
    here, there = {"cores": 2}, {"cores": 32}
    lines = [json.dumps({"where": json.dumps(facts, sort_keys=True), "n": n}) for n, facts in enumerate((here, there))]
    (tmp_path / "rows.jsonl").write_text(lines[0] + "\n" + lines[1] + "\n" + lines[0][:20])
    assert [row["n"] for row in compile_rows.rows_of_place(tmp_path / "rows.jsonl", here)] == [0]
    assert compile_rows.rows_of_place(tmp_path / "none.jsonl", here) == []


@pytest.mark.parametrize(
    ("side", "answer", "outcome"),
    [
        ("ours", {"builds": [{"ok": True}], "cpu_seconds": 7.5}, ("built", 1, 7.5)),
        ("ours", {"builds": [{"ok": False}], "cpu_seconds": 7.5}, ("failed", 1, 7.5)),
        ("ours", {"builds": []}, ("no build", 0, None)),
        ("plain", {"builds": [{"ok": True, "cpu_s": 2.0}, {"ok": False, "cpu_s": 3.0}]}, ("some failed", 2, 5.0)),
    ],
)
def test_answers_of_both_sides_in_the_same_words(tmp_path: Path, side: str, answer: dict, outcome: tuple) -> None:
    (tmp_path / "answer.json").write_text(json.dumps(answer))
    read = compile_rows.read_answer(tmp_path / "answer.json", side)
    assert (read["outcome"], read["builds"], read["build_cpu_s"]) == outcome
    assert compile_rows.read_answer(tmp_path / "none.json", side)["outcome"] is None


def test_the_bundled_list_is_there() -> None:
    items = compiling.bundled_items()
    assert len(items) >= 6 and all(one.candidate.is_file() and one.problem.is_file() for one in items)


def test_bad_input_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiling.importlib.metadata, "version", lambda name: "2.13.0+cpu")
    assert compiling.main(["--out", str(tmp_path), "--candidates", str(tmp_path)]) == 2
    assert "refuses CUDA sources" in capsys.readouterr().err
    monkeypatch.setattr(compiling.importlib.metadata, "version", lambda name: "2.11.0")
    assert compiling.main(["--out", str(tmp_path)]) == 2
    assert compiling.main(["--out", str(tmp_path), "--candidates", str(tmp_path), "--problems", str(tmp_path)]) == 2
    assert "is not there" in capsys.readouterr().err


# --- the plain side ------------------------------------------------------------------------------------------
def fake_builder() -> Any:
    def load_inline(name: str, cpp_sources: Any, extra_cflags: Any = None) -> str:
        module.calls += 1
        subprocess.run([sys.executable, "-c", SPIN], check=True)
        if cpp_sources == "broken":
            raise RuntimeError("Error building extension")
        return f"module of {cpp_sources}"

    module = types.SimpleNamespace(load_inline=load_inline, load=lambda name, sources: None, calls=0)
    return module


def test_the_same_request_is_built_and_timed_once() -> None:
    builder, timed = fake_builder(), plain_build.Timed()
    timed.install(builder)
    assert builder.load_inline("a", "x") == builder.load_inline("another name", "x") == "module of x"
    assert builder.calls == 1 and len(timed.builds) == 1
    assert timed.builds[0]["ok"] and timed.builds[0]["cpu_s"] >= 0.3, "compilers are children"
    builder.load_inline("a", "x", extra_cflags=["-O3"])
    assert builder.calls == 2, "other flags are another request"


def test_a_build_that_failed_fails_again_without_building() -> None:
    builder, timed = fake_builder(), plain_build.Timed()
    timed.install(builder)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="Error building"):
            builder.load_inline("a", "broken")
    assert builder.calls == 1 and [build["ok"] for build in timed.builds] == [False]


def test_shapes_come_from_the_problem_without_a_device() -> None:
    record = shapes.shape_record(ROOT / "problems/bundled/level1_1.py")
    assert record.usable and record.level == 1 and record.inputs and record.inputs[0] is not None
    assert record.inputs[0].dtype == "float32" and record.detail is not None and "shapes alone" in record.detail
