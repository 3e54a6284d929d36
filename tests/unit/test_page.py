"""The page's data and its text: verdicts at any tau, histograms, packing, bundling, and what must not be in it."""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import json
import math
import random
import re
import sys
import tarfile
from pathlib import Path

import page_tree
import pytest
import record_factory as rf

from kbverified import kernel_table, protocol, verdicts
from kbverified.candidate_records import CandidateRecords
from kbverified.keys import CandidateKey, ProblemKey
from kbverified.leaderboard.model import Audit, Audited, Estimate, Leaderboard
from kbverified.page import board, bundle, candidates, details, histogram, html, packing, rule, sweep, vendor
from kbverified.records.files import read
from kbverified.records.problem import DistributionAudit
from kbverified.records.stages import GateRecord
from kbverified.records.timing import Round
from kbverified.records.trials import OracleErrors

KEY = CandidateKey("gen", "kb", "level1_1", 0)
LAWS = tuple(protocol.DISTRIBUTIONS)


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    root = tmp_path_factory.mktemp("page")
    page_tree.make(root)
    return root


@pytest.fixture(scope="module")
def text(tree):
    return (tree / "results/leaderboard.html").read_text(encoding="utf-8")


def unpacked(text, name):
    """What the page holds under an id, read without the code under test."""
    packed = re.search(rf'<script type="text/plain" id="{name}">([^<]*)</script>', text)[1]
    return json.loads(gzip.decompress(base64.b64decode(packed)))


# --- the rule -----------------------------------------------------------------------------------------------


def found_with(gate, problem=None, compiled=None):
    stages = {"compile": compiled or rf.compiled(), "hidden-gate": gate}
    return CandidateRecords(Path("."), KEY, None, problem, stages)


def random_gate(rng):
    """Any gate that a run can leave: numbers, failures that no tolerance mends, laws that do not apply, a death."""
    tolerances = {}
    for law in LAWS:
        tolerances[law] = rng.choice([10 ** rng.uniform(-8, 1), 10 ** rng.uniform(-5, -2), 0.0, 1e-3])
    kind = rng.random()
    weights = rng.choice([True, False, None])
    if kind < 0.2:
        law = rng.choice(LAWS)
        tolerances[law] = verdict = rng.choice(["nonfinite", "crash", "wrong_shape"])
        if verdict == "crash":  # the process is gone, and the laws after it were not tried
            tolerances = {name: tolerances[name] for name in LAWS[: LAWS.index(law) + 1]}
        return rf.gate(tolerances, verdict=verdict, weights_match=weights)
    if kind < 0.3:
        return rf.gate({}, verdict="timeout")
    if kind < 0.35:
        return rf.gate(dict(list(tolerances.items())[: rng.randint(1, 3)]), verdict="timeout")
    if kind < 0.45:
        tolerances[rng.choice(LAWS[1:])] = None
    hardened = {} if rng.random() < 0.7 else {"hardened": (), "hardened_why_not": "none"}
    return rf.gate(tolerances, weights_match=weights, **hardened)


def test_steps_are_the_verdicts_of_the_judge_at_every_tau():
    rng = random.Random(1)
    compared = 0
    for _ in range(400):
        gate = random_gate(rng)
        found = found_with(gate)
        steps = rule.steps(found)
        own = [t.critical_tolerance for t in gate.trials if t.critical_tolerance]
        beside = [math.nextafter(t, end) for t in own for end in (0.0, math.inf)]
        for tau in (1e-9, 1e-5, 1e-3, 1e-2, 1.0, 100.0, *own, *beside):
            judged = verdicts.judge(rf.compiled(), gate, None, tau, Path("gate.json"))
            assert {t: s.at(tau) for t, s in steps.items()} == {t: j.verdict for t, j in judged.items()}, (gate, tau)
            compared += 1
    assert compared > 5000


def test_steps_of_what_was_never_judged_have_the_judges_reason():
    gate = rf.skipped(GateRecord, "hidden-gate", "compile: syntax_error")
    assert {s.at(1e-3) for s in rule.steps(found_with(gate, compiled=rf.compiled("syntax_error"))).values()} == {
        "syntax_error"
    }
    missing = rule.steps(found_with(None))["hidden"]
    assert (missing.needs, missing.above, missing.why_null) == (None, None, "no hidden-gate record")


