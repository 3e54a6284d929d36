"""What a soak found: growth, leftovers, verdicts that differ between copies of one file; as JSON and as Markdown."""

from __future__ import annotations

import datetime
import json
import platform
from collections import Counter, defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.soak_samples import growths
from kbverified import kernel_table
from kbverified.devices import cpu_model
from kbverified.keys import STAGES, CandidateKey

NO_TIME = ("unstable", "time_disputed")
"""Verdicts of a timing on a busy CPU: two rounds of it, beside other jobs. Counted apart, and no difference."""


def summarise(work: Path) -> dict[str, Any]:
    """Of all calls so far. ``found``: what should not be, one sentence each; ``through``: every record is there."""
    root = work / "project"
    origins: dict[str, str] = json.loads((work / "origins.json").read_text())
    segments = [json.loads(line) for line in (work / "segments.jsonl").read_text().splitlines()]
    outcomes, missing, no_time = _outcomes(root, origins)
    verdicts = _verdicts(root, origins)
    grown = [str(growth) for one in segments for growth in growths(one["samples"]) if growth.grows]
    left = [what for one in segments for what in one["left_behind"]]
    differing = _differing(outcomes) + _differing({origin: {"hidden test": seen} for origin, seen in verdicts.items()})
    log = (work / "snakemake.log").read_text(errors="replace")
    through = not missing and (root / "results/leaderboard.json").exists()
    wall_s = sum(one["duration_s"] for one in segments)
    cpu_s = sum(one["cpu_s"] for one in segments)
    done = sum(one["candidates"] for one in segments)
    return {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "machine": f"{cpu_model()}, {segments[-1]['cores']} cores used, Python {platform.python_version()}",
        "candidates": len(origins),
        "files": len(set(origins.values())),
        "done": done,
        "records_missing": missing,
        "through": through,
        "calls": [{k: one[k] for k in ("ended", "duration_s", "candidates", "cores")} for one in segments],
        "candidates_a_minute": round(60 * done / wall_s, 1) if wall_s else None,
        "seconds_a_candidate": round(wall_s / done, 2) if done else None,
        "cpu_seconds_a_candidate": round(cpu_s / done, 2) if done else None,
        "failed_jobs": log.count("Error in rule "),
        "timings_without_a_time": no_time,
        "growth": [str(growth) for one in segments for growth in growths(one["samples"])],
        "processes_at_most": max((s["processes"] for one in segments for s in one["samples"]), default=0),
        "judges_at_most_mib": max((rss for one in segments for s in one["samples"] for rss in s["judges"]), default=0)
        // 1024,
        "verdicts": dict(Counter(verdict for seen in verdicts.values() for verdict in seen.elements())),
        "found": [
            *(f"grows: {what}" for what in grown),
            *(f"left behind: {what}" for what in left),
            *(f"identical candidates differ: {what}" for what in differing),
            *_unexpected(root, origins, verdicts),
        ],
    }


Outcomes = dict[str, dict[str, Counter[str]]]
"""By bundled file and stage: how many of its copies had which outcome."""


def _outcomes(root: Path, origins: Mapping[str, str]) -> tuple[Outcomes, int, int]:
    """(outcomes, records that are missing, timings that gave no time)."""
    found: Outcomes = defaultdict(lambda: defaultdict(Counter))
    missing = no_time = 0
    for tail, origin in origins.items():
        key = CandidateKey.from_tail(f"{tail}.json")
        for stage in STAGES:
            try:
                record = json.loads(key.record_path(stage, root).read_text())
            except FileNotFoundError:
                missing += 1
                continue
            verdict = record["verdict"]
            if verdict in NO_TIME and stage.startswith("time-"):
                no_time += 1
                verdict = "pass"
            found[origin][stage][f"{record['status']} {verdict}"] += 1
    return found, missing, no_time


def _verdicts(root: Path, origins: Mapping[str, str]) -> dict[str, Counter[str]]:
    """By bundled file: its copies' verdicts on the hidden test, as the tables have them; none before there are any."""
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for path in sorted((root / "results/kernels").glob("*.parquet")):
        for row in kernel_table.read_parquet(path).to_dict("records"):
            tail = f"{row['generator']}/{row['suite']}/{row['problem']}/{row['sample']}"
            found[origins[tail]][str(row["verdict_hidden"])] += 1
    return found


def _differing(outcomes: Mapping[str, Mapping[str, Counter[str]]]) -> list[str]:
    return [
        f"{origin}, {stage}: {', '.join(f'{count} {what}' for what, count in seen.most_common())}"
        for origin, stages in sorted(outcomes.items())
        for stage, seen in stages.items()
        if len(seen) > 1
    ]


def _unexpected(root: Path, origins: Mapping[str, str], verdicts: Mapping[str, Counter[str]]) -> list[str]:
    """Verdicts that are not what the bundled file's metadata says; of those that differ it has been said."""
    expected = {}
    for tail, origin in origins.items():
        if origin not in expected:
            metadata = (root / "generations" / f"{tail}.json").read_text()
            expected[origin] = json.loads(metadata).get("expected_verdict", "pass")
    return [
        f"{origin}: {next(iter(seen))}, and its file says {expected[origin]}"
        for origin, seen in sorted(verdicts.items())
        if len(seen) == 1 and next(iter(seen)) != expected[origin]
    ]


def markdown(summary: Mapping[str, Any]) -> str:
    """For docs/runs/."""
    calls = ", ".join(
        f"{one['candidates']:,} in {one['duration_s']:.0f} s ({one['ended']})" for one in summary["calls"]
    )
    lines = [
        f"# Soak: {summary['candidates']:,} candidates through every stage",
        "",
        f"{summary['date']}, {summary['machine']}. {summary['files']} bundled candidates repeated under "
        f"{summary['candidates']:,} names, one Snakemake, one evaluator, device cpu, sandbox as this machine allows. "
        "Timings take two rounds of a few milliseconds each in this copy: no time here means anything.",
        "",
        "| | |",
        "|---|---|",
        f"| through | {'all' if summary['through'] else 'not yet'}: {summary['done']:,} candidates, "
        f"{summary['records_missing']:,} records missing |",
        f"| calls | {calls} |",
        f"| rate | {summary['candidates_a_minute']} candidates a minute; {summary['cpu_seconds_a_candidate']} "
        "CPU-seconds a candidate, compilers and Snakemake included |",
        f"| failed jobs | {summary['failed_jobs']} |",
        f"| timings without a time | {summary['timings_without_a_time']} |",
        f"| processes at once, at most | {summary['processes_at_most']} |",
        f"| largest judge | {summary['judges_at_most_mib']} MiB |",
        "",
        "Memory and descriptors, second fifth of a call to its last:",
        "",
        *(f"- {line}" for line in summary["growth"]),
        "",
        "Verdicts on the hidden test: "
        + (
            ", ".join(f"{k} {v:,}" for k, v in sorted(summary["verdicts"].items(), key=lambda kv: -kv[1])) or "none yet"
        ),
        "",
        "Found:"
        if summary["found"]
        else "Found: nothing. No growth, nothing left behind, no two verdicts on one file.",
        "",
        *(f"- {line}" for line in summary["found"]),
    ]
    return "\n".join(lines).rstrip() + "\n"
