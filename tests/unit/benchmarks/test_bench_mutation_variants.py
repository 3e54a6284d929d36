"""Mutation: which numbers of a problem are sizes, what becomes of them, and who is tried at which."""

import ast
import json
from types import SimpleNamespace

import pytest

from benchmarks.mutation import __main__ as command
from benchmarks.mutation import fake_worker, launches, odd_sizes, parents, report, running, variants
from kbverified.records.files import write_text

PROBLEM = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self, width, heads, kernel_size, shape):
        super().__init__()
        assert width % heads == 0
        self.heads = heads
        self.bias = nn.Parameter(torch.randn(shape))

    def forward(self, x):
        return x + self.bias

batch_size = 1024  # é: columns of the tree count bytes
rows, columns = 8192, 8192
height = width = 256
shape = (256 * 3, 1)
kernel_size = 64
n_heads = 32
num_classes = 1000
odd, small, part = 4095, 16, 0.5
settings = {}
settings["n"] = 64

def get_inputs():
    scale = torch.rand(())
    return [torch.rand(batch_size, shape[0], width) * scale]

def get_init_inputs():
    return [width, n_heads, kernel_size, shape]
"""


def test_sizes_are_even_whole_numbers_at_the_modules_level_that_are_no_structure():
    found = odd_sizes.sizes(PROBLEM)
    assert [(s.name, s.value) for s in found] == [
        ("batch_size", 1024),
        ("rows", 8192),
        ("columns", 8192),
        ("height", 256),
        ("shape_0", 768),
    ]
    assert [PROBLEM[s.start : s.end] for s in found] == ["1024", "8192", "8192", "256", "256 * 3"]


def test_sizes_become_odd_numbers_that_differ_and_the_rest_of_the_source_stays():
    made = odd_sizes.odd(PROBLEM)
    changed = [b for a, b in zip(PROBLEM.splitlines(), made.splitlines(), strict=True) if a != b]
    assert changed == [
        "batch_size = 1021  # é: columns of the tree count bytes",
        "rows, columns = 8189, 8187",
        "height = width = 253",
        "shape = (765, 1)",
    ]
    ast.parse(made)
    assert odd_sizes.odd(made) == made and odd_sizes.odd(PROBLEM) == made
    # Beside a number that is there already it is another one.
    assert "n = 125" in odd_sizes.odd("n = 128\n") and "n = 123" in odd_sizes.odd("n = 128\nm = 125\n")


def test_variants_are_tried_from_the_widest_that_the_reference_accepts_to_the_problem_as_it_is():
    every = odd_sizes.candidates(PROBLEM)
    assert list(every) == [
        "all",
        "all-but-shape_0",
        "all-but-height",
        "all-but-columns",
        "all-but-rows",
        "all-but-batch_size",
        "batch",
        "none",
    ]
    assert every["none"] == PROBLEM and len(set(every.values())) == len(every)
    assert every["batch"] == PROBLEM.replace("1024", "1021")
    assert odd_sizes.wanted(PROBLEM, dict.fromkeys(every, True)) == ["all", "batch", "none"]
    accepted = {**dict.fromkeys(every, True), "all": False, "all-but-shape_0": False, "batch": False}
    assert odd_sizes.wanted(PROBLEM, accepted) == ["all-but-height", "none"]
    assert odd_sizes.wanted(PROBLEM, dict.fromkeys(every, False)) == ["none"]
    assert list(odd_sizes.candidates("n = 512\ndef get_inputs():\n    return [torch.rand(n, n)]\n")) == ["all", "none"]
    assert list(odd_sizes.candidates("n = 16\n")) == ["none"]


def test_of_the_bundled_gpu_parents_every_problem_has_a_variant_in_which_all_is_odd(tmp_path):
    for parent in parents.on_gpu():
        source = parent.problem.read_text()
        path = tmp_path / parent.problem.name
        path.write_text(odd_sizes.candidates(source)["all"])
        before, after = fake_worker.answer(parent.problem), fake_worker.answer(path)
        assert [len(s) for s in before["shapes"]] == [len(s) for s in after["shapes"]] and before != after


def test_a_reference_says_on_fake_tensors_whether_it_takes_a_size(tmp_path):
    path = tmp_path / "level1_1.py"
    path.write_text(PROBLEM)
    assert fake_worker.answer(path) == {"problem": str(path), "shapes": [[1024, 768, 256]]}
    path.write_text(PROBLEM.replace("height = width = 256", "height = width = 253"))
    assert fake_worker.answer(path) == {"problem": str(path), "error": "AssertionError: "}


# --- the step -----------------------------------------------------------------------------------------------
class Judges:
    """Stages that judge at once: what each kernel was told, by its name."""

    def __init__(self, monkeypatch):
        self.verdicts: dict[str, str | None] = {}
        self.asked: list[list[str]] = []
        self.faults: list[str] = []
        self.device, self.jobs, self.until_s = "cuda", 1, float("inf")
        self.left = 10**6
        self.once: set[str] = set()
        """Who leaves no record the first time."""
        monkeypatch.setattr(variants, "_verdict", lambda work, kernel, digest: self.done.get(kernel.name))
        monkeypatch.setattr(running, "that_built", lambda work, kernels: kernels)
        self.done: dict[str, str | None] = {}

    def compile(self, kernels, builds):
        self.asked.append([k.name for k in kernels if self.done.get(k.name) is None])

    def gate(self, kernels):
        for kernel in kernels:
            if kernel.name in self.once:
                self.once.remove(kernel.name)
            elif self.left > 0 and kernel.name not in self.done:
                self.done[kernel.name] = self.verdicts[kernel.name]
                self.left -= 1
        self.until_s = float("inf") if self.left > 0 else 0.0


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A work folder, parents of one problem each, their judges."""
    sources = {"wide": PROBLEM, "plain": PROBLEM.replace("width, n_heads", "width, 1"), "fixed": "n = 16\n" + PROBLEM}
    found = []
    for number, (name, text) in enumerate(sources.items(), 1):
        problem = tmp_path / f"problems/kernelbench/level1_{number}.py"
        write_text(problem, text)
        (tmp_path / f"{name}.py").write_text(f"# {name}\n")
        found.append(parents.Parent(name, tmp_path / f"{name}.py", problem, "cuda"))
    return running.Work(tmp_path / "work"), found, Judges(monkeypatch)