def test_a_law_that_does_not_apply_decides_nothing():
    audit = rf.problem(KEY.problem_key, not_applicable=("d2_scale_3",))
    gate = rf.gate({"d1_original": 1e-6, "d2_scale_3": None, "d3_scale_0.01": 0.02, "d4_negate": 1e-4})
    steps = rule.steps(found_with(gate, audit))
    assert steps["hidden"] == rule.Step(0.02, "wrong_value", "pass", None)
    assert steps["standard"].needs == 1e-6


# --- data ---------------------------------------------------------------------------------------------------


def test_the_pages_candidates_are_the_tables_rows(tree, text):
    main = unpacked(text, "main-data")
    rows = [
        r
        for g in page_tree.GENERATORS
        for r in kernel_table.rows(kernel_table.read_parquet(tree / f"results/kernels/{g}.parquet"))
    ]
    assert main["size"] == len(rows) == 3 * 14 * 3
    columns = main["columns"]
    word = lambda name, i: None if columns[name]["at"][i] < 0 else columns[name]["words"][columns[name]["at"][i]]  # noqa: E731
    shown = {
        (
            word("generator", i),
            main["problems"][columns["problem"]["values"][i]]["problem"],
            columns["sample"]["values"][i],
        ): i
        for i in range(main["size"])
    }
    for row in rows:
        i = shown[row["generator"], row["problem"], row["sample"]]
        for test in verdicts.TESTS:
            needs = columns[f"needs_{test}"]["values"][i]
            side = "above" if needs is None or row["tau"] >= needs else "below"
            assert word(f"{side}_{test}", i) == row[f"verdict_{test}"]
        for name, column in {"speedup_matched": "speedup_matched", "memory": "memory_ratio_allocator_peak"}.items():
            value = columns[name]["values"][i]
            assert value == (None if row[column] is None else pytest.approx(row[column], rel=1e-4))
        claim = row["time_fp32_candidate_ms" if row["dtype"] == "bf16" else "time_tf32_candidate_ms"]
        assert columns["time_matched"]["values"][i] == (None if claim is None else pytest.approx(claim, rel=1e-4))


def test_a_problems_block_holds_its_candidates_in_the_order_of_its_rows(text):
    main = unpacked(text, "main-data")
    for at in (0, 5, 13):
        block = unpacked(text, f"block-{at}")
        assert [i for i, p in enumerate(main["columns"]["problem"]["values"]) if p == at] == block["rows"]
        for row, one in zip(block["rows"], block["candidates"]):
            generator = main["columns"]["generator"]["words"][main["columns"]["generator"]["at"][row]]
            assert one["source"]["text"].startswith((f"# {generator}/kb/{main['problems'][at]['problem']}/", '"""'))


def test_means_stand_with_their_intervals_and_nothing_else_is_a_mean(tree, text):
    theirs_all = json.loads((tree / "results/leaderboard.json").read_text())["entries"]
    shown = unpacked(text, "main-data")["board"]
    for ours, theirs in zip(shown["entries"], theirs_all, strict=True):
        for name in ("correctness", "correct_speedup"):
            e = theirs[name]
            expected = [None if e[k] is None else pytest.approx(e[k], rel=1e-5) for k in ("value", "low", "high")]
            assert ours[name] == [*expected, e["n"], e["why_null"]]
    assert shown["tau"] == {"fp32": 1e-3, "bf16": 1e-2}


def test_what_an_audit_leaves_is_on_the_page(tree):
    """As leaderboard.md has it; where nobody audited, there is no such thing."""
    plain = read(tree / "results/leaderboard.json", Leaderboard)
    assert board.of_leaderboard(plain)["audited"] is False and board.means(plain)["entries"][0]["audited"] is None
    share = Estimate(value=0.25, low=0.125, high=0.5, n=4, why_null=None)
    left = Audited(
        n_judged=6, n_excluded=3, n_excluded_by_person=1, n_solved=4, correctness=share, correct_speedup=share
    )
    audit = Audit(judges={}, exclude=(), n_verified=8, n_judged=6, n_excluded=3, labels={}, bases={})
    entries = (plain.entries[0].model_copy(update={"audited": left}),)
    shown = board.of_leaderboard(plain.model_copy(update={"audit": audit, "entries": entries}))
    estimate = [0.25, 0.125, 0.5, 4, None]
    assert shown["audited"] is True and shown["entries"][0]["audited"] == {
        "correct_speedup": estimate, "correctness": estimate, "left_out": "3 of 6 (1 by a person)",
    }  # fmt: skip


