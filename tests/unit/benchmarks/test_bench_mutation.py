"""Mutation: what counts as a token, what operators do to small sources, which are held out, shares and refusals."""

import ast
import json
import tarfile
from types import SimpleNamespace

import pytest

from benchmarks.mutation import mutants, operators, parents, running, score, screening
from benchmarks.mutation.cpp_tokens import Cpp
from benchmarks.mutation.score import Line
from kbverified.hardened.verdict import judge
from kbverified.records.problem import ProblemRecord
from kbverified.records.stages import GateRecord

KERNEL = """
#include <cmath>
// for (int i = 0; i < n; ++i) in a comment
torch::Tensor f(torch::Tensor x, double eps) {
    TORCH_CHECK(x.size(0) < 7 && x.dim() == 2, "x[0] + y[1] in a string");
    const int64_t rows = x.size(0), columns = x.size(1);
    const float* from = x.data_ptr<float>() + rows * columns;
    float sum = 0.0f;
    for (int64_t i = 0; i < columns; ++i) {
        sum += from[i] - 2.0f;
    }
    if (sum < 3.0f) {
        sum = 1.0f / (sum + eps);
    }
    return x;
}
"""
TRITON = """
import triton
import triton.language as tl

@triton.jit
def kernel(p, q, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)  # é: columns of the tree count bytes
    at = row * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(p + at, mask=at < n, other=0.0)
    s = tl.sum(x, axis=0)
    tl.store(q + at, x / s, mask=at < n)

def launch(p, q, n):
    kernel[(triton.cdiv(n, 64),)](p, q, n, BLOCK=64)
"""


def after(name: str, source: str = KERNEL, language: str = "c++") -> list[str]:
    """Lines that an operator changes, stripped, as they are afterwards."""
    found = []
    for site in operators.all_operators()[name].sites(language, source):
        old, new = source.splitlines(), site.apply(source).splitlines()
        found.append(" | ".join(b.strip() for a, b in zip(old, new) if a != b))
    return found


def test_tokens_are_where_they_say_and_leave_out_comments_directives_and_strings():
    cpp = Cpp(KERNEL)
    assert all(KERNEL[t.start : t.end] == t.text for t in cpp.tokens)
    words = [t.text for t in cpp.tokens]
    assert "comment" not in words and "include" not in words
    assert '"x[0] + y[1] in a string"' in words


def test_no_operator_touches_comments_strings_or_checks_of_arguments():
    kept = [line for line in KERNEL.splitlines() if "TORCH_CHECK" in line or line.startswith(("//", "#"))]
    total = 0
    for op in operators.all_operators().values():
        for site in op.sites("c++", KERNEL):
            total += 1
            assert all(line in site.apply(KERNEL).splitlines() for line in kept), op.name
    assert total > 25


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("index-plus-one", ["sum += from[i + 1] - 2.0f;"]),
        ("index-zero", ["sum += from[0] - 2.0f;"]),
        ("stride-dropped", ["const float* from = x.data_ptr<float>() + rows ;"]),
        ("loop-end-early", ["for (int64_t i = 0; i < (columns) - 1; ++i) {"]),
        ("loop-end-late", ["for (int64_t i = 0; i <= columns; ++i) {"]),
        ("loop-start-late", ["for (int64_t i = 0 + 1; i < columns; ++i) {"]),
        ("step-deleted", [";"]),
        ("accumulation-overwritten", ["sum = from[i] - 2.0f;"]),
        ("operands-swapped", ["sum += 2.0f - from[i];", "sum = (sum + eps) / 1.0f;"]),
        ("comparison-flipped", ["if (sum > 3.0f) {"]),
        ("epsilon-zero", ["sum = 1.0f / (sum + (0 * eps));"]),
        ("condition-always", ["if (true) {"]),
        ("start-missing", ["float sum ;"]),
        ("start-one", ["float sum = 1.0f;"]),
        ("tail-loop-deleted", []),
        ("sync-deleted", []),
    ],
)
def test_a_cpp_operator_changes_what_it_says(name, lines):
    assert after(name) == lines


def test_a_loop_that_goes_on_where_another_stopped_is_a_tail():
    source = "void f() { int i = 0; for (; i + 8 <= n; i += 8) { g(i); } for (; i < n; ++i) { g(i); } }"
    (changed,) = after("tail-loop-deleted", source)
    assert changed == "void f() { int i = 0; for (; i + 8 <= n; i += 8) { g(i); } ; }"


