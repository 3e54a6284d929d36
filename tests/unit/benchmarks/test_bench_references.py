"""References as candidates: only the class's name changes."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from benchmarks import references
from kbverified.keys import CandidateKey, ProblemKey
from kbverified.records.files import read
from kbverified.records.generation import Generation

SOURCE = '''class Model(Base):
    """Model is a word here."""
    def __init__(self):
        super(Model, self).__init__(); x = [Model, Models, MyModel]  # Model
'''
RENAMED = '''class ModelNew(Base):
    """Model is a word here."""
    def __init__(self):
        super(ModelNew, self).__init__(); x = [ModelNew, Models, MyModel]  # Model
'''


def test_names_change_and_words_stay() -> None:
    assert references.renamed(SOURCE) == RENAMED


@pytest.mark.parametrize("source", ["class Other: pass\n", SOURCE + "class ModelNew: pass\n"])
def test_what_cannot_be_renamed_is_refused(source: str) -> None:
    with pytest.raises(ValueError, match="no class Model"):
        references.renamed(source)


def test_samples_are_written_with_their_metadata(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    problem = ProblemKey("kernelbench", "level1_19").source_path(tmp_path)
    problem.parent.mkdir(parents=True)
    problem.write_text(SOURCE)
    assert references.main(["level1_19", "--samples", "2", "--root", str(tmp_path)]) == 0
    for sample in range(2):
        key = CandidateKey(references.GENERATOR, "kernelbench", "level1_19", sample)
        assert key.source_path(tmp_path).read_text() == RENAMED
        generation = read(key.metadata_path(tmp_path), Generation)
        assert generation.candidate_sha256 == hashlib.sha256(RENAMED.encode()).hexdigest()
    assert references.main(["level1_20", "--root", str(tmp_path)]) == 2
    assert "level1_20.py is not there" in capsys.readouterr().err