@pytest.mark.parametrize("at", range(len(page_tree.TAUS)))
def test_means_at_another_tau_are_those_of_a_run_aggregated_with_it(tree, text, at):
    tau, means = unpacked(text, "sweep-data")[at]
    assert tau == page_tree.TAUS[at]
    made = page_tree.board_at(tree, tau)
    for ours, theirs in zip(means["entries"], made.entries, strict=True):
        assert (ours["generator"], ours["arm"], ours["test"]) == (theirs.generator, theirs.arm, theirs.test)
        for name in ("correctness", "correct_speedup"):
            e = getattr(theirs, name)
            expected = [None if v is None else pytest.approx(v, rel=1e-5) for v in (e.value, e.low, e.high)]
            assert ours[name] == [*expected, e.n, e.why_null]
    counts = [e["n_solved"] for e in means["entries"]]
    own = [e["n_solved"] for e in unpacked(text, "main-data")["board"]["entries"]]
    assert counts != own


def test_the_taus_with_means_are_positions_of_the_slider():
    stops = {float(f"{10 ** (step / 20):.3g}") for step in range(-140, 1)}  # as assets/controls.js has them
    assert set(sweep.TAUS) <= stops and protocol.TAU["fp32"] in sweep.TAUS and protocol.TAU["bf16"] in sweep.TAUS


def test_memory_is_the_devices_where_no_allocator_was_asked():
    cpu = {"memory_ratio_allocator_peak": None, "memory_ratio_device_peak": 1.5}
    gpu = {"memory_ratio_allocator_peak": 2.0, "memory_ratio_device_peak": 1.5}
    assert candidates.memory_field([cpu, cpu]) == "device_peak"
    assert candidates.memory_field([cpu, gpu]) == "allocator_peak"
    assert candidates.memory_field([]) == "allocator_peak"


def test_a_problem_that_other_inputs_pass_is_told_by_its_weakest_law():
    key = ProblemKey("kb", "level1_1")
    tolerances = dict(zip(LAWS, (1e-5, 0.3, 1e-7, 9.0)))
    laws = tuple(
        DistributionAudit(distribution=n, applicable=n != LAWS[3], replay_tolerance=t) for n, t in tolerances.items()
    )
    shown = candidates.problem_columns([key], {key: rf.problem(key, distributions=laws)})
    assert shown[0]["replay"] == 0.3
    assert candidates.problem_columns([key], {key: None})[0]["why_inactive"].startswith("not audited")


def test_a_source_that_was_edited_since_is_not_shown(tmp_path):
    path = tmp_path / "0.py"
    path.write_bytes(b"a = '\xff'\n")
    sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
    assert details.source_text(path, sha256) == {"text": "a = '\ufffd'\n", "cut": 0, "bytes": 8}
    assert "edited since" in details.source_text(path, "0" * 64)["why_none"]
    assert "not there" in details.source_text(tmp_path / "1.py", sha256)["why_none"]
    path.write_text("x" * (details.SOURCE_LIMIT + 7))
    cut = details.source_text(path, None)
    assert (len(cut["text"]), cut["cut"]) == (details.SOURCE_LIMIT, 7)


def test_a_long_log_keeps_its_end():
    assert details.tail("short") == "short"
    long = "a" * details.TEXT_LIMIT + "the error"
    assert details.tail(long).endswith("the error")
    assert details.tail(long).startswith("[9 characters before]")


# --- histograms ---------------------------------------------------------------------------------------------


def rounds(baseline, candidate, **more):
    return Round(first="baseline", baseline_ms=tuple(baseline), candidate_ms=tuple(candidate), **more)


def test_a_histogram_counts_every_repetition_of_the_rounds_that_count():
    rng = random.Random(3)
    sides = [[math.exp(rng.gauss(m, 0.05)) for _ in range(200)] for m in (0, 0.3)]
    dropped = rounds([50.0] * 5, [50.0] * 5, dropped=True)
    shown = histogram.of_rounds((rounds(*sides), dropped))
    low, high = shown["edges_ms"]
    assert shown["rounds"] == 1
    for name, times in zip(("baseline", "candidate"), sides):
        side = shown[name]
        assert sum(side["counts"]) == side["n"] == 200
        assert side["quartiles_ms"] == [pytest.approx(q, rel=1e-4) for q in quartiles(times)]
        step = math.log(high / low) / histogram.BINS
        middle = sum(1 for t in times if low * math.exp(10 * step) <= t < low * math.exp(20 * step))
        assert abs(sum(side["counts"][10:20]) - middle) <= 2  # the edges are shown with five digits