def test_whole_blocks_lost_syncs_and_atomics():
    source = "void f() { int b = (n + t - 1) / t; __syncthreads(); atomicAdd(&y[i], a * b); }"
    assert after("blocks-rounded-down", source) == [source.replace("(n + t - 1)", "(n)")]
    assert after("sync-deleted", source) == [source.replace("__syncthreads()", "")]
    assert after("atomic-lost", source) == [source.replace("atomicAdd(&y[i], a * b)", "*(&y[i]) += a * b")]


def test_a_leaving_condition_is_never_met_and_a_declared_array_keeps_its_size():
    source = "void f() { float a[8]; if (y < 0 || y >= h) { continue; } }"
    assert after("condition-always", source) == [source.replace("y < 0 || y >= h", "false")]
    assert after("index-plus-one", source) == []
    assert after("index-plus-one", "void f() { __shared__ float t[32][33]; }") == []


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("index-plus-one", ["x = tl.load((p + at) + 1,", "tl.store((q + at) + 1,"]),
        ("stride-dropped", ["at = row + tl.arange(0, BLOCK)"]),
        ("bound-short", ["x = tl.load(p + at, mask=at < (n - 1), other=0.0)", "mask=at < (n - 1))"]),
        ("operands-swapped", ["((s) / (x))"]),
        ("other-wrong", ["other=1.0)"]),
        ("reduced-axis", ["s = tl.sum(x, axis=1)"]),
        ("thread-axis", ["row = tl.program_id(1)"]),
        ("blocks-rounded-down", ["kernel[(((n - 1) // 64),)](p, q, n, BLOCK=64)"]),
        ("store-bfloat16", ["(x / s).to(tl.bfloat16).to(tl.float32)"]),
    ],
)
def test_a_triton_operator_changes_what_it_says(name, lines):
    changed = after(name, TRITON, "triton")
    assert len(changed) == len(lines)
    assert all(part in line for part, line in zip(lines, changed))


def test_every_fault_has_operators_and_three_tenths_of_the_names_are_held_out_by_their_hash():
    every = operators.all_operators()
    assert {op.fault for op in every.values()} == set(operators.FAULTS)
    held = operators.held_out()
    assert 0.3 * len(every) <= len(held) < 0.3 * len(every) + 1
    assert all(op.finders for op in every.values())


def test_every_mutant_of_every_parent_of_ours_is_python_and_has_an_id_of_its_own():
    ids = set()
    for parent in (*parents.on_cpu(), *parents.on_gpu()):
        source = parent.path.read_text()
        found = mutants.of_parent(parent.name, parent.problem.stem, parent.device, source)
        assert len(found) >= 13 and parent.problem.is_file()
        for mutant in found:
            made = mutant.source(source)
            ast.parse(made)
            assert made != source
        ids.update(m.id for m in found)
        assert found == mutants.of_parent(parent.name, parent.problem.stem, parent.device, source)
    assert len(ids) > 700 and len(parents.on_cpu()) >= 7


def test_a_cpp_literal_is_written_back_whatever_is_in_it():
    inner = 'torch::Tensor f() { auto s = "a\\n"; return x[1]; }'
    for literal in (repr(inner), f'r"""{inner}"""'):
        source = f"SOURCE = {literal}\nrest = 1\n"
        (piece,) = mutants.pieces(source)
        assert piece.text == inner
        changed = mutants.of_parent("p", "q", "cpu", source)[0].source(source)
        namespace = {}
        exec(changed, namespace)
        assert namespace["SOURCE"] != inner and namespace["rest"] == 1
        assert 'auto s = "a\\n";' in namespace["SOURCE"]


def test_a_choice_repeats_and_gives_every_operator_its_turn(tmp_path):
    source = f'S = r"""{KERNEL}"""\n'
    every = mutants.of_parent("p", "q", "cpu", source)
    names = {m.operator for m in every}
    chosen = mutants.choose(every, len(names))
    assert {m.operator for m in chosen} == names and len(chosen) == len(names)
    assert mutants.choose(reversed(every), 9) == mutants.choose(reversed(every), 9)
    assert mutants.choose(every, 9) != mutants.choose(every, 9, seed=1)
    mutants.write(tmp_path / "m.jsonl", chosen)
    assert mutants.read(tmp_path / "m.jsonl") == chosen
    with pytest.raises(ValueError, match="sha256 differs"):
        chosen[0].source(source + "#")


