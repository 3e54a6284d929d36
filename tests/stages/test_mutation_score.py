"""The mutation score from end to end, through the real stages: one honest kernel, four made by hand, no build."""

import json
import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # benchmarks are run from the project folder

from small_problem import problem_text

from benchmarks.mutation import report, running, score, screening
from benchmarks.mutation.mutants import Mutant
from benchmarks.mutation.operators import Site
from benchmarks.mutation.parents import Parent
from kbverified.records.files import write_text

HEAD = "import ctypes\nimport torch\n\nclass ModelNew(torch.nn.Module):\n    def forward(self, x):\n        "
BODIES = {
    "parent": "return torch.clamp_min(x, 0.0)",
    "equal": "return torch.clamp(x, min=0.0)",
    "wrong": "return torch.clamp_min(x, 0.5)",
    # Right wherever the gate looks: its inputs stay below three.
    "large": "return torch.clamp(x, 0.0, 100.0)",
    # One element beyond the input's end, which changes no output.
    "beyond": "ctypes.c_float.from_address(x.data_ptr() + 4 * x.numel()).value\n        return torch.clamp_min(x, 0.0)",
}
BLANK = Mutant("", "p", "", "", "cpu", "c++", "index-plus-one", "wrong index", False, 0, Site(0, 0, ""), "a  ->  b")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A run's folder with its kernels, and stages that use an evaluator of their own."""
    folder = tmp_path_factory.mktemp("mutation")
    folder.chmod(0o755)
    problem = folder / "level1_1.py"
    problem.write_text(problem_text("relu"))
    work = running.Work(folder / "work")
    parent = Parent("p", work.source("parent"), problem, "cpu")
    kernels = []
    for name, body in BODIES.items():
        path = work.source(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{HEAD}{body}\n")
        kernels.append(running.Kernel(name, parent, None if name == "parent" else replace(BLANK, id=name)))
    with pytest.MonkeyPatch.context() as patch:
        for variable, value in (("KBV_LEASE_DIR", str(folder)), ("KBV_EVALUATOR_IDLE_S", "5"), ("KBV_EVALUATOR", "on")):
            patch.setenv(variable, value)
        mask = os.umask(0o022)
        yield work, kernels, running.Stages(work, "cpu", None, 2)
        os.umask(mask)


def test_from_honest_kernel_to_report(place, capsys):
    work, kernels, stages = place
    stages.audits([kernel.parent for kernel in kernels])
    stages.compile(kernels)
    with pytest.raises(ValueError, match=r"screened\.jsonl is not there"):
        screening.require(work, kernels)

    screening.screen(work, kernels, "cpu", 1)
    outcomes = {name: (line["outcome"], line["reason"]) for name, line in screening.read(work).items()}
    # A tenth of four mutants is none: it stays in, and the list says why.
    assert outcomes["equal"][0] == "kept" and "bitwise equal on 16 inputs" in outcomes["equal"][1]
    assert outcomes["wrong"] == ("kept", "differs: as drawn")
    assert outcomes["large"][0] == "kept" and outcomes["large"][1].startswith("differs: ")
    assert outcomes["beyond"] == ("kept", "signal 11 after 0 equal inputs")

    fixed = work.screened.read_text().replace("as drawn", "as drawn, once")
    write_text(work.screened, fixed)
    screening.screen(work, kernels, "cpu", 1)
    assert work.screened.read_text() == fixed  # as if the screening now said otherwise: a list that is there stays

    stages.gate(screening.require(work, kernels))
    assert stages.faults == []
    assert report.write(work, kernels, "cpu") == 0
    lines = {line.id: line for line in report.read_lines(work.root / "lines.jsonl.gz")}
    assert lines["parent"].hidden == "pass" and score.failed_parents(lines.values()) == []
    assert (lines["wrong"].standard, lines["wrong"].hidden) == ("wrong_value", "wrong_value")
    assert {line.id for line in score.survivors(lines.values(), "hidden")} == {"equal", "large", "beyond"}
    assert "Survivors of hidden: 3" in (work.root / "report.md").read_text()

    before = work.record("hidden-gate", "wrong").read_bytes()
    stages.gate(screening.require(work, kernels))
    assert work.record("hidden-gate", "wrong").read_bytes() == before  # there already, under the same gate
    mark = work.record("hidden-gate", "wrong").with_suffix(".digest")
    mark.write_text("another gate")
    stages.gate(kernels[2:3])
    assert work.record("hidden-gate", "wrong").read_bytes() != before
    assert json.loads(work.record("hidden-gate", "wrong").read_text())["provenance"]["evaluator"]
    capsys.readouterr()
