"""``check`` before and after its stages: what is asked, where it happens, what the records come to, what is printed."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from record_factory import ceilings, flags, gate, good_stages, memory, needs, timing, write_candidate, write_problem
from rich.console import Console
from small_problem import problem_text

from kbverified import cli, keys
from kbverified.check import chain, judged, outcome, place, question, report
from kbverified.keys import ProblemKey
from kbverified.records.files import read, write
from kbverified.records.problem import ProblemRecord

KERNEL = "import torch.nn as nn\n\nclass ModelNew(nn.Module):\n    pass\n"


def problem_at(path: Path, function: str = "relu") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(problem_text(function))
    return path


def asked(tmp_path: Path, **changes) -> question.Question:
    kernel = tmp_path / "kernel.py"
    kernel.write_text(KERNEL)
    path = problem_at(tmp_path / "own" / "level1_1.py")
    values = dict(
        candidate=kernel,
        problem=question.Problem(ProblemKey("own", "level1_1"), path, "ReLU"),
        device="cuda",
        dtype="fp32",
        test="hidden",
        stages=keys.STAGES,
        tau=1e-3,
        sandbox="auto",
        gate_mode="ieee",
        timing_budget_s=1.5,
        timeout_s=None,
        arch=None,
        root=None,
    )
    return question.Question(**(values | changes))


@pytest.mark.parametrize("text", ["abc", "nan", "0", "-1", "inf", ""])
def test_what_is_no_positive_number_is_said_in_words(capsys, text):
    with pytest.raises(SystemExit, match="2"):
        cli.main(["check", "kernel.py", "--problem", "level1_1", f"--tau={text}"])
    assert f"argument --tau: {text} is not a positive number" in capsys.readouterr().err


# --- stages -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "stages"),
    [
        (None, ("compile", "hidden-gate", "time-fp32", "time-tf32", "memory")),
        ("compile", ("compile",)),
        ("hidden-gate", ("compile", "hidden-gate")),
        ("memory, time-tf32", ("compile", "hidden-gate", "time-tf32", "memory")),
        ("time-compile", ("compile", "hidden-gate", "time-compile")),
    ],
)
def test_stages_come_with_what_they_need_in_their_order(text, stages):
    assert question.parse_stages(text) == stages


@pytest.mark.parametrize("text", ["gate", "", " , ", "compile,time_fp32"])
def test_an_unknown_stage_is_named_beside_the_known(text):
    with pytest.raises(ValueError, match=r"hidden-gate.*time-fp32.*memory"):
        question.parse_stages(text)


# --- the problem ------------------------------------------------------------------------------------------------


def test_a_problem_is_found_by_its_key_from_below_the_checkout(tmp_path, monkeypatch):
    path = problem_at(tmp_path / "problems" / "kb" / "level1_19.py")
    (tmp_path / "some" / "where").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "some" / "where")
    for text, suite in (("level1_19", None), ("level1_19", "kb"), ("kb/level1_19", None), ("kb/level1_19", "kb")):
        found, root = question.find_problem(text, suite, None)
        assert (found.key, found.path, root) == (ProblemKey("kb", "level1_19"), path, tmp_path)


def test_a_problem_in_several_suites_has_to_be_told_apart(tmp_path):
    for suite in ("kb", "other"):
        problem_at(tmp_path / "problems" / suite / "level1_19.py")
    with pytest.raises(ValueError, match=r"kb, other.*--suite"):
        question.find_problem("level1_19", None, tmp_path)
    assert question.find_problem("level1_19", "other", tmp_path)[0].key.suite == "other"


@pytest.mark.parametrize(
    ("text", "suite", "said"),
    [
        ("level1_20", None, r"not in kb .*suites: kb.*near: level1_19"),
        ("level1_19", "bench", r"not in bench .*suites: kb"),
        ("19", None, r"level1_19, suite/level1_19, or the path"),
        ("other/level1_19", "kb", r"names another suite"),
        ("missing.py", None, r"missing.py: there is no such file"),
        ("kb.py", "kb", r"is a file, and in no suite"),
    ],
)
def test_a_problem_that_cannot_be_found_says_what_there_is(tmp_path, text, suite, said):
    problem_at(tmp_path / "problems" / "kb" / "level1_19.py")
    with pytest.raises(ValueError, match=said):
        question.find_problem(text, suite, tmp_path)


@pytest.mark.parametrize(
    ("path", "key"),
    [
        ("kb/level2_3.py", "kb/level2_3"),
        ("level1/19_ReLU.py", "file/level1_19"),
        ("mine/softmax.py", "file/level0_0"),
        ("a b/level1_2.py", "file/level1_2"),
    ],
)
def test_a_problem_file_is_keyed_by_where_it_lies(tmp_path, path, key):
    found, root = question.find_problem(str(problem_at(tmp_path / path)), None, None)
    assert (str(found.key), found.name, root) == (key, Path(path).stem, None)


def test_a_file_that_is_no_problem_is_refused_before_anything_runs(tmp_path):
    path = tmp_path / "kernel.py"
    path.write_text(KERNEL)
    with pytest.raises(ValueError, match="`get_inputs`"):
        question.find_problem(str(path), None, None)


# --- the place --------------------------------------------------------------------------------------------------


def test_a_place_is_laid_out_as_a_checkout_and_goes(tmp_path):
    q = asked(tmp_path)
    with place.made(q, None) as where:
        assert where.candidate.read_text() == KERNEL and where.problem.read_text() == problem_text("relu")
        assert where.candidate == where.root / "generations/check/own/level1_1/0.py"
        assert not os.stat(where.root).st_mode & 0o066  # nobody else may list it, or read what is not named to him
    assert not where.root.exists() and q.candidate.exists()
    with pytest.raises(KeyboardInterrupt), place.made(q, None) as where:
        raise KeyboardInterrupt
    assert not where.root.exists()


def test_what_is_kept_never_replaces_anything(tmp_path):
    with place.made(asked(tmp_path), tmp_path / "kept"):
        pass
    assert (tmp_path / "kept/problems/own/level1_1.py").exists()
    with pytest.raises(ValueError, match="not an empty folder"), place.made(asked(tmp_path), tmp_path / "kept"):
        pass
    project = tmp_path / "project"
    for name in ("results/new", "generations"):
        with pytest.raises(ValueError, match="the project's own"):
            with place.made(asked(tmp_path, root=project), project / name):
                pass
        assert not (project / name).exists()


def test_an_audit_is_known_by_its_problem_and_not_by_the_candidate(tmp_path, monkeypatch):
    monkeypatch.setenv(place.CACHE_VARIABLE, str(tmp_path / "cache"))
    q = asked(tmp_path, device="cpu")

    def audit() -> Path:
        with place.made(q, None) as where:
            return place.cached_audit(where)

    first = audit()
    assert first.is_relative_to(tmp_path / "cache")
    q.candidate.write_text(KERNEL + "# edited\n")
    assert audit() == first
    q.problem.path.write_text(problem_text("tanh"))
    assert audit() != first


def kept_audit(tmp_path: Path) -> chain.Step:
    """A step whose record a check has kept in the cache, and no command that could make another."""
    key = ProblemKey("own", "level1_1")
    write_problem(tmp_path / "earlier", key)
    kept = key.record_path(tmp_path / "earlier")
    return chain.Step("audit-problem", ("no-such-command",), tmp_path / "now.json", ProblemRecord, kept)


def run_step(step: chain.Step, tmp_path: Path) -> chain.Done:
    return chain.run(step, tmp_path / "log", lambda *_: None)


def test_a_kept_record_takes_the_place_of_its_command(tmp_path):
    done = run_step(kept_audit(tmp_path), tmp_path)
    assert done.from_cache and done.record == read(tmp_path / "now.json", ProblemRecord)


def test_a_kept_record_that_is_broken_or_another_user_s_is_made_again(tmp_path):
    step = kept_audit(tmp_path)
    if os.geteuid() == 0:
        os.chown(step.cached, 12345, 12345)
        with pytest.raises(ValueError, match="no-such-command"):
            run_step(step, tmp_path)
    step.cached.write_text("{")
    with pytest.raises(ValueError, match="no-such-command"):
        run_step(step, tmp_path)


def test_builds_share_the_headers_of_a_checkout_that_has_them(tmp_path, monkeypatch):
    monkeypatch.setenv(place.CACHE_VARIABLE, str(tmp_path / "cache"))
    assert place.build_root(tmp_path) == tmp_path / "cache" / "build" == place.build_root(None)
    (tmp_path / ".build").mkdir()
    assert place.build_root(tmp_path) == tmp_path / ".build"


# --- what the records come to -----------------------------------------------------------------------------------


def judge(tmp_path: Path, stages: dict, problem: dict | None = None, **changes) -> judged.Judged:
    q = asked(tmp_path, **changes)
    with place.made(q, None) as where:
        write_problem(where.root, q.problem.key, **(problem or {}))
        write_candidate(where.root, q.key, stages)
        write(where.ceilings, ceilings())
        return judged.judge(where)


def stages_with(**changes) -> dict:
    return good_stages() | {name.replace("_", "-"): record for name, record in changes.items()}


FAR = {"d1_original": 1e-6, "d2_scale_3": 0.5, "d3_scale_0.01": 1e-6, "d4_negate": 1e-6}


@pytest.mark.parametrize(
    ("changes", "test", "expected"),
    [
        ({}, "hidden", (0, "pass", None)),
        ({"hidden_gate": gate(FAR)}, "standard", (0, "pass", None)),
        ({"hidden_gate": gate(FAR)}, "hidden", (1, "wrong_value", "d2_scale_3: needs tau 0.5, has 0.001")),
        ({"hidden_gate": gate(FAR)}, "hardened", (1, "wrong_value", "d2_scale_3: needs tau 0.5, has 0.001")),
        ({"time_fp32": timing("time-fp32", 4.0, 2.0, verdict="unstable")}, "hidden", (0, "pass", None)),
        (
            {"time_tf32": timing("time-tf32", 4.0, 2.0, verdict="time_disputed")},
            "hidden",
            (1, "time_disputed", "passes the hidden test, but time-tf32: time_disputed"),
        ),
        (
            {"memory": memory(10, 10, verdict="wrong_value")},
            "standard",
            (1, "wrong_value", "passes the standard test, but memory: wrong_value"),
        ),
        ({"time_fp32": None, "time_tf32": None, "memory": None}, "hidden", (0, "pass", None)),
        ({"hidden_gate": None, "time_fp32": None, "time_tf32": None, "memory": None}, "hidden", (0, "pass", None)),
        ({"hidden_gate": gate(hardened=(), hardened_why_not="no law applies")}, "hidden", (0, "pass", None)),
    ],
)
def test_the_exit_code_is_that_of_the_test_and_of_later_failures(tmp_path, changes, test, expected):
    found = judge(tmp_path, stages_with(**changes), test=test).outcome
    assert (found.exit_code, found.verdict, found.reason) == expected
    assert found.word == ("pass" if expected[0] == 0 else "fail")


def test_tau_is_the_question_s(tmp_path):
    near = gate(dict.fromkeys(FAR, 5e-4))
    assert judge(tmp_path, stages_with(hidden_gate=near)).outcome.exit_code == 0
    found = judge(tmp_path, stages_with(hidden_gate=near), tau=1e-4).outcome
    assert (found.exit_code, found.verdict) == (1, "wrong_value")


def test_a_test_that_cannot_decide_is_neither_pass_nor_fail(tmp_path):
    stages = stages_with(hidden_gate=gate(hardened=(), hardened_why_not="none applies"))
    found = judge(tmp_path, stages, test="hardened").outcome
    assert (found.word, found.exit_code, found.verdict) == ("no verdict", 2, None) and found.reason


def test_an_unusable_problem_is_no_verdict_on_a_candidate(tmp_path):
    q = asked(tmp_path)
    with place.made(q, None) as where:
        write_problem(where.root, q.problem.key, usable=False, detail="get_inputs raised")
        done = judged.Done("audit-problem", read(where.audit, ProblemRecord), 0.1, False)
    with pytest.raises(ValueError, match=r"level1_1.py cannot be used: get_inputs raised"):
        judged.require_usable(done, q)


def test_records_of_two_devices_are_a_fault_with_a_way_out(tmp_path):
    from record_factory import CPU

    with pytest.raises(question.MachineFault, match="CUDA_VISIBLE_DEVICES"):
        judge(tmp_path, stages_with(time_tf32=timing("time-tf32", 4.0, 2.0, device=CPU)))


# --- the page and the JSON --------------------------------------------------------------------------------------


def page(tmp_path: Path, stages: dict, problem: dict | None = None, **changes) -> str:
    found = judge(tmp_path, stages, problem, **changes)
    out = io.StringIO()
    report.print_report(found, asked(tmp_path, **changes), Console(file=out, width=160))
    return out.getvalue()


def line(text: str, *begins: str) -> str:
    """The one line whose first words are these."""
    found = [one for one in text.splitlines() if one.split()[: len(begins)] == list(begins)]
    assert len(found) == 1, (begins, text)
    return found[0]


def test_the_page_has_the_row_s_numbers(tmp_path):
    # 4 ms / 2 ms, 1 ms / 2 ms and 1 ms / 1.25 ms; 2000 B / 1000 B: record_factory.good_stages.
    text = page(tmp_path, stages_with(time_fp32=timing("time-fp32", 4.0, 2.0, rounds=8)))
    assert "PASS hidden test" in text and "H200" in text and "tau 0.001" in text
    assert line(text, "naive").split()[1:4] == ["2x", "[2,", "2]"]
    assert line(text, "published").split()[1] == "0.5x" and line(text, "matched").split()[1] == "0.8x"
    assert line(text, "time-fp32", "(default)").split()[2:6] == ["4", "ms", "[4,", "4]"]
    assert line(text, "allocator", "peak").split()[2:] == ["1.953", "KiB", "1000", "B", "2"]
    assert line(text, "d2_scale_3").split()[1:4] == ["within", "tau", "1e-06"]
    assert "arithmetic: fp32" in text


def test_the_page_says_why_a_number_is_missing(tmp_path):
    text = page(
        tmp_path, stages_with(hidden_gate=gate(FAR), time_tf32=timing("time-tf32", 1.0, 1.0, verdict="unstable"))
    )
    assert "FAIL hidden test: wrong_value" in text and "d2_scale_3: needs tau 0.5, has 0.001" in text
    assert line(text, "d2_scale_3").split()[1:4] == ["above", "tau", "0.5"]
    assert "time-tf32: no time, its rounds differ too much; run it again" in text
    assert "time-tf32: unstable" in line(text, "matched") and "time-tf32: unstable" in line(text, "published")


def test_what_asks_for_a_second_look_is_said(tmp_path):
    changed = flags(True, True)
    stages = stages_with(time_fp32=timing("time-fp32", 40.0, 2.0, flags_after=changed))
    text = page(tmp_path, stages, {"degenerate": True, **needs(1 << 36, 1 << 36)})
    assert "degenerate" in text and "global flags changed in time-fp32" in text
    # 128 GiB at 4 TB/s take 34 ms, and 2 ms are claimed.
    assert "implausible in time-fp32, time-tf32" in text and "implausible" in line(text, "published")


def test_a_candidate_s_words_cannot_steer_the_terminal(tmp_path):
    said = "\x1b[2J\x1b]0;owned\x07[bold]pass[/bold]"
    broken = gate({"d1_original": "runtime_error"}, verdict="runtime_error", detail=said)
    only = {"hidden-gate": broken, "time-fp32": None, "time-tf32": None, "memory": None}
    text = page(tmp_path, good_stages() | only)
    assert "FAIL hidden test: runtime_error" in text and "[bold]pass[/bold]" in text
    assert "\x1b" not in text and "\x07" not in text


def test_the_json_holds_the_row_and_is_strict(tmp_path):
    q = asked(tmp_path)
    found = judge(tmp_path, good_stages())
    shown = json.loads(judged.document(found, q, [], None), parse_constant=pytest.fail)
    assert (shown["outcome"], shown["exit_code"], shown["verdict"], shown["kept"]) == ("pass", 0, "pass", None)
    assert shown["row"]["speedup_matched"] == pytest.approx(0.8) and shown["row"]["generator"] == "check"


def test_later_failures_leave_out_what_accuses_nobody():
    stages = {"time-fp32": timing("time-fp32", 1.0, 1.0, verdict="unstable"), "memory": memory(1, 1), "compile": None}
    assert outcome.later_failures(stages) == {}


# --- the command ------------------------------------------------------------------------------------------------


def command(*words: str, **options) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "kbverified", "check", *words], capture_output=True, text=True, check=False, **options
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["missing.py", "--problem", "level1_1"], "candidate missing.py: there is no such file"),
        ([".", "--problem", "level1_1"], "no regular file"),
        (["kernel.py", "--problem", "nothing"], "--problem 'nothing'"),
        (["kernel.py", "--problem", "p/level1_1.py", "--stages", "tune"], "--stages: 'tune' is no stage"),
    ],
)
def test_bad_input_is_exit_2_and_says_so_in_json_too(tmp_path, monkeypatch, capsys, words, said):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "kernel.py").write_text(KERNEL)
    problem_at(tmp_path / "p" / "level1_1.py")
    assert cli.main(["check", *words, "--device", "cpu", "--json"]) == 2
    written = capsys.readouterr()
    assert said in written.err and "Traceback" not in written.err
    shown = json.loads(written.out)
    assert shown["exit_code"] == 2 and said in shown["reason"]


def test_a_gpu_that_is_not_there_is_exit_3(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    (tmp_path / "kernel.py").write_text(KERNEL)
    path = problem_at(tmp_path / "level1_1.py")
    assert cli.main(["check", str(tmp_path / "kernel.py"), "--problem", str(path), "--device", "cuda"]) == 3
    said = capsys.readouterr().err
    assert "no verdict" in said and "kbverified doctor" in said and "--device cpu" in said


def test_usage_is_exit_2(tmp_path):
    for words in ([], ["kernel.py"], ["kernel.py", "--problem", "x", "--tau", "-1"], ["kernel.py", "--test", "all"]):
        done = command(*words, cwd=tmp_path)
        assert done.returncode == 2 and "usage: kbverified check" in done.stderr


def test_a_mistyped_command_is_told_all_commands():
    done = subprocess.run([sys.executable, "-m", "kbverified", "chek"], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and all(name in done.stderr for name in cli.MODULES)
