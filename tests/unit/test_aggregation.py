"""Rows and tables from records on disk: values, reasons of nulls, errors that name files, and the bytes written."""

import json
import random
import struct

import pandas as pd
import pytest
import record_factory as rf

from kbverified import aggregation, kernel_table, protocol, verdicts
from kbverified.aggregation import AggregationSettings, MixedEnvironments, aggregate_generator, candidate_row
from kbverified.candidate_records import read_candidate
from kbverified.keys import CandidateKey, ProblemKey
from kbverified.leaderboard.conditions import final_verdict
from kbverified.records.files import RecordError, read, write
from kbverified.records.stages import GateRecord, MemoryRecord, TimeRecord

PROBLEM = ProblemKey("kb", "level1_19")
KEY = CandidateKey("gen", "kb", "level1_19", 0)
SETTINGS = AggregationSettings(resamples=200)
FIELDS = ("allocator_peak", "allocator_above", "device_peak", "device_above")


def row_of(tmp_path, stages=None, settings=SETTINGS, **problem):
    rf.write_problem(tmp_path, PROBLEM, **problem)
    rf.write_candidate(tmp_path, KEY, stages)
    return candidate_row(tmp_path, KEY, settings)


def with_stages(**changed):
    return rf.good_stages() | {name.replace("_", "-"): record for name, record in changed.items()}


def test_a_good_candidate_has_a_full_row(tmp_path):
    six = {
        "time_fp32": rf.timing("time-fp32", 4.0, 2.0, rounds=6),
        "time_tf32": rf.timing("time-tf32", 1.0, 1.25, rounds=6),
    }
    write(tmp_path / "results/ceilings/cuda.json", rf.ceilings())
    row = row_of(tmp_path, with_stages(**six), **rf.needs(1 << 30, 1 << 30))
    assert list(row) == list(kernel_table.COLUMNS)
    assert (row["generator"], row["suite"], row["problem"], row["sample"]) == ("gen", "kb", "level1_19", 0)
    assert (row["level"], row["number"], row["dtype"], row["tau"]) == (1, 19, "fp32", 1e-3)
    assert (row["verdict_standard"], row["verdict_hidden"]) == ("pass", "pass")
    assert (row["speedup_naive"], row["speedup_published"], row["speedup_matched"]) == (2.0, 0.5, 0.8)
    assert [row[f"memory_ratio_{f}"] for f in FIELDS] == [2.0, 2.0, 2100 / 1100, 1100 / 600]
    assert (row["device_kind"], row["device_uuid"], row["gate_mode"]) == ("cuda", "GPU-1", "ieee")
    assert row["protocol_digest_memory"] == protocol.digest("memory")
    missing = {name: why for name, why in row.items() if name.startswith("why_null") and why}
    assert {missing.pop("why_null_static"), missing.pop("why_null_static_operators")} == {f"no generations/{KEY}.py"}
    assert set(missing.values()) == {
        "time-ieee not asked for: baselines does not name it",
        "time-compile not asked for: baselines does not name it",
    }
    groups = ("time", "speedup", "roofline_time")
    assert set(missing) == {f"why_null_{group}_{name}" for group in groups for name in ("ieee", "compile")}


def test_every_null_has_a_reason_and_no_reason_stands_without_a_null(tmp_path):
    gate_failed = with_stages(
        hidden_gate=rf.gate({"d1_original": "crash"}, verdict="crash"),
        time_fp32=rf.skipped(TimeRecord, "time-fp32", "hidden-gate: crash"),
        time_tf32=rf.skipped(TimeRecord, "time-tf32", "hidden-gate: crash"),
        memory=rf.skipped(MemoryRecord, "memory", "hidden-gate: crash"),
    )
    for i, stages in enumerate([rf.good_stages(), {}, gate_failed, {"compile": rf.compiled("no_code")}]):
        row = row_of(tmp_path / str(i), stages)
        for group, columns in kernel_table.GROUPS.items():
            null = [name for name in columns if row[name] is None]
            assert bool(row[f"why_null_{group}"]) == bool(null), (group, null, row[f"why_null_{group}"])


