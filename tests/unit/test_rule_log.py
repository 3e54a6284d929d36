"""What a script of the workflow says, and how it ends where its input is bad."""

from __future__ import annotations

import sys

import pytest

from kbverified.rule_log import rule_log


def test_what_is_said_goes_into_the_log_and_bad_input_ends_with_its_message(tmp_path, capsys):
    path = tmp_path / "rule.log"
    with pytest.raises(SystemExit) as ended, rule_log(str(path)):
        print("so far so good")
        print("a warning", file=sys.stderr)
        raise ValueError("results/a.json: rounds: 3 is no list")
    assert ended.value.code == 1
    assert path.read_text().splitlines() == ["so far so good", "a warning", "results/a.json: rounds: 3 is no list"]
    assert capsys.readouterr() == ("", "")


def test_what_is_no_bad_input_is_not_swallowed(tmp_path):
    with pytest.raises(OSError, match="full"), rule_log(str(tmp_path / "rule.log")):
        raise OSError("full")
