"""docs/records.md describes every field of every record and every column of the kernel table."""

import importlib
import pkgutil
import re
from pathlib import Path

import pytest

from kbverified import kernel_table, records
from kbverified.records.base import Record

PAGE = (Path(__file__).parents[2] / "docs" / "records.md").read_text(encoding="utf-8")
NAMED = set(re.findall(r"`([^`\s]+)`", PAGE))
MODELS = [
    model
    for room in pkgutil.iter_modules(records.__path__, "kbverified.records.")
    for model in vars(importlib.import_module(room.name)).values()
    if isinstance(model, type) and issubclass(model, Record) and model is not Record
    if model.__module__ == room.name
]


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_every_field_of_a_record_is_described(model):
    missing = sorted(set(model.model_fields) - NAMED)
    assert not missing, f"docs/records.md does not describe {model.__name__}: {', '.join(missing)}"


def test_every_column_of_the_kernel_table_is_described():
    missing = [name for name in kernel_table.COLUMNS if name not in NAMED and not name.startswith("why_null_")]
    assert missing == []
    groups = set(re.findall(r"^\| (\w+) \|", PAGE, flags=re.MULTILINE))
    assert set(kernel_table.GROUPS) <= groups


def test_no_column_is_described_that_there_is_not():
    table = PAGE.split("## The kernel table")[1].split("### Intervals")[0]
    columns = set(re.findall(r"^\|[^|]*\|([^|]*)\|", table, flags=re.MULTILINE))
    described = {name for cell in columns for name in re.findall(r"`([^`]+)`", cell)}
    assert described <= set(kernel_table.COLUMNS)