def test_reasons_say_which_stage_and_why(tmp_path):
    row = row_of(tmp_path, with_stages(
        hidden_gate=rf.gate({"d1_original": 1e-6, "d2_scale_3": "nonfinite"}, verdict="nonfinite"),
        time_fp32=rf.skipped(TimeRecord, "time-fp32", "hidden-gate: nonfinite"),
        time_tf32=None,
        memory=rf.skipped(MemoryRecord, "memory", "hidden-gate: nonfinite"),
    ))  # fmt: skip
    assert (row["verdict_standard"], row["verdict_hidden"]) == ("pass", "nonfinite")
    assert row["failed_hidden"] == "d2_scale_3"
    assert row["why_null_time_fp32"] == "time-fp32 skipped: hidden-gate: nonfinite"
    assert row["why_null_speedup_matched"] == "no time-tf32 record"
    assert row["why_null_speedup_published"] == "time-fp32 skipped: hidden-gate: nonfinite; no time-tf32 record"
    assert row["why_null_memory"] == "memory skipped: hidden-gate: nonfinite"
    assert row["critical_tolerance_d1_original"] == 1e-6
    assert row["why_null_critical_tolerance"] == (
        "d2_scale_3: nonfinite; d3_scale_0.01: hidden-gate: nonfinite; d4_negate: hidden-gate: nonfinite"
    )
    assert row["why_null_protocol"] == "no record of time-tf32"


def test_nothing_but_a_source_is_still_a_row(tmp_path):
    row = candidate_row(tmp_path, KEY, SETTINGS)
    assert (row["verdict_hidden"], row["dtype"], row["usable"]) == (None, None, None)
    assert row["why_null_verdict_hidden"] == "no compile record"
    assert row["why_null_problem"] == "no audit-problem record"
    assert row["why_null_generation"] == "no generations/gen/kb/level1_19/0.json"
    assert row["why_null_environment"] == "no stage of this candidate used a device"


def test_a_wrong_output_of_the_measured_forward_is_a_verdict_and_no_figure(tmp_path):
    row = row_of(tmp_path, with_stages(memory=rf.memory(2000, 1000, verdict="wrong_value")))
    assert row["memory_verdict"] == final_verdict(row) == "wrong_value"
    assert row["memory_ratio_allocator_peak"] is None
    assert row["why_null_memory"] == "memory: wrong_value"
    assert final_verdict(row_of(tmp_path, with_stages(memory=rf.memory(2000, 1000)))) == "pass"


def test_memory_without_one_of_its_figures(tmp_path):
    record = rf.memory(2000, 1000)
    side = record.candidate.model_copy(update={"allocator_peak_bytes": None, "device_above_bytes": 0})
    row = row_of(tmp_path, with_stages(memory=record.model_copy(update={"candidate": side})))
    assert row["memory_ratio_allocator_peak"] is None and row["memory_ratio_device_above"] is None
    assert row["memory_ratio_allocator_above"] == 2.0
    assert row["why_null_memory"] == "memory: candidate.allocator_peak_bytes is null, candidate.device_above_bytes is 0"


def test_tau_changes_verdicts_and_non_discriminating_alone(tmp_path):
    stages = with_stages(hidden_gate=rf.gate(dict.fromkeys(protocol.DISTRIBUTIONS, 5e-4)))
    rows = []
    for i, tau in enumerate((1e-3, 1e-4)):
        settings = AggregationSettings(tau={"fp32": tau, "bf16": 1e-2}, resamples=200)
        rows.append(row_of(tmp_path / str(i), stages, settings, replay=2e-4, non_discriminating=True))
    changed = {name for name in rows[0] if rows[0][name] != rows[1][name]}
    assert changed == {
        "tau", *(f"{what}_{test}" for what in ("verdict", "failed") for test in verdicts.TESTS), "verdict_detail",
        "non_discriminating",
    }  # fmt: skip
    assert [row["verdict_hidden"] for row in rows] == ["pass", "wrong_value"]
    assert [row["non_discriminating"] for row in rows] == [True, False]


def test_an_edited_sample_is_kept_and_marked(tmp_path):
    rf.write_problem(tmp_path, PROBLEM)
    rf.write_candidate(tmp_path, KEY, candidate_sha256="0" * 64)
    row = candidate_row(tmp_path, KEY, SETTINGS)
    assert row["edited"] is True
    assert row["candidate_sha256"] == rf.SHA


