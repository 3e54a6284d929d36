"""The environment's table says what the rows say, and a dash where none does."""

from __future__ import annotations

import pytest
from hand_made import inputs, row

from kbverified import protocol
from kbverified.aggregation import AggregationSettings
from kbverified.paper import build
from kbverified.paper.topics import environment

NO_DEVICE = dict.fromkeys(
    ("device_kind", "device_name", "device_uuid", "driver", "torch", "cuda", "sandbox", "gate_mode", "package_version")
)


def values(found) -> dict[str, str | None]:
    (made, _) = environment.tables(found)
    return {what: value for _, what, value in made.rows}


def test_device_software_and_settings_are_those_of_the_rows_and_the_leaderboard():
    found = inputs(
        [
            row("g", "level1_1", 0, device_uuid="GPU-1"),
            row("g", "level1_1", 1, device_uuid="GPU-2"),
            row("g", "level1_2", **NO_DEVICE),
        ],
        settings=AggregationSettings(resamples=300, confidence=0.9),
    )
    said = values(found)
    assert (said["model"], said["driver"], said["torch"], said["CUDA"]) == ("H200", "580", "2.11.0", "13.0")
    assert (said["number of devices"], said["kbverified"], said["sandbox"]) == ("2", "0.1.0", "full")
    assert (said["gate mode"], said["confidence"], said["resamples"]) == ("ieee", "90 %", "300")
    assert (said["tau, fp32"], said["tau, sensitivity"]) == ("0.001", "0.001, 0.0001")
    assert (said["problems"], said["generators"], said["candidates"]) == ("2 active of 2 selected", "1", "3")
    assert said["variance between processes"].startswith("none"), "no A/A study has filled protocol's table yet"
    (made, _) = environment.tables(found)
    assert "One kind of GPU and one environment throughout." in made.note


def test_records_are_counted_by_stage_with_digest_and_mode():
    digests = {"protocol_digest_compile": "c" * 64, "protocol_digest_hidden_gate": "a" * 63 + "1"}
    rows = [
        row("g", "level1_1", 0, **digests, protocol_digest_time_tf32="b" * 64, time_tf32_mode="tf32"),
        row("g", "level1_1", 1, **digests),
        row("h", "level1_2", 0, protocol_digest_compile="c" * 64),
    ]
    (_, made) = environment.tables(inputs(rows, ["level1_3"]))
    by_stage = {stage: (n, mode, digest) for stage, n, mode, digest in made.rows}
    assert by_stage["compile"] == (3, None, "c" * 16)
    assert by_stage["hidden-gate"] == (2, "ieee", "a" * 16)
    assert by_stage["time-tf32"] == (1, "tf32", "b" * 16)
    assert by_stage["memory"] == (0, None, None)
    assert by_stage["audit-problem"][0] == 3
    assert by_stage["audit-problem"][2] == protocol.digest("audit-problem")[:16]
    assert "time-ieee" not in by_stage, "an optional baseline that was not asked for"


def test_mixed_environments_are_all_named_and_the_table_says_no_finding():
    rows = [row("g", "level1_1"), row("g", "level1_2", driver="570", torch="2.13.0")]
    found = inputs(rows, settings=AggregationSettings(allow_mixed=True))
    said = values(found)
    assert (said["driver"], said["torch"], said["mixed environments"]) == ("570, 580", "2.11.0, 2.13.0", "allowed")
    assert "Not for findings" in environment.tables(found)[0].note


@pytest.mark.parametrize("generators", [[], ["g"]])
def test_no_record_at_all_is_dashes(tmp_path, generators):
    found = inputs([], ["level1_1"], generators=generators)
    build.write_topic(build.topic("environment"), found, tmp_path)
    assert values(found)["model"] is None and values(found)["number of devices"] is None
    text = (tmp_path / "tables/environment.md").read_text()
    assert "| device | model | – |" in text and "Not for findings" in text
