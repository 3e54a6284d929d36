"""Cores that share one: how paces are read, and that the command measures and refuses."""

from __future__ import annotations

import json
import os

import pytest

from benchmarks import core_pairs


def test_who_slows_a_core_down_shares_it():
    found = {0: {1: 0.99, 2: 0.62, 3: 1.01}, 1: {0: 0.98, 2: 1.0, 3: 0.97}}
    assert [core_pairs.partners(pace) for pace in found.values()] == [[2], []]
    first, second = core_pairs.text(found).splitlines()[-2:]
    assert "0.62 beside 2" in first and "none" in second


@pytest.mark.parametrize(
    ("partners", "count", "pairs"),
    [
        ({0: [2], 1: [3]}, 4, [(0, 2), (1, 3)]),
        ({0: [1], 1: [0]}, 4, [(0, 1), (2, 3)]),
        ({0: [1], 2: [3]}, 4, [(0, 1), (2, 3)]),
        ({0: [2], 1: []}, 4, None),
        ({0: [2], 1: [2]}, 4, None),
        ({0: [2, 3]}, 4, None),
        ({1: [2]}, 4, None),  # neighbours begin with an even one
        ({0: [2]}, 6, None),  # six are no two halves of two
    ],
)
def test_pairs_that_lie_equally_far_apart_tell_all(partners, count, pairs):
    found = {core: {n: 0.6 if n in mine else 1.0 for n in range(count)} for core, mine in partners.items()}
    assert core_pairs.everywhere(found, range(count)) == pairs


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="it takes two cores")
def test_it_measures_each_pair_and_leaves_this_process_where_it_was(tmp_path, capfd):
    before = os.sched_getaffinity(0)
    core, *others = sorted(before)
    out = tmp_path / "pairs.json"
    assert core_pairs.main(["--cores", str(core), "--window-s", "0.005", "--json", str(out)]) == 0
    found = json.loads(out.read_text())
    assert list(found) == [str(core)] and sorted(map(int, found[str(core)])) == others
    assert all(share > 0 for share in found[str(core)].values())
    assert os.sched_getaffinity(0) == before


def test_a_core_that_is_not_there_is_named(capsys):
    assert core_pairs.main(["--cores", "100000"]) == 2
    assert "--cores 100000" in capsys.readouterr().err
