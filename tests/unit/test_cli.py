"""The command: its arguments, its exit codes, and that it imports only what a command needs."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from kbverified import cli, keys
from kbverified.judge.party import InfrastructureFault, Settings
from kbverified.records.files import RecordError


def run(*words: str, **options) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "kbverified", *words], capture_output=True, text=True, check=False, **options
    )


STAGE = ["stage", "compile", "--candidate", "c.py", "--problem", "p.py", "--audit", "a.json", "--out", "o.json"]


@pytest.fixture
def called(monkeypatch):
    """Replace the stage itself; returns what it was called with, or raises what it is told to."""
    seen: dict = {}

    def fake(*arguments):
        seen["arguments"] = arguments
        if "raises" in seen:
            raise seen["raises"]

        class Record:
            verdict = "pass"
            reason = None

        return Record()

    monkeypatch.setattr("kbverified.stages.run_stage", fake)
    return seen


def test_arguments_reach_the_stage(called):
    words = [*STAGE, "--compiled", "k.json", "--gate", "g.json", "--device", "cpu", "--dtype", "bf16"]
    words += ["--sandbox", "user", "--timeout-s", "7.5", "--build-timeout-s", "70", "--build-root", "b"]
    words += ["--gate-mode", "default", "--threads", "3"]
    assert cli.main(words) == 0
    settings = Settings(
        device="cpu",
        sandbox="user",
        dtype="bf16",
        timeout_s=7.5,
        build_timeout_s=70.0,
        build_root=Path("b"),
        arch=None,
        gate_mode="default",
        threads=3,
    )
    paths = [Path(name) for name in ("c.py", "p.py", "a.json")]
    expected = ("compile", *paths, settings, Path("o.json"), Path("k.json"), Path("g.json"))
    assert called["arguments"] == expected


def test_defaults(called):
    assert cli.main([*STAGE, "--device", "cpu"]) == 0
    settings = called["arguments"][4]
    assert (settings.dtype, settings.sandbox, settings.gate_mode, settings.threads) == ("fp32", "auto", "ieee", 1)
    assert called["arguments"][-2:] == (None, None)


def test_a_gpu_names_its_own_architecture(called, monkeypatch):
    from kbverified.lease import Gpu

    monkeypatch.setattr("kbverified.lease.visible_gpus", lambda: [Gpu("GPU-1", "H200", "580", 1, "9.0")])
    assert cli.main([*STAGE, "--device", "cuda"]) == 0
    assert (called["arguments"][4].arch, called["arguments"][4].threads) == ("9.0", None)
    assert cli.main([*STAGE, "--device", "cuda", "--arch", "8.0"]) == 0
    assert called["arguments"][4].arch == "8.0"


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (RecordError("a.json: field usable: missing"), 2),
        (FileNotFoundError("c.py"), 2),
        (ValueError("bad value"), 2),
        (InfrastructureFault("no device"), 75),
        (OSError(28, "No space left on device"), 75),
        (PermissionError("read-only"), 75),
        (RuntimeError("driver lost"), 75),
        (MemoryError("too little"), 75),
        (subprocess.TimeoutExpired("smi", 60), 75),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_exit_codes(called, capsys, error, code):
    called["raises"] = error
    assert cli.main([*STAGE, "--device", "cpu"]) == code
    written = capsys.readouterr()
    assert written.out == "" and str(error) in written.err
    assert ("nothing was recorded" in written.err) == (code == 75)


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["no-such-command"],
        ["stage"],
        ["stage", "tune"],
        [*STAGE],
        [*STAGE, "--device", "tpu"],
        [*STAGE, "--device", "cpu", "--dtype", "fp16"],
        [*STAGE, "--device", "cpu", "--sandbox", "most"],
        [*STAGE, "--device", "cpu", "--timeout-s", "soon"],
        [*STAGE, "--device", "cpu", "--unknown"],
    ],
    ids=lambda words: " ".join(words[-2:]) or "none",
)
def test_bad_usage_is_exit_2_with_a_message(capsys, words):
    with pytest.raises(SystemExit) as ended:
        cli.main(words)
    assert ended.value.code == 2
    assert "usage: kbverified" in capsys.readouterr().err


def test_every_stage_is_a_choice(called):
    for stage in keys.STAGES:
        assert cli.main(["stage", stage, *STAGE[2:], "--device", "cpu"]) == 0
        assert called["arguments"][0] == stage


@pytest.mark.parametrize("command", ["stage", "audit-problem", *cli.MODULES])
def test_every_command_explains_itself(command):
    done = run(command, "--help")
    assert done.returncode == 0 and f"kbverified {command}" in done.stdout


def test_all_commands_are_listed():
    listed = run("--help").stdout
    assert all(command in listed for command in ("stage", "audit-problem", *cli.MODULES))


def test_every_example_of_the_help_is_a_command_line():
    from kbverified import check, doctor

    lines = "".join((cli.EXAMPLES, check.EXAMPLES, doctor.EXAMPLES)).splitlines()
    examples = [re.split(r"\s{3,}| > ", line.strip())[0].split() for line in lines if line.startswith("  kbverified ")]
    assert len(examples) >= 10
    for _, *words in examples:
        assert cli._parser(words[0]).parse_args(words).command == words[0]


def test_missing_files_are_named(tmp_path):
    words = [*STAGE, "--device", "cpu"]
    done = run(*words, cwd=tmp_path)
    assert done.returncode == 2 and "c.py" in done.stderr and "Traceback" not in done.stderr
    (tmp_path / "c.py").write_text("")
    done = run(*words, cwd=tmp_path)
    assert done.returncode == 2 and "a.json" in done.stderr and "Traceback" not in done.stderr


def test_a_broken_record_is_named_with_field_and_value(tmp_path):
    (tmp_path / "c.py").write_text("")
    (tmp_path / "a.json").write_text(json.dumps({"stage": "audit-problem", "usable": "perhaps"}))
    done = run(*STAGE, "--device", "cpu", cwd=tmp_path)
    assert done.returncode == 2
    assert "a.json: field" in done.stderr and "rerun" in done.stderr and "Traceback" not in done.stderr
    assert not (tmp_path / "o.json").exists()


def test_an_unforeseen_error_is_a_fault_and_shows_its_traceback(monkeypatch, capsys):
    def broken(arguments):
        raise KeyError("nobody thought of this")

    monkeypatch.setattr(cli, "_audit", broken)
    code = cli.main(["audit-problem", "--problem", "p.py", "--out", "o.json", "--device", "cpu"])
    assert code == cli.EXIT_INFRASTRUCTURE
    assert "nobody thought of this" in capsys.readouterr().err