# --- the score ----------------------------------------------------------------------------------------------
def test_parents_take_turns_in_the_first_so_many_and_a_longer_list_begins_with_the_shorter():
    of = {name: [f"{name}{i}" for i in range(count)] for name, count in (("a", 5), ("b", 1), ("c", 3))}
    assert mutants.in_turns(of.values(), 5) == [["a0", "a1"], ["b0"], ["c0", "c1"]]
    assert mutants.in_turns(of.values(), 100) == list(of.values())
    for count in range(9):
        shorter, longer = mutants.in_turns(of.values(), count), mutants.in_turns(of.values(), count + 1)
        assert all(b[: len(a)] == a for a, b in zip(shorter, longer, strict=True))
        assert sum(map(len, longer)) == count + 1


def line(id: str, hidden: str | None, **more) -> Line:
    known = {"fault": "off by one", "operator": "loop-end-late", "held_out": False, "screened": "kept", "why": ""}
    known.update({"standard": "pass", "parent": "p", "language": "c++", "change": "a  ->  b"}, **more)
    return Line(id=id, hidden=hidden, **known)


def test_wilsons_interval():
    low, high = score.wilson(98, 100)
    assert (round(low, 4), round(high, 4)) == (0.9300, 0.9945)  # R: binom::binom.confint(98, 100, methods="wilson")
    assert score.wilson(0, 0) == (0.0, 1.0)
    assert score.wilson(5, 5)[1] == 1.0
    with pytest.raises(ValueError):
        score.wilson(3, 2)


def test_what_counts_as_killed():
    lines = [
        line("a", "pass"),
        line("b", "wrong_value", hardened="pass"),
        line("c", "crash", hardened="undecidable"),
        line("d", None, screened="equivalent"),
        line("e", None, screened="does not build"),
        line("honest", "pass", fault=None, operator=None, screened="honest"),
    ]
    assert score.share(lines, "hidden") == score.Share(2, 3)
    assert score.share(lines, "hardened") == score.Share(0, 1)
    assert [x.id for x in score.survivors(lines, "hidden")] == ["a"]
    assert score.failed_parents(lines) == []
    said = score.text(lines, "t")
    assert "2/3 = 66.7 %" in said and "16.9 %" in said and "98.0 %" in said
    assert "## Survivors of hidden: 1" in said and "25.0 % of what builds" in said


@pytest.mark.parametrize("verdicts", [{"hidden": "wrong_value"}, {"hidden": None}, {"hidden": "pass", "hardened": "x"}])
def test_an_honest_kernel_that_does_not_pass_is_said_loudly(verdicts):
    hidden = verdicts.pop("hidden")
    lines = [line("honest", hidden, fault=None, operator=None, screened="honest", **verdicts)]
    assert score.failed_parents(lines) == lines
    assert "HONEST KERNELS THAT FAIL" in score.text(lines, "t")


# --- the screening ------------------------------------------------------------------------------------------
def test_at_most_a_tenth_is_left_out():
    lines = {f"{n:02}": {"id": f"{n:02}", "outcome": "equal", "reason": "equal"} for n in range(20)}
    lines["x"] = {"id": "x", "outcome": "does not build", "reason": ""}
    screening._exclude(lines)
    assert [n for n, x in lines.items() if x["outcome"] == "equivalent"] == ["00", "01"]
    assert sum(x["outcome"] == "kept" for x in lines.values()) == 18
    assert "a tenth" in lines["02"]["reason"] and lines["x"]["outcome"] == "does not build"