def quartiles(times):
    ordered = sorted(times)
    at = lambda q: q * (len(ordered) - 1)  # noqa: E731
    return [
        ordered[int(at(q))] + (at(q) % 1) * (ordered[min(int(at(q)) + 1, len(ordered) - 1)] - ordered[int(at(q))])
        for q in (0, 0.25, 0.5, 0.75, 1)
    ]


def test_a_launch_that_met_another_process_does_not_squeeze_the_rest():
    times = [1.0 + 0.001 * i for i in range(50)]
    shown = histogram.of_rounds((rounds([*times, 500.0], times),))
    assert shown["edges_ms"][1] < 2
    assert (shown["baseline"]["outside"], shown["candidate"]["outside"]) == (1, 0)
    assert sum(shown["baseline"]["counts"]) == 51


def test_no_repetition_is_no_histogram_and_equal_ones_are():
    assert histogram.of_rounds(()) is None
    assert histogram.of_rounds((rounds([1.0], [1.0], dropped=True),)) is None
    shown = histogram.of_rounds((rounds([1.0] * 3, [1.0] * 3),))
    assert shown["edges_ms"][0] < 1 < shown["edges_ms"][1]
    assert sum(shown["candidate"]["counts"]) == 3


# --- the text -----------------------------------------------------------------------------------------------


def test_rounding_keeps_every_number_one_that_json_has():
    assert packing.rounded(sys.float_info.max, 5) == sys.float_info.max  # "1.7977e+308" is infinite
    assert packing.rounded(0.123456789, 3) == 0.123
    assert packing.rounded(-5e-324, 5) == -5e-324
    assert [packing.rounded(v, 5) for v in (None, math.nan, math.inf, 0.0)] == [None, None, None, 0]
    assert packing.rounded(123456.0, 3) == 123000


def test_packed_data_has_no_character_of_markup():
    packed = packing.pack({"a": page_tree.HOSTILE, "b": ["\ud800", None, 1e-300]})
    assert re.fullmatch(r"[A-Za-z0-9+/=]+", packed)
    assert json.loads(gzip.decompress(base64.b64decode(packed)))["a"] == page_tree.HOSTILE
    with pytest.raises(ValueError):
        packing.pack([math.nan])


def test_nothing_hostile_and_no_address_stands_in_the_page(text):
    assert "pwned" not in text
    assert "@@" not in text.replace("@@data@@", "") or not re.search(r"@@\w+@@", text)
    own = re.sub(r"\* https://github.com/leeoniya/uPlot[^\n]*", "", text)
    assert not re.findall(r"""(?:src|href|action)\s*=\s*["']?(?!#)[^"' >]+""", own.split("<script>")[0])
    assert not re.search(r"@import|url\(", text.split("</style>")[0])


def test_the_policy_names_the_digests_of_what_the_page_runs(text):
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)[1]
    scripts = re.findall(r"<script>(.*?)</script>", text, re.S)
    style = re.search(r"<style>(.*?)</style>", text, re.S)[1]
    digest = lambda part: "'sha256-" + base64.b64encode(hashlib.sha256(part.encode()).digest()).decode() + "'"  # noqa: E731
    assert len(scripts) == 2
    assert f"script-src {digest(scripts[0])} {digest(scripts[1])};" in policy
    assert f"style-src {digest(style)};" in policy
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy and "require-trusted-types-for 'script'" in policy


def test_the_same_records_give_the_same_page(tree, text):
    assert page_tree.write_page(tree).read_text(encoding="utf-8") == text


FORBIDDEN = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|createContextualFragment|srcdoc|DOMParser|setHTML"
    r"|\beval\b|new Function"
)


def test_no_module_of_ours_turns_text_into_markup():
    modules = sorted(html.ASSETS.glob("*.js"))
    assert len(modules) > 15
    for path in modules:
        assert not FORBIDDEN.search(path.read_text()), path
    assert FORBIDDEN.search("node.innerHTML = text")


def test_an_asset_that_would_end_its_element_is_refused():
    with pytest.raises(ValueError, match="would end the element"):
        html._inline("script", 'const a = "</script>";')


# --- bundling and vendoring ---------------------------------------------------------------------------------


