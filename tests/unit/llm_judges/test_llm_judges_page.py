"""docs/llm-judges.md describes every field of what LLM judges leave, every label and every failure."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import pytest

from kbverified.llm_judges import labels, records
from kbverified.records.base import Record

PAGE = (Path(__file__).parents[3] / "docs/llm-judges.md").read_text(encoding="utf-8")
NAMED = set(re.findall(r"`([^`\s]+)`", PAGE))
MODELS = [
    model
    for model in vars(records).values()
    if isinstance(model, type) and issubclass(model, Record) and model.__module__ == records.__name__
]


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_every_field_is_described(model: type[Record]) -> None:
    assert sorted(set(model.model_fields) - NAMED) == []
    assert model.__name__ in PAGE


def test_every_word_is_described() -> None:
    words = {*labels.LABELS, *get_args(labels.Failure), *get_args(records.Why), *get_args(records.Basis)}
    assert sorted(words - NAMED) == []