def test_the_first_variant_that_a_parent_passes_is_taken_and_stays(place):
    work, found, judges = place
    judges.verdicts = {
        "wide--all-but-height": "pass",
        "plain--all": "hidden crash",
        "plain--batch": "pass",
        "fixed--all-but-height": "compile: compile_error",
        "fixed--batch": "hardened wrong_value",
        "fixed--none": "hardened wrong_value",  # there is no other: the report says that an honest parent fails
    }
    assert variants.choose(work, judges, found)
    assert judges.asked == [
        ["wide--all-but-height", "plain--all", "fixed--all-but-height"],
        ["plain--batch", "fixed--batch"],
        ["fixed--none"],
    ]
    decided = variants.read(work)
    assert {name: line["variant"] for name, line in decided.items()} == {
        "wide": "all-but-height",
        "plain": "batch",
        "fixed": "none",
    }
    assert decided["plain"]["tried"] == {"all": "hidden crash", "batch": "pass"}

    chosen, missing = variants.apply(work, found)
    assert missing == [] and [p.kernel for p in chosen] == ["wide--all-but-height", "plain--batch", "fixed--none"]
    assert chosen[0].problem == work.root / "problems/kernelbench-all-but-height/level1_1.py"
    assert (
        "height = width = 256" in chosen[0].problem.read_text()
        and "rows, columns = 8189" in chosen[0].problem.read_text()
    )
    assert chosen[2].problem == found[2].problem
    assert len({work.audit(p.problem) for p in chosen}) == 3

    before = work.variants.read_bytes()
    assert variants.choose(work, judges, found) and work.variants.read_bytes() == before and len(judges.asked) == 3
    chosen[0].problem.write_text("# another\n")
    with pytest.raises(ValueError, match="sha256 differs"):
        variants.apply(work, found)