# --- records that must not be believed ----------------------------------------------------------------------


def test_a_corrupt_record_names_file_field_and_value(tmp_path):
    row_of(tmp_path)
    path = KEY.record_path("memory", tmp_path)
    path.write_text(path.read_text().replace('"allocator_peak_bytes": 1000', '"allocator_peak_bytes": "a lot"'))
    with pytest.raises(RecordError, match=r"results/memory/gen/kb/level1_19/0\.json: field candidate\.alloc.*'a lot'"):
        candidate_row(tmp_path, KEY, SETTINGS)
    path.write_text(path.read_text()[:100])
    with pytest.raises(RecordError, match=r"memory/gen/kb/level1_19/0\.json"):
        aggregate_generator(tmp_path, "gen", [KEY], SETTINGS)


@pytest.mark.parametrize(
    ("change", "field"),
    [({"candidate_sha256": "d" * 64}, "candidate_sha256"), ({"problem_sha256": "q" * 64}, "problem_sha256"),
     ({"dtype": "bf16"}, "dtype")],
)  # fmt: skip
def test_records_about_different_things_are_refused(tmp_path, change, field):
    with pytest.raises(RecordError, match=rf"memory/gen.*field provenance\.{field}: .* is stale"):
        row_of(tmp_path, with_stages(memory=rf.memory(2000, 1000, **change)))


def test_a_stale_problem_audit_is_refused(tmp_path):
    stale = rf.provenance("audit-problem", problem_sha256="old")
    with pytest.raises(RecordError, match=r"problem_sha256.*results/problems/kb/level1_19\.json has 'old'"):
        row_of(tmp_path, provenance=stale)


def test_a_record_in_the_wrong_folder_is_refused(tmp_path):
    row_of(tmp_path)
    write(KEY.record_path("time-tf32", tmp_path), rf.timing("time-fp32", 1.0, 1.0))
    with pytest.raises(RecordError, match=r"time-tf32/gen.*field stage: 'time-fp32'"):
        candidate_row(tmp_path, KEY, SETTINGS)


def test_a_record_of_another_schema_is_refused(tmp_path):
    with pytest.raises(RecordError, match=r"schema_version: 99"):
        row_of(tmp_path, with_stages(memory=rf.memory(2, 1, schema_version=99)))


OTHER = rf.GPU.model_copy(update={"driver": "590"})


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        (rf.memory(2000, 1000, device=OTHER), r"environment differs:\n(.|\n)*driver 590.*: 1 records \(.*memory/gen"),
        (rf.memory(2000, 1000, protocol_digest="f" * 64), r"protocol of memory differs:\n(.|\n)*f{16}: 1 records"),
        (rf.gate(mode="default"), r"mode of hidden-gate differs:\n(.|\n)*default: 1 records \(.*hidden-gate/gen"),
    ],
)
def test_mixed_environments_are_refused_by_name_and_allowed_on_request(tmp_path, record, expected):
    keys = [CandidateKey("gen", "kb", "level1_19", sample) for sample in range(3)]
    rf.write_problem(tmp_path, PROBLEM)
    for key in keys:
        rf.write_candidate(tmp_path, key)
    write(keys[1].record_path(record.stage, tmp_path), record)
    with pytest.raises(MixedEnvironments, match=expected):
        aggregate_generator(tmp_path, "gen", keys, SETTINGS)
    allowed = AggregationSettings(allow_mixed=True, resamples=200)
    assert len(aggregate_generator(tmp_path, "gen", keys, allowed)) == 3


def test_another_gpu_of_the_same_kind_is_no_other_environment(tmp_path):
    twin = rf.GPU.model_copy(update={"uuid": "GPU-2"})
    row = row_of(tmp_path, with_stages(time_tf32=rf.timing("time-tf32", 1.0, 1.25, device=twin)))
    assert row["speedup_published"] is None and row["speedup_matched"] == 0.8


def test_compile_may_run_on_another_machine(tmp_path):
    row = row_of(tmp_path, with_stages(compile=rf.compiled(device=rf.CPU)))
    assert row["device_kind"] == "cuda"


# --- the table ----------------------------------------------------------------------------------------------