def test_a_longer_list_asks_for_new_mutants_only_and_a_parent_that_does_not_run_excludes_none(tmp_path, monkeypatch):
    monkeypatch.setattr(screening, "_guard", lambda folder: None)
    monkeypatch.setattr(running, "compiled", lambda work, kernel: SimpleNamespace(verdict="pass", build_directory="b"))
    asked: list[list[str]] = []
    code = 0

    def worker(command, input, **more):
        names = [kernel["id"] for kernel in json.loads(input)["mutants"]]
        asked.append(names)
        said = "".join(json.dumps({"id": n, "outcome": "equal", "reason": "bitwise"}) + "\n" for n in names)
        return SimpleNamespace(returncode=code, stdout="" if code else said, stderr="no such law")

    monkeypatch.setattr(screening.subprocess, "run", worker)
    parent = parents.Parent("p/1", tmp_path / "p.py", tmp_path / "q.py", "cpu")
    honest, *faulty = [running.Kernel(n, parent, m) for n, m in (("p-1", None), ("x", "m"), ("y", "m"), ("z", "m"))]
    work = running.Work(tmp_path)
    assert not screening.screen(work, [honest, *faulty[:2]], "cpu", 1, until_s=0.0) and not work.screened.exists()
    assert screening.screen(work, [honest, *faulty[:2]], "cpu", 1) and asked == [["x", "y"]]
    code = screening.PARENT_DOES_NOT_RUN
    assert screening.screen(work, [honest, *faulty], "cpu", 1) and asked[1:] == [["z"]]
    lines = screening.read(work)
    assert lines["z"] == {"id": "z", "outcome": "kept", "reason": "not screened: no such law"}
    assert [lines[n]["outcome"] for n in "xy"] == ["kept", "kept"]  # a tenth of three is none


def test_what_an_archive_lacks_is_built_again_for_whom_the_screening_or_the_gate_still_runs(tmp_path, monkeypatch):
    work = running.Work(tmp_path)
    for name in ("p.py", "q.py"):
        (tmp_path / name).write_text("# a source\n")
    sha256 = parents.file_sha256(tmp_path / "p.py")
    parent, other = (parents.Parent(n, tmp_path / "p.py", tmp_path / "q.py", "cuda") for n in ("p", "o"))
    kernels = [running.honest(work, one) for one in (parent, other)]
    for name in ("unseen", "gated", "waiting", "left-out", "equal-kept", "unbuilt", "triton"):
        kernels.append(running._with_source(work, running.Kernel(name, parent, "m"), "# a source\n"))
    outcomes = {"unbuilt": "does not build", "left-out": "equal", "equal-kept": "equal"}
    seen = [{"id": k.name, "outcome": outcomes.get(k.name, "differs")} for k in kernels[3:]]
    work.seen.write_text("".join(json.dumps(line) + "\n" for line in seen))
    listed = [{"id": "equal-kept", "outcome": "kept"}, {"id": "left-out", "outcome": "equivalent"}]
    work.screened.write_text("".join(json.dumps(line) + "\n" for line in listed))
    gated = {"p", "o", "gated"}
    monkeypatch.setattr(running, "is_gated", lambda work, kernel, digest: kernel.name in gated)
    made = SimpleNamespace(candidate_sha256=sha256, problem_sha256=sha256)

    def record(work, kernel):
        builds = () if kernel.name == "triton" else ("one",)
        verdict = "compile_error" if kernel.name == "unbuilt" else "pass"
        return SimpleNamespace(provenance=made, verdict=verdict, builds=builds, build_directory=str(tmp_path / "gone"))

    monkeypatch.setattr(running, "compiled", record)
    asked: list[str] = []
    stages = running.Stages(work, "cpu", None, 1)
    monkeypatch.setattr(stages, "_audit", lambda problem: None)
    monkeypatch.setattr(stages, "_call", lambda stage, name, words, out: asked.append(name) or 0)
    stages.compile(kernels)
    assert asked == []
    # The parent for the mutant that is compared with it; the other one has all its mutants behind it.
    stages.compile(kernels, builds=screening.wants_build(work, kernels))
    assert asked == ["p", "equal-kept", "unseen", "waiting"]
    (tmp_path / "gone").mkdir()
    stages.compile(kernels, builds=screening.wants_build(work, kernels))
    assert len(asked) == 4
    made.problem_sha256 = "of another variant"
    stages.compile(kernels)
    assert sorted(asked[4:]) == sorted(kernel.name for kernel in kernels)


