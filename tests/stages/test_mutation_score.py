"""The mutation score from end to end, through the real stages: one honest kernel, four made by hand, no build."""

import json
import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # benchmarks are run from the project folder

from small_problem import problem_text

from benchmarks.mutation import __main__ as command
from benchmarks.mutation import launches, parents, report, running, score, screening, variants
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


SIZES = """
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x)

rows = 64
columns = 32

def get_inputs():
    return [torch.rand(rows, columns)]

def get_init_inputs():
    return []
"""
CANDIDATE = '''
import torch

SOURCE = r"""
__global__ void relu_kernel(const float* x, float* y, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        y[i] = fmaxf(x[i], 0.0f);
    }
}
"""

class ModelNew(torch.nn.Module):
    def forward(self, x):
        COLUMNS
        return torch.relu(x)
'''


def test_waves_of_a_gpu_from_the_choice_of_sizes_to_the_report_as_far_as_that_goes_without_one(
    tmp_path, monkeypatch, capsys
):
    """The stages run on the CPU. Where a GPU is asked, nothing answers: no launches are known, nothing is screened."""
    problem = tmp_path / "problems/bundled/level1_1.py"
    write_text(problem, SIZES)
    found = []
    for name, line in (("any", "pass"), ("even", "assert x.shape[1] % 4 == 0")):
        path = tmp_path / f"{name}.py"
        write_text(path, CANDIDATE.replace("COLUMNS", line))
        found.append(Parent(f"{name}/level1_1", path, problem, "cuda"))
    monkeypatch.setattr(parents, "on_gpu", lambda: found)
    made = []

    def stages(work, device, arch, jobs, until_s):
        made.append(running.Stages(work, "cpu", arch, jobs, until_s))
        return made[-1]

    monkeypatch.setattr(command, "Stages", stages)
    tmp_path.chmod(0o755)
    for variable, value in (("KBV_LEASE_DIR", str(tmp_path)), ("KBV_EVALUATOR_IDLE_S", "5"), ("KBV_EVALUATOR", "on")):
        monkeypatch.setenv(variable, value)
    work = running.Work(tmp_path / "work")
    words = ["waves", "--device", "cuda", "--work", str(work.root), "--per-parent", "1", "--jobs", "2"]
    mask = os.umask(0o022)
    try:
        assert command.main([*words, "--out", str(tmp_path / "out")]) == 0
        decided = variants.read(work)
        assert {name: line["variant"] for name, line in decided.items()} == {
            "any/level1_1": "all",
            "even/level1_1": "batch",
        }
        assert list(decided["even/level1_1"]["tried"]) == ["all", "batch"]
        assert "rows = 61\ncolumns = 32\n" in (work.root / "problems/bundled-batch/level1_1.py").read_text()
        assert all(line["launched"] is None for line in launches.read(work).values())
        said = (tmp_path / "out/first-2-report.md").read_text()
        assert "2 mutants of 2 honest kernels" in said and "2 of the 2 others were judged" in said
        assert "Honest kernels that fail: 0" in said and "2 parents, 2 of them with launches unknown" in said
        assert {line["reason"][:13] for line in screening.read(work).values()} == {"not screened:"}

        # A second call, on another machine: no build is there, none is needed, and nothing is asked again.
        def refused(self, stage, name, words, out):
            raise AssertionError(f"{stage} of {name} is there already")

        monkeypatch.setattr(running.Stages, "_call", refused)
        monkeypatch.setattr(launches, "_ask", lambda *said: pytest.fail("reach is there already"))
        (work.root / "build").rename(tmp_path / "gone")
        assert command.main(words) == 0
    finally:
        os.umask(mask)
    capsys.readouterr()
