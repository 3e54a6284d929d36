"""Problems with a remark, one of each kind, and what they count as."""

from __future__ import annotations

import pytest
import record_factory as make
from hand_made import inputs, row

from kbverified.keys import ProblemKey
from kbverified.paper import build, table
from kbverified.paper.topics import problems
from kbverified.records.problem import DistributionAudit, HardenedAudit, ProblemRecord
from kbverified.records.trials import OracleErrors

NEAR = OracleErrors(kind="fp64", scaled_error=1e-7, reference_scaled_error=1e-6)


def key(name: str, suite: str = "s") -> ProblemKey:
    return ProblemKey(suite, name)


@pytest.fixture(scope="module")
def audits() -> dict[ProblemKey, ProblemRecord]:
    constant = tuple(
        DistributionAudit(distribution=name, applicable=True, replay_tolerance=0.0, input_independent=True)
        for name in ("d1_original", "d2_scale_3")
    )
    partly = (constant[0], constant[1].model_copy(update={"input_independent": False, "replay_tolerance": 0.5}))
    return {
        key("level1_1"): make.problem(key("level1_1"), distributions=partly),
        key("level1_2"): make.problem(key("level1_2"), not_applicable=("d4_negate",)),
        key("level2_1"): make.problem(key("level2_1"), degenerate=True),
        key("level2_2"): make.problem(key("level2_2"), usable=False, detail="get_inputs raises ZeroDivisionError"),
        key("level2_3"): make.problem(key("level2_3"), replay=5e-3),
        key("level2_4"): make.problem(key("level2_4"), distributions=constant),
        key("level2_5"): make.problem(
            key("level2_5"), hardened=(HardenedAudit(law="h1_scale_and_offset", applicable=True, replay=NEAR),)
        ),
        key("level1_1", "t"): make.problem(key("level1_1", "t"), hardened=()),
    }


@pytest.fixture(scope="module")
def small(audits):
    return inputs([row("g", "level1_1"), row("b", "level1_1", dtype="bf16", tau=1e-2)], audits)


def test_every_remark_has_its_kind_dtype_and_reason(small):
    found = [(r.key.problem, r.kind, r.dtype) for r in problems.remarks(small)]
    assert found == [
        ("level1_2", "not applicable", None),
        ("level2_1", "degenerate", None),
        ("level2_2", "unusable", None),
        ("level2_3", "non-discriminating", "bf16"),  # another input's output needs 5e-3: 1e-2 lets it pass, 1e-3 not
        ("level2_4", "constant output", None),
        ("level2_4", "non-discriminating", "bf16"),
        ("level2_4", "non-discriminating", "fp32"),
        ("level2_5", "undecidable", "bf16"),
        ("level2_5", "undecidable", "fp32"),
    ]
    reasons = {(r.key.problem, r.kind): r.reason for r in problems.remarks(small)}
    assert reasons["level1_2", "not applicable"] == "d4_negate: the reference is not finite or raises"
    assert reasons["level2_2", "unusable"] == "get_inputs raises ZeroDivisionError"
    assert (
        "tau 0.01" in reasons["level2_3", "non-discriminating"] and "0.005" in reasons["level2_3", "non-discriminating"]
    )


def test_counts_per_suite_and_level(small):
    counts, apart = problems.tables(small)
    names = [column.name for column in counts.columns]
    by_place = {row[:2]: dict(zip(names, row)) for row in counts.rows}
    assert list(by_place) == [("s", "1"), ("s", "2"), ("s", "all"), ("t", "1"), ("t", "all")]
    level2 = by_place["s", "2"]
    assert (level2["n_selected"], level2["n_active"]) == (5, 3)
    assert (level2["n_degenerate"], level2["n_unusable"], level2["n_not_audited"]) == (1, 1, 0)
    assert (level2["n_non_discriminating_bf16"], level2["n_non_discriminating_fp32"]) == (2, 1)
    assert (level2["n_undecidable_fp32"], level2["n_constant_output"], level2["n_not_applicable"]) == (1, 1, 0)
    whole = by_place["s", "all"]
    assert (whole["n_selected"], whole["n_active"], whole["n_not_applicable"]) == (7, 5, 1)
    assert by_place["t", "all"]["n_undecidable_fp32"] == 0
    assert len(apart.rows) == 9
    # The leaderboard leaves out the same, for the same reasons.
    assert {e.problem for e in small.leaderboard.excluded} == {r[2] for r in apart.rows if r[4] in problems.LEFT_OUT}
    assert {str(k) for k in (key("level2_4"),)} == set(small.leaderboard.non_discriminating["fp32"])


def test_shares_are_of_what_is_known(small):
    found = {(f.conditions.split(", ")[1], f.sentence.split(" passes ")[1].split(" is ")[0]): f for f in
             problems.findings(small) if " of s" in f.conditions}  # fmt: skip
    weak = found["bf16", "every distribution"].estimate
    assert (weak.value, weak.n) == (pytest.approx(2 / 5), 5)
    other = [f for f in problems.findings(small) if " of t" in f.conditions and "hardened" in f.sentence]
    assert {f.outcome for f in other} == {"not measured"}, "no hardened law was audited there"


def test_a_skipped_audit_is_not_audited_and_a_run_without_remarks_says_so(tmp_path):
    skipped = ProblemRecord(
        provenance=make.provenance("audit-problem"),
        status="skipped",
        reason="does not fit this device",
        name="x",
        level=1,
        usable=True,
    )
    found = problems.remarks(inputs([], {key("level1_1"): skipped}))
    assert [(r.kind, r.reason) for r in found] == [("not audited", "does not fit this device")]
    plain = inputs([], ["level1_1"])
    build.write_topic(build.topic("problems"), plain, tmp_path)
    assert "None of the 1 selected problems has a remark." in (tmp_path / "tables/problems_apart.md").read_text()
    assert table.to_csv(problems.tables(plain)[1]).count("\n") == 1