def test_a_gate_record_counts_for_the_source_the_problem_and_the_gate_that_it_is_of(tmp_path, monkeypatch):
    work = running.Work(tmp_path / "work")
    path, problem = tmp_path / "p.py", tmp_path / "q.py"
    for file in (path, problem):
        file.write_text("# as it is\n")
    kernel = running.honest(work, parents.Parent("p", path, problem, "cuda"))
    monkeypatch.setattr(running, "gated", lambda work, kernel: "a record")
    assert not running.is_gated(work, kernel, "gate")
    running._mark(work, kernel).parent.mkdir()
    running._mark(work, kernel).write_text(running._marked(work, kernel, "gate"))
    assert running.is_gated(work, kernel, "gate") and not running.is_gated(work, kernel, "another gate")
    problem.write_text("# in other sizes\n")
    assert not running.is_gated(work, kernel, "gate")


def test_the_gate_does_not_run_before_the_screening(tmp_path):
    work = running.Work(tmp_path)
    source = f'S = r"""{KERNEL}"""\n'
    one, two = mutants.of_parent("p", "q", "cpu", source)[:2]
    parent = parents.Parent("p", tmp_path / "p.py", tmp_path / "q.py", "cpu")
    kernels = [running.Kernel("p", parent, None), *(running.Kernel(m.id, parent, m) for m in (one, two))]
    with pytest.raises(ValueError, match=r"screened\.jsonl is not there"):
        screening.require(work, kernels)
    work.screened.write_text(json.dumps({"id": one.id, "outcome": "equivalent", "reason": ""}) + "\n")
    with pytest.raises(ValueError, match="1 mutants are not in it"):
        screening.require(work, kernels)
    with work.screened.open("a") as file:
        file.write(json.dumps({"id": two.id, "outcome": "kept", "reason": ""}) + "\n")
    assert [k.name for k in screening.require(work, kernels)] == ["p", two.id]


def test_the_public_parents_are_in_the_order_of_their_rule():
    """What of it can be told without the sources; the rest was checked once (parents.py)."""
    listed = parents.listing.read_list(parents.PUBLIC)
    known = {one.sha256: one for one in parents.listing.read_list(parents.PROJECT / "docs/runs/candidates.jsonl")}
    assert len(listed) == parents.PUBLIC_PARENTS and {one.sha256 for one in listed} <= known.keys()
    assert len({one.problem for one in listed}) == len(listed)
    assert not parents.PASSED_OVER.keys() & {one.sha256 for one in listed}
    # Who is passed over keeps the turn, so that the turns of the others are what they would be.
    taken = [*listed, *(known[sha256] for sha256 in parents.PASSED_OVER)]
    mine = {name: sorted(one.sha256 for one in taken if one.generator == name) for name in {x.generator for x in taken}}
    order = sorted(taken, key=lambda one: (mine[one.generator].index(one.sha256), one.generator))
    assert [one for one in order if one.sha256 not in parents.PASSED_OVER] == listed


def test_the_public_parents_are_right_by_the_hardened_test_wherever_it_was_run_and_who_is_passed_over_is_not():
    listed = parents.listing.read_list(parents.PUBLIC)
    known = {one.sha256: one for one in parents.listing.read_list(parents.PROJECT / "docs/runs/candidates.jsonl")}
    asked = {one.tail: one.sha256 for one in [*listed, *(known[sha256] for sha256 in parents.PASSED_OVER)]}
    said: dict[str, list[str]] = {sha256: [] for sha256 in asked.values()}
    for archive in sorted((parents.PROJECT / "docs/runs").glob("2026-11-30-h200x2-[g-l].tar.xz")):
        with tarfile.open(archive) as tar:
            held = {m.name: m for m in tar.getmembers() if m.isfile() and m.name.startswith("results/")}
            for tail, sha256 in asked.items():
                record = held.get(f"results/hidden-gate/{tail}.json")
                audit = held.get(f"results/problems/{tail.split('/', 1)[1].rpartition('/')[0]}.json")
                if record is None or audit is None:
                    continue
                gate = GateRecord.model_validate_json(tar.extractfile(record).read())
                assert gate.provenance.candidate_sha256 == sha256 and gate.verdict == "pass"
                if gate.hardened:
                    problem = ProblemRecord.model_validate_json(tar.extractfile(audit).read())
                    said[sha256].append(judge(gate, problem).verdict)
    for sha256, verdicts in said.items():
        assert set(verdicts) == ({"wrong_value"} if sha256 in parents.PASSED_OVER else {"pass"}), known[sha256].tail