def _many(root):
    keys = []
    for problem in ("level1_2", "level1_10", "level2_1"):
        rf.write_problem(root, ProblemKey("kb", problem))
        for sample in (0, 1):
            keys.append(CandidateKey("gen", "kb", problem, sample))
            rf.write_candidate(root, keys[-1])
    return keys


def test_one_row_per_key_in_the_order_of_levels_and_numbers(tmp_path):
    keys = _many(tmp_path)
    table = aggregate_generator(tmp_path, "gen", random.Random(1).sample(keys, len(keys)), SETTINGS)
    assert [(r["problem"], r["sample"]) for r in kernel_table.rows(table)] == [(k.problem, k.sample) for k in keys]


def test_the_same_records_give_the_same_bytes(tmp_path):
    keys = _many(tmp_path)
    content = []
    for i, order in enumerate((keys, keys[::-1])):
        path = tmp_path / f"{i}.parquet"
        aggregation.write_parquet(aggregate_generator(tmp_path, "gen", order, SETTINGS), path)
        content.append(path.read_bytes())
    assert content[0] == content[1]
    assert [p.name for p in tmp_path.glob("*.tmp")] == []
    back = kernel_table.read_parquet(tmp_path / "0.parquet")
    assert kernel_table.rows(back) == kernel_table.rows(aggregate_generator(tmp_path, "gen", keys, SETTINGS))


def test_no_candidate_is_an_empty_table_with_every_column(tmp_path):
    table = aggregate_generator(tmp_path, "gen", [], SETTINGS)
    path = tmp_path / "gen.parquet"
    aggregation.write_parquet(table, path)
    back = kernel_table.read_parquet(path)
    assert list(back.columns) == list(kernel_table.COLUMNS)
    assert len(back) == 0


def test_foreign_and_doubled_keys_are_refused(tmp_path):
    with pytest.raises(ValueError, match="not one of generator other"):
        aggregate_generator(tmp_path, "other", [KEY], SETTINGS)
    with pytest.raises(ValueError, match="given twice"):
        aggregate_generator(tmp_path, "gen", [KEY, KEY], SETTINGS)


def test_only_whole_tables_are_written_and_read(tmp_path):
    table = aggregate_generator(tmp_path, "gen", [KEY], SETTINGS)
    with pytest.raises(ValueError, match="tau"):
        aggregation.write_parquet(table.drop(columns=["tau"]), tmp_path / "x.parquet")
    assert not (tmp_path / "x.parquet").exists()
    table.drop(columns=["tau"]).to_parquet(tmp_path / "y.parquet")
    with pytest.raises(RecordError, match=r"y\.parquet: columns of another version: tau"):
        kernel_table.read_parquet(tmp_path / "y.parquet")
    (tmp_path / "z.parquet").write_bytes(b"no parquet")
    with pytest.raises(RecordError, match=r"z\.parquet: not a readable Parquet file"):
        kernel_table.read_parquet(tmp_path / "z.parquet")


def test_a_damaged_table_is_an_error_that_names_it_and_never_another_number(tmp_path):
    whole = tmp_path / "whole.parquet"
    aggregation.write_parquet(aggregate_generator(tmp_path, "gen", [KEY], SETTINGS), whole)
    content, rows = whole.read_bytes(), kernel_table.read_parquet(whole)
    (footer_bytes,) = struct.unpack("<I", content[-8:-4])  # parquet-format: the footer's length, then PAR1
    damaged = tmp_path / "damaged.parquet"
    named = 0
    for at in range(16, len(content) - footer_bytes - 24, 499):
        damaged.write_bytes(content[:at] + bytes(byte ^ 0x5A for byte in content[at : at + 8]) + content[at + 8 :])
        try:
            found = kernel_table.read_parquet(damaged)
        except RecordError as error:
            named += str(damaged) in str(error) and "Delete it and rerun" in str(error)
        else:  # of what only describes a page
            pd.testing.assert_frame_equal(found, rows)
    assert named > 10


def test_a_row_cannot_have_a_column_that_the_table_lacks():
    with pytest.raises(ValueError, match="no such column: speed"):
        kernel_table.complete({"speed": 1.0}, {})


def test_read_candidate_lists_what_there_is(tmp_path):
    rf.write_candidate(tmp_path, KEY, {"hidden-gate": rf.gate()})
    found = read_candidate(tmp_path, KEY, None)
    assert [stage for stage, _, _ in found.present()] == ["hidden-gate"]
    assert isinstance(found.stages["hidden-gate"], GateRecord)


