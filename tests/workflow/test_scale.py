"""What keeps planning cheap with thousands of candidates: docs/scaling.md has the times, these are their causes."""

from __future__ import annotations

import re

from small_tree import PROJECT, Tree


def test_a_record_as_a_target_looks_at_no_other_candidate(fresh: Tree) -> None:
    # A sample that is there twice stops whoever looks at what is selected.
    fresh.write("generations/good/tiny/level1_1/00.py", "")
    assert "00.py: a sample is named by its number" in fresh.snakemake("--dry-run", check=False).stdout
    planned = fresh.planned("results/memory/bad/tiny/level1_1/0.json")
    assert planned == {"audit_problem": 1, "compile": 1, "hidden_gate": 1, "memory": 1}


def test_a_generators_table_plans_its_own_jobs_only(fresh: Tree) -> None:
    one = {"audit_problem": 1, "compile": 1, "hidden_gate": 1, "time": 2, "memory": 1, "ceilings": 1, "aggregate": 1}
    # The audits of all selected problems are in every table.
    assert fresh.planned("results/kernels/good.parquet") == one | {"audit_problem": 2}


def test_no_input_refers_to_another_rule() -> None:
    # One ``rules.x.output`` beside n paths makes Snakemake hash all n paths n times.
    for path in (PROJECT / "Snakefile", *(PROJECT / "workflow/rules").glob("*.smk")):
        code = re.sub(r"#.*", "", path.read_text())
        assert not re.search(r"\brules\.\w+\.\w+", code), path
