"""Which problems and candidates a selection means."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kbverified.config import ConfigError, Selection
from kbverified.generators import GeneratorSpec
from kbverified.keys import CandidateKey, ProblemKey
from kbverified.selection import select, select_problems

FILES = (
    "problems/one/level1_2.py",
    "problems/one/level1_10.py",
    "problems/one/level2_1.py",
    "problems/one/manifest.csv",
    "problems/one/notes.py",
    "problems/two/level1_2.py",
    "generations/mine/one/level1_2/0.py",
    "generations/mine/one/level1_2/1.py",
    "generations/mine/one/level1_2/.2.py.x.tmp",
    "generations/mine/one/level1_10/10.py",
    "generations/mine/one/level1_10/9.py",
    "generations/mine/two/level1_2/0.py",
    "generations/mine/one/level3_3/0.py",
)
MINE = GeneratorSpec(generator="mine", origin="import")
EMPTY = GeneratorSpec(generator="empty", origin="import")
ASKED = GeneratorSpec(generator="asked", origin="api", model="m", base_url_env="U", api_key_env="K", samples=2)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in FILES:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    return tmp_path


def tails(root: Path, *specs: GeneratorSpec, device: Any = "cpu", **selection: Any) -> list[str]:
    chosen = select(Selection(**{"suites": ("one",), **selection}), specs, device, root)
    return [key.tail for keys in chosen.candidates.values() for key in keys]


def test_problems_come_in_numerical_order(root: Path) -> None:
    keys = select_problems(Selection(suites=("two", "one")), root)
    assert [str(key) for key in keys] == ["one/level1_2", "one/level1_10", "one/level2_1", "two/level1_2"]


def test_all_candidates_of_the_selected_problems(root: Path) -> None:
    # level3_3 has a candidate and no problem: it is none of this run's.
    assert tails(root, MINE) == [
        "mine/one/level1_2/0",
        "mine/one/level1_2/1",
        "mine/one/level1_10/9",
        "mine/one/level1_10/10",
    ]


@pytest.mark.parametrize(
    ("selection", "expected"),
    [
        ({"samples": (0,)}, ["mine/one/level1_2/0"]),
        ({"problems": ("level1_10",), "samples": (9,)}, ["mine/one/level1_10/9"]),
        ({"suites": ("one", "two"), "problems": ("two/level1_2",)}, ["mine/two/level1_2/0"]),
        ({"suites": ("one", "two"), "problems": ("level1_2",), "samples": (0,)},
         ["mine/one/level1_2/0", "mine/two/level1_2/0"]),
    ],
)  # fmt: skip
def test_each_key_narrows(root: Path, selection: dict[str, Any], expected: list[str]) -> None:
    assert tails(root, MINE, **selection) == expected


def test_a_level_without_candidates_still_has_its_problems(root: Path) -> None:
    chosen = select(Selection(suites=("one",), samples=(0,)), [MINE], "cpu", root)
    assert ProblemKey("one", "level2_1") in chosen.problems


def test_an_api_generator_has_every_problem_times_samples(root: Path) -> None:
    assert len(tails(root, ASKED)) == 3 * 2
    assert tails(root, ASKED, samples=(1,), levels=(2,)) == ["asked/one/level2_1/1"]
    with pytest.raises(ConfigError, match="no candidate of asked is left"):
        tails(root, ASKED, samples=(2,))


def test_all_leaves_out_empty_generators_but_a_name_has_to_be_there(root: Path) -> None:
    assert len(tails(root, MINE, EMPTY)) == 4
    with pytest.raises(ConfigError, match=r"no candidate of empty is left.*generations/empty"):
        tails(root, MINE, EMPTY, generators=("mine", "empty"))


def test_another_device_is_left_out(root: Path) -> None:
    for_gpu = GeneratorSpec(generator="empty", origin="import", devices="cuda")
    assert len(tails(root, MINE, for_gpu, generators=("mine", "empty"))) == 4
    with pytest.raises(ConfigError, match="for device cpu"):
        tails(root, MINE.model_copy(update={"devices": "cuda"}))


def test_bundled_candidates_name_their_device_one_by_one(root: Path) -> None:
    bundled = GeneratorSpec(generator="mine", origin="bundled")
    path = CandidateKey("mine", "one", "level1_2", 0).metadata_path(root)
    path.write_text(json.dumps({"settings": {"devices": "cuda"}}))
    assert "mine/one/level1_2/0" not in tails(root, bundled)
    assert "mine/one/level1_2/0" in tails(root, bundled, device="cuda")
    assert "mine/one/level1_2/0" in tails(root, MINE), "imported candidates are all tried"


@pytest.mark.parametrize(
    ("selection", "message"),
    [
        ({"suites": ("nowhere",)}, "problems/nowhere"),
        ({"problems": ("level1_77",)}, "level1_77 not found"),
        ({"levels": (9,)}, "no problem is left"),
        ({"generators": ("nobody",)}, "nobody not in the generators table, which has mine"),
        ({"samples": (99,)}, "no candidate of mine is left"),
    ],
)
def test_what_is_not_there_is_named(root: Path, selection: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        tails(root, MINE, **selection)