@pytest.mark.parametrize("wrong", [{"tua": {"fp32": 1e-3}}, {"resamples": 10}, {"headline_arm": "best"}])
def test_settings_refuse_what_they_do_not_know(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        AggregationSettings.model_validate(wrong)


# --- optional baselines -------------------------------------------------------------------------------------


def test_a_baselines_record_counts_where_the_configuration_names_it(tmp_path):
    stages = with_stages(
        time_ieee=rf.timing("time-ieee", 8.0, 2.0, rounds=6), time_compile=rf.timing("time-compile", 1.0, 2.0, rounds=6)
    )
    both = AggregationSettings(resamples=200, baselines=("ieee", "compile"))
    row = row_of(tmp_path, stages, both)
    assert (row["time_ieee_baseline_ms"], row["time_ieee_candidate_ms"], row["speedup_ieee"]) == (8.0, 2.0, 4.0)
    assert (row["time_compile_baseline_ms"], row["speedup_compile"]) == (1.0, 0.5)
    assert row["time_ieee_baseline_ms_low"] == row["time_ieee_baseline_ms_high"] == 8.0
    assert row["protocol_digest_time_compile"] == protocol.digest("time-compile")
    assert [row[f"why_null_time_{name}"] for name in ("ieee", "compile")] == [None, None]
    # Without being asked for, nobody reruns it: it may be of an older source.
    stages["time-ieee"] = rf.timing("time-ieee", 6.0, 2.0, candidate_sha256="0" * 64)
    row = row_of(tmp_path / "unasked", stages)
    assert row["speedup_ieee"] is row["time_ieee_verdict"] is None
    assert row["why_null_protocol"] is None
    with pytest.raises(RecordError, match=r"time-ieee.*stale"):
        row_of(tmp_path / "asked", stages, both)


def test_a_wrong_output_under_an_optional_baseline_is_a_verdict(tmp_path):
    wrong = with_stages(time_ieee=rf.timing("time-ieee", 6.0, 2.0, verdict="wrong_value"))
    row = row_of(tmp_path, wrong, AggregationSettings(resamples=200, baselines=("ieee",)))
    assert final_verdict(row) == row["time_ieee_verdict"] == "wrong_value"


def test_a_timing_record_from_before_there_were_baselines_is_readable(tmp_path):
    text = rf.timing("time-fp32", 4.0, 2.0, rounds=6).model_dump(mode="json")
    del text["compiled_baseline"]
    path = tmp_path / "old.json"
    path.write_text(json.dumps(text))
    assert read(path, TimeRecord).compiled_baseline is None


def test_bf16_is_held_against_its_own_tau_and_its_arms_say_what_cannot_exist(tmp_path):
    bf16 = {"dtype": "bf16"}
    stages = {
        "compile": rf.compiled(**bf16),
        "hidden-gate": rf.gate(dict.fromkeys(protocol.DISTRIBUTIONS, 5e-3), **bf16),
        "time-fp32": rf.timing("time-fp32", 4.0, 2.0, rounds=6, **bf16),
        "time-tf32": rf.skipped(TimeRecord, "time-tf32", "TF32 has no effect on bf16", **bf16),
        "time-ieee": rf.skipped(TimeRecord, "time-ieee", "the modes have no effect on bf16", **bf16),
        "time-compile": rf.timing("time-compile", 1.0, 2.0, rounds=6, **bf16),
        "memory": rf.memory(2000, 1000, **bf16),
    }
    row = row_of(tmp_path, stages, AggregationSettings(resamples=200, baselines=("ieee", "compile")))
    assert (row["dtype"], row["tau"], row["verdict_hidden"]) == ("bf16", 1e-2, "pass")
    assert (row["speedup_naive"], row["speedup_matched"], row["matched_from"]) == (2.0, 2.0, "time-fp32")
    assert row["speedup_compile"] == 0.5
    assert row["speedup_published"] is row["speedup_ieee"] is None
    assert row["why_null_speedup_published"] == "time-tf32 skipped: TF32 has no effect on bf16"
    assert row["why_null_speedup_ieee"] == "time-ieee skipped: the modes have no effect on bf16"
