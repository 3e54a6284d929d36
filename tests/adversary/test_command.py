"""The command around a stage: what it says, and for whom it leaves files."""

from __future__ import annotations

import os

import pytest

from kbverified import cli, stages

WORDS = ["stage", "compile", "--candidate", "c", "--audit", "a", "--problem", "p", "--out", "o", "--device", "cpu"]


@pytest.fixture
def umask_077():
    old = os.umask(0o077)
    yield
    os.umask(old)


def test_what_a_stage_makes_can_be_read_by_workers(umask_077, monkeypatch, tmp_path):
    def run_stage(*_):
        (tmp_path / "header.gch").touch()
        raise ValueError("enough")

    monkeypatch.setattr(stages, "run_stage", run_stage)
    assert cli.main(WORDS) == cli.EXIT_BAD_INPUT
    assert (tmp_path / "header.gch").stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize("fault", [RuntimeError, ValueError])
def test_a_message_moves_no_cursor(monkeypatch, capsys, fault):
    def run_stage(*_):
        raise fault("the candidate said \x1b[2J\x1b]0;owned\x07\r\n\u202epass\udc80")

    monkeypatch.setattr(stages, "run_stage", run_stage)
    assert cli.main(WORDS) in (cli.EXIT_BAD_INPUT, cli.EXIT_INFRASTRUCTURE)
    said = capsys.readouterr().err
    assert "the candidate said" in said
    assert all(character.isprintable() or character == "\n" for character in said)