def test_a_bundle_has_every_module_once_and_before_whoever_imports_it(tmp_path):
    (tmp_path / "a.js").write_text('import { two } from "./b.js";\nimport { one } from "./c-d.js";\nrun(one, two);\n')
    (tmp_path / "b.js").write_text('import { one } from "./c-d.js";\nexport const two = one + 1;\n')
    (tmp_path / "c-d.js").write_text("export const one = 1;\nexport function f() {}\n")
    script = bundle.bundle(tmp_path, "a")
    order = [script.index(f"const module_{name} =") for name in ("c_d", "b", "a")]
    assert order == sorted(order) and script.count("const one = 1;") == 1
    assert "return { one, f };" in script and "const { two } = module_b;" in script
    assert "import" not in script and "export" not in script


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('import { a } from "./a.js";\n', "imports itself"),
        ('import x from "./b.js";\n', "in no form"),
        ("export default 1;\n", "in no form"),
        ('import { a } from "./gone.js";\n', "no such module, imported by a"),
    ],
)
def test_what_the_bundler_does_not_know_is_an_error(tmp_path, text, message):
    (tmp_path / "a.js").write_text(text)
    with pytest.raises(bundle.BundleError, match=message):
        bundle.bundle(tmp_path, "a")


def registry(folder, script: bytes) -> str:
    """A registry of one package of one file; its address."""
    place = folder / "registry" / "plot" / "-" / "plot-1.0.tgz"
    place.parent.mkdir(parents=True)
    with tarfile.open(place, "w:gz") as tar:
        member = tarfile.TarInfo("package/dist/plot.js")
        member.size = len(script)
        tar.addfile(member, io.BytesIO(script))
    digest = base64.b64encode(hashlib.sha512(place.read_bytes()).digest()).decode()
    files = {"plot.js": {"path": "dist/plot.js", "sha256": hashlib.sha256(b"var plot = 1;").hexdigest()}}
    manifest = {"package": "plot", "version": "1.0", "integrity": f"sha512-{digest}", "files": files}
    (folder / vendor.MANIFEST).write_text(json.dumps(manifest))
    return (folder / "registry").as_uri()


def test_what_the_registry_has_is_fetched_and_nothing_else_is_used(tmp_path):
    address = registry(tmp_path, b"var plot = 1;")
    assert not vendor.at_hand(tmp_path)
    vendor.fetch(tmp_path, address)
    assert vendor.at_hand(tmp_path) and vendor.verified("plot.js", tmp_path) == "var plot = 1;"
    (tmp_path / "plot.js").write_text("var plot = 2;")
    with pytest.raises(vendor.VendorError, match="delete it and run"):
        vendor.verified("plot.js", tmp_path)
    with pytest.raises(vendor.VendorError, match="files has no"):
        vendor.verified("other.js", tmp_path)


def test_another_archive_and_another_file_are_refused(tmp_path):
    address = registry(tmp_path, b"var plot = 3;")
    with pytest.raises(vendor.VendorError, match=r"plot\.js: sha256"):
        vendor.fetch(tmp_path, address)
    manifest = json.loads((tmp_path / vendor.MANIFEST).read_text())
    (tmp_path / vendor.MANIFEST).write_text(json.dumps({**manifest, "integrity": "sha512-AA=="}))
    with pytest.raises(vendor.VendorError, match=r"vendor\.json has sha512-AA=="):
        vendor.fetch(tmp_path, address)
    assert not vendor.at_hand(tmp_path)


def test_a_page_without_charts_is_a_page_and_says_so(monkeypatch):
    monkeypatch.setattr(vendor, "at_hand", lambda: False)
    made = html.document("AA", "AA", [])
    assert "made without uPlot" in made and "leeoniya" not in made


def test_where_the_hardened_test_decides_nothing_no_trial_is_beyond_its_limit():
    """A problem that is undecidable, or that no law applies to: the limits are applied to nobody."""
    off = OracleErrors(kind="fp64", scaled_error=0.1, reference_scaled_error=1e-6)
    gate = rf.gate()
    gate = gate.model_copy(update={"trials": tuple(t.model_copy(update={"oracle": off}) for t in gate.trials)})
    unfit = gate.model_copy(
        update={"hardened": tuple(t.model_copy(update={"applicable": False}) for t in gate.hardened)}
    )
    exact = OracleErrors(kind="fp64", scaled_error=0.0, reference_scaled_error=0.0)
    audit = rf.problem(KEY.problem_key)
    replayed = tuple(law.model_copy(update={"replay": exact}) for law in audit.hardened)
    undecidable = audit.model_copy(update={"hardened": replayed})
    for record, problem, right in ((gate, audit, False), (unfit, audit, None), (gate, undecidable, None)):
        found = CandidateRecords(Path("."), KEY, None, problem, {"hidden-gate": record})
        assert details._trials(found)[0]["right_by_oracle"] is right