def test_what_there_was_no_time_for_is_decided_in_the_next_call_and_nothing_twice(place):
    work, found, judges = place
    judges.verdicts = {"wide--all-but-height": "pass", "plain--all": "x", "plain--batch": "pass"}
    judges.left = 1
    assert not variants.choose(work, judges, found[:2])
    assert list(variants.read(work)) == ["wide"]
    chosen, missing = variants.apply(work, found[:2])
    assert [p.name for p in chosen] == ["wide"] and missing == [
        "plain: no variant of its problem is decided on: run the step variants"
    ]
    judges.left, judges.until_s = 10, float("inf")
    assert variants.choose(work, judges, found[:2]) and judges.asked[1:] == [["plain--all"], ["plain--batch"]]
    assert variants.read(work)["plain"]["variant"] == "batch"


def test_a_fault_of_the_machine_is_no_verdict_and_asked_once_more(place):
    work, found, judges = place
    judges.verdicts = {"wide--all-but-height": None, "wide--batch": None, "wide--none": None}
    judges.verdicts |= {"plain--all": None, "plain--batch": "pass", "fixed--all-but-height": "pass"}
    judges.once = {"fixed--all-but-height"}
    assert variants.choose(work, judges, found)
    decided = variants.read(work)
    assert sorted(decided) == ["fixed", "plain"] and decided["fixed"]["tried"] == {"all-but-height": "pass"}
    assert decided["plain"]["tried"] == {"all": "no record: a fault of the machine", "batch": "pass"}
    assert [len(names) for names in judges.asked] == [3, 3, 2, 1, 1, 1]


def test_a_variant_whose_outputs_have_another_rank_is_not_wanted(place, monkeypatch):
    _, found, _ = place

    def shapes(paths):
        answers = {"all": None, "all-but-shape_0": [[5, 7]], "batch": [[1, 2, 3], [4]]}
        return {path: answers.get(path.parent.name.partition("-")[2], [[5, 7, 9]]) for path in paths}

    monkeypatch.setattr(variants, "_shapes", shapes)
    assert variants._wanted(found[:1]) == [(found[0], ["all-but-height", "none"])]


def test_a_folder_that_was_screened_without_variants_is_refused(place):
    work, found, judges = place
    write_text(work.seen, "{}\n")
    with pytest.raises(ValueError, match="was screened without variants of the problems"):
        variants.choose(work, judges, found)


def test_verdicts_of_a_variant_are_those_of_hidden_and_hardened(monkeypatch):
    record = SimpleNamespace(verdict="pass")
    monkeypatch.setattr(running, "compiled", lambda work, kernel: record)
    said = {"standard": "wrong_value", "hidden": "pass", "hardened": "pass"}
    judged = {name: SimpleNamespace(verdict=verdict) for name, verdict in said.items()}
    monkeypatch.setattr(running, "judged", lambda work, kernel: judged)
    monkeypatch.setattr(running, "is_gated", lambda work, kernel, digest: digest == "gate")
    assert variants._verdict(None, None, "another gate") is None
    assert variants._verdict(None, None, "gate") == "pass"
    judged["hardened"].verdict = None  # undecidable: such a problem tells nothing of a mutant
    assert variants._verdict(None, None, "gate") == "hardened None"
    judged["hidden"].verdict = "crash"
    assert variants._verdict(None, None, "gate") == "hidden crash, hardened None"
    record.verdict = "compile_error"
    assert variants._verdict(None, None, "gate") == "compile: compile_error"
    monkeypatch.setattr(running, "compiled", lambda work, kernel: None)
    assert variants._verdict(None, None, "gate") is None


