"""Names and places: one law for wildcards, and one path tail for everything of a candidate."""

from __future__ import annotations

import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest

from kbverified import keys, records
from kbverified.keys import CandidateKey, ProblemKey


def test_every_path_of_a_candidate_repeats_its_tail():
    key = CandidateKey("gpt-5.5", "kernelbench", "level1_19", 3)
    root = Path("/r")
    assert key.tail == str(key) == "gpt-5.5/kernelbench/level1_19/3"
    assert key.source_path(root) == Path("/r/generations/gpt-5.5/kernelbench/level1_19/3.py")
    assert key.metadata_path(root) == Path("/r/generations/gpt-5.5/kernelbench/level1_19/3.json")
    for stage in keys.STAGES:
        assert key.record_path(stage, root) == Path(f"/r/results/{stage}/gpt-5.5/kernelbench/level1_19/3.json")
    assert key.source_path() == Path("generations/gpt-5.5/kernelbench/level1_19/3.py")


def test_paths_of_a_problem():
    key = ProblemKey("kernelbench", "level3_7")
    assert (key.level, key.number, str(key)) == (3, 7, "kernelbench/level3_7")
    assert key.source_path(Path("/r")) == Path("/r/problems/kernelbench/level3_7.py")
    assert key.record_path(Path("/r")) == Path("/r/results/problems/kernelbench/level3_7.json")
    assert CandidateKey("g", "kernelbench", "level3_7", 0).problem_key == key


@pytest.mark.parametrize("ending", ["", ".py", ".json"])
def test_a_tail_leads_back_to_its_key(ending):
    key = CandidateKey("a.b-c_d", "s", "level12_345", 67)
    assert CandidateKey.from_tail(key.tail + ending) == key


@pytest.mark.parametrize(
    "tail", ["", "g/s/level1_1", "g/s/level1_1/x", "g/s/level1_1/-1", "a/g/s/level1_1/0", "g/s/level1_1/0/", "g/s//0"]
)
def test_what_is_no_tail(tail):
    with pytest.raises(ValueError):
        CandidateKey.from_tail(tail)


@pytest.mark.parametrize("name", ["", ".", "..", "../x", "a/b", "-x", ".hidden", "a b", "ä", "a\n", "a;b", "$(x)"])
def test_no_name_can_leave_its_folder_or_mean_something_to_a_shell(name):
    with pytest.raises(ValueError, match="generator"):
        CandidateKey(name, "s", "level1_1", 0)
    with pytest.raises(ValueError, match="suite"):
        ProblemKey(name, "level1_1")


@pytest.mark.parametrize(
    "problem", ["", "level1", "level_1", "level1_", "Level1_1", "level1_1.py", "level1_1\n", "1_1"]
)
def test_no_other_problem_name_is_taken(problem):
    with pytest.raises(ValueError, match="problem"):
        ProblemKey("s", problem)


def test_a_negative_sample_and_an_unknown_stage_are_named():
    with pytest.raises(ValueError, match="-1"):
        CandidateKey("g", "s", "level1_1", -1)
    with pytest.raises(ValueError, match="'tune' is none of compile, hidden-gate"):
        CandidateKey("g", "s", "level1_1", 0).record_path("tune")


def test_the_patterns_serve_as_wildcards():
    """Snakemake puts them into larger expressions: no groups, no anchors."""
    for pattern in (keys.NAME_PATTERN, keys.PROBLEM_PATTERN, keys.SAMPLE_PATTERN):
        assert re.compile(pattern).groups == 0 and not re.search(r"[\^$]", pattern)


def test_keys_sort_by_their_parts():
    made = [CandidateKey("b", "s", "level1_1", 0), CandidateKey("a", "s", "level1_1", 10)]
    made.append(CandidateKey("a", "s", "level1_1", 9))
    assert [k.sample for k in sorted(made)] == [9, 10, 0]


RECORDS = [room.name for room in pkgutil.iter_modules(records.__path__, "records.")]


@pytest.mark.parametrize(
    "modules", [["keys"], ["protocol"], RECORDS, ["lease"], ["cli"], ["stages"], ["source_check"]], ids=lambda m: m[0]
)
def test_free_of_torch(modules):
    loads = "".join(f"import kbverified.{module}; " for module in modules)
    code = f"import sys; {loads}print('torch' in sys.modules, 'numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]