# --- the command and the report -----------------------------------------------------------------------------
def test_on_a_gpu_sizes_and_reach_come_before_the_list_and_on_the_cpu_neither_does(tmp_path, monkeypatch):
    done: list[str] = []
    answers = {"variants": True, "reach": True}

    def asked(name):
        return lambda work, stages, found: (done.append(name), answers[name])[1]

    monkeypatch.setattr(variants, "choose", asked("variants"))
    monkeypatch.setattr(launches, "record", asked("reach"))
    monkeypatch.setattr(variants, "apply", lambda work, found: (found, []))
    monkeypatch.setattr(launches, "of", lambda work, found: {p.name: ["no kernel"] for p in found})
    monkeypatch.setattr(command, "_waves", lambda work, stages, listed, arguments: len(listed(None)) and 7)
    words = ["--work", str(tmp_path / "w"), "--device", "cuda", "--parents", "bundled-gpu/level1_8"]
    assert command.main(["waves", *words]) == 7 and done == ["variants", "reach"]
    # Nothing of the kernel is left: the grid is.
    lines = (tmp_path / "w/mutants.jsonl").read_text().splitlines()
    assert {json.loads(line)["operator"] for line in lines} == {"blocks-rounded-down"}

    answers["reach"] = False
    assert command.main(["waves", *words]) == 1 and done[2:] == ["variants", "reach"]
    answers["variants"] = False
    assert command.main(["waves", *words]) == 1 and done[4:] == ["variants"]
    assert command.main(["reach", *words]) == 1 and done[5:] == ["reach"]
    cpu = ["--work", str(tmp_path / "c"), "--parents", "bundled-honest/level1_2"]
    assert command.main(["list", *cpu]) == 0 and command.main(["variants", *cpu]) == 0 and len(done) == 6
    # Sizes where they are asked for, and launches never.
    monkeypatch.setattr(command, "_step", lambda step, *_: done.append(step) or 0)
    answers["variants"] = True
    assert command.main(["all", *cpu, "--odd-sizes"]) == 0 and done[6:] == ["variants", *command.STEPS]
    monkeypatch.setattr(variants, "apply", lambda work, found: ([], ["no variant"]))
    assert command.main(["list", *cpu, "--odd-sizes"]) == 2 and command.main(["list", *cpu]) == 0


def test_a_gpu_list_without_the_steps_before_it_is_refused(tmp_path, capsys):
    words = ["--work", str(tmp_path / "w"), "--device", "cuda", "--parents", "bundled-gpu/level1_8"]
    assert command.main(["list", *words]) == 2
    assert "run the step variants" in capsys.readouterr().err


def test_the_report_says_at_which_sizes_a_parent_was_tried_and_how_many_places_are_never_reached(tmp_path):
    work = running.Work(tmp_path)
    parent, other = parents.on_gpu()[-1], parents.on_gpu()[0]
    facts = {p.name: [parents.file_sha256(p.path), parents.file_sha256(p.problem)] for p in (parent, other)}
    decided = {
        name: dict(
            zip(("source", "problem"), facts[name], strict=True), variant=variant, used=facts[name][1], tried=tried
        )
        for name, variant, tried in [
            (parent.name, "none", {"all": "hidden crash", "none": "pass"}),
            (other.name, "none", {"none": "pass"}),
        ]
    }
    write_text(work.variants, json.dumps(decided))
    seen = {
        name: dict(zip(("source", "problem"), facts[name], strict=True), launched=launched, why_null=why)
        for name, launched, why in [(parent.name, ["some_kernel"], None), (other.name, None, "no\nCUPTI")]
    }
    write_text(work.reached, json.dumps(seen))
    chosen, _ = variants.apply(work, [parent, other])
    said = report._parents(work, [running.Kernel(p.kernel, p, None) for p in chosen])
    assert "2 parents, 1 of them with launches unknown." in said
    assert f"| {parent.name} | none | all: hidden crash | 13 | 12 |" in said
    assert f"| {other.name} | none | – | 27 | unknown, nothing dropped: no CUPTI |" in said
