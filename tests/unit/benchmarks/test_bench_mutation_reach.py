"""Mutation: which code a parent's launches reach, and that a list without a word of launches stays what it was."""

import gzip
import hashlib
import json
import subprocess
from types import SimpleNamespace

import pytest

from benchmarks.mutation import __main__ as command
from benchmarks.mutation import launches, live_code, mutants, parents, running
from kbverified.records.files import write_text

CUDA = """
#include <torch/extension.h>
#define TILE 16

__device__ __forceinline__ float gelu(float x) { return 0.5f * x * (1.0f + erff(x * 0.70710678f)); }
__device__ __forceinline__ float swish(float x) { return x / (1.0f + expf(-x)); }
static __device__ float both(float x) { return swish(x) + 1.0f; }
__host__ __device__ inline int whole(int n, int block) { return (n + block - 1) / block; }

template <typename scalar_t, int BLOCK>
__global__ void __launch_bounds__(256, 2) rows_kernel(const scalar_t* x, scalar_t* y, int rows, int columns) {
    const int row = blockIdx.x * BLOCK + threadIdx.x;
    if (row < rows) {
        y[row] = gelu(x[row * columns]);
    }
}

extern "C" __global__ void tail_kernel(const float* x, float* y, int n) {
    for (int i = threadIdx.x; i < n; ++i) {
        y[i] = both(x[i]) * 2.0f;
    }
}

torch::Tensor rows(torch::Tensor x) {
    auto y = torch::empty({x.size(0)}, x.options());
    const int blocks = whole(x.size(0), TILE);
    rows_kernel<float, TILE><<<blocks, 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.size(0), x.size(1));
    return y;
}

torch::Tensor tail(torch::Tensor x) {
    auto y = torch::empty_like(x);
    if (x.size(0) > 1) { y = y + 1; }
    tail_kernel<<<1, 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.numel());
    return y;
}

torch::Tensor either(torch::Tensor x) {
    if (x.numel() == 0) return x;
    auto y = torch::empty_like(x);
    tail_kernel<<<x.size(1) / 2, 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.numel());
    return y;
}
"""
ROWS, TAIL = "void rows_kernel<float, 16>(float const*, float*, int, int)", "_Z11tail_kernelPKfPfi"
TORCHS = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>, std::array<char*, 1ul>>(int)"
)
TRITON = """
import triton
import triton.language as tl

@triton.jit
def add(a, b):
    return a + b

@triton.jit
def scaled(x, factor):
    return x * factor

@triton.autotune(configs=[triton.Config({"BLOCK": 64})], key=["n"])
@triton.jit
def sum_kernel(p, q, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(q, tl.reduce(tl.load(p + at, mask=at < n, other=0.0), 0, add))

@triton.jit
def scale_kernel(p, q, n, factor, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(q + at, scaled(tl.load(p + at, mask=at < n), factor), mask=at < n)

def forward(p, q, n):
    sum_kernel[(1,)](p, q, n)
    if n > 1000:
        scale_kernel[(triton.cdiv(n, 64),)](p, q, n, 2.0, BLOCK=64)
"""


def dead(text: str, *launched: str, language: str = "c++") -> list[str]:
    """Names of the functions that are dead, in their order."""
    piece = mutants.Piece(language, text, 0, len(text), literal=False)
    of = live_code.cpp_functions if language == "c++" else live_code.triton_functions
    names = {(f.start, f.end): f.name for f in of(text)}
    return [names[place] for place in live_code.dead_ranges(piece, launched)]


@pytest.mark.parametrize(
    ("launched", "names"),
    [
        ((ROWS, TAIL, TORCHS), []),
        ((ROWS, TORCHS), ["swish", "both", "tail_kernel", "tail"]),  # either can return before it launches
        ((TAIL,), ["gelu", "rows_kernel", "rows"]),
        (("tail_kernel(float const*, float*, int)",), ["gelu", "rows_kernel", "rows"]),
        ((TORCHS,), ["gelu", "swish", "both", "rows_kernel", "tail_kernel", "rows", "tail"]),
        (("other::subrows_kernel_v2()",), ["gelu", "swish", "both", "rows_kernel", "tail_kernel", "rows", "tail"]),
    ],
)
def test_cuda_code_is_dead_where_nothing_that_was_launched_executes_it(launched, names):
    assert dead(CUDA, *launched) == names


def test_a_kernel_of_torchs_own_does_not_keep_one_of_its_name_alive():
    text = "__global__ void reduce_kernel(float* x) { x[0] += 1.0f; }"
    assert dead(text, "void at::native::reduce_kernel<512, 1>(at::native::ReduceOp<float>)") == ["reduce_kernel"]
    assert dead(text, "(anonymous namespace)::reduce_kernel(float*)") == []


def test_announcements_lambdas_variables_and_macros_are_no_functions():
    text = """
    __global__ void later(float* x);
    __device__ float table[4] = {1.0f, 2.0f};
    auto f = [=] __device__ (int i) { return i + 1; };
    struct Add { __device__ float operator()(float a, float b) const { return a + b; } };
#define KERNEL(name) __global__ void name() { }
    namespace { __global__ void inner(float* x) { x[0] = 1.0f; } }
    """
    assert [f.name for f in live_code.cpp_functions(text)] == ["inner"]


@pytest.mark.parametrize(
    ("body", "always"),
    [
        ("k<<<1, 2>>>(x);", True),
        ("if (a) { b(); } k<T, 4><<<1, 2>>>(x); return;", True),
        ("for (int i = 0; i < n; ++i) b(); k<<<1, 2>>>(x);", True),
        ("if (a) k<<<1, 2>>>(x);", False),
        ("if (a) { k<<<1, 2>>>(x); } else { b(); }", False),
        ("for (int i = 0; i < n; ++i) { k<<<1, 2>>>(x); }", False),
        ("if (a) return; k<<<1, 2>>>(x);", False),
        ("if (a) { b(); return; } k<<<1, 2>>>(x);", False),
        ("DISPATCH(t, [&] { k<<<1, 2>>>(x); });", False),
    ],
)
def test_a_host_function_needs_a_kernel_that_it_cannot_be_called_without(body, always):
    text = f"__global__ void k(float* x) {{ x[0] = 1; }} void host(float* x) {{ {body} }}"
    assert ("host" in dead(text, "other()")) is always
    assert dead(text, "k(float*)") == []


def test_triton_code_is_dead_where_nothing_that_was_launched_executes_it():
    assert dead(TRITON, "sum_kernel", "scale_kernel", language="triton") == []
    assert dead(TRITON, "sum_kernel", language="triton") == ["scaled", "scale_kernel"]
    assert dead(TRITON, "scale_kernel_0d1d2de", language="triton") == ["add", "sum_kernel"]
    handed = TRITON + "\n    other(scale_kernel)\n"  # who calls it then, and under which name, is not in the text
    assert dead(handed, "sum_kernel", language="triton") == []


def test_mutants_are_made_in_live_code_alone_and_everywhere_where_nothing_is_known():
    source = f'SOURCE = r"""{CUDA}"""\n'
    every = mutants.of_parent("p", "level1_1", "cuda", source)
    assert live_code.live(every, source, None) == every
    left = live_code.live(every, source, [ROWS])
    lines = {m.change.partition("  ->  ")[0].partition(": ")[2] for m in left}
    gone = {m.change.partition("  ->  ")[0].partition(": ")[2] for m in every if m not in left}
    assert "if (row < rows) {" in lines and "tail_kernel<<<x.size(1) / 2, 256>>>" in " ".join(lines)
    assert "y[i] = both(x[i]) * 2.0f;" in gone and "if (x.size(0) > 1) { y = y + 1; }" in gone
    assert not {"y[row] = gelu(x[row * columns]);", "const int blocks = whole(x.size(0), TILE);"} & gone
    assert mutants.drawn(left) == mutants.drawn(live_code.live(reversed(every), source, [ROWS])[::-1])


def test_the_list_of_the_cpu_is_the_one_whose_records_are_archived(tmp_path):
    work = running.Work(tmp_path)
    kernels = command.make_list(work, parents.on_cpu(), 25, mutants.SEED)
    archive = parents.PROJECT / "docs/runs/2026-11-30-mutants-cpu.jsonl.gz"
    lines = list(map(json.loads, gzip.decompress(archive.read_bytes()).splitlines()))
    assert [(k.name, k.parent.name) for k in kernels] == [(line["id"], line["parent"]) for line in lines]
    # As it was before launches and sizes had a say in a list.
    known = "480ccd5617bdfb75916112b97e8dc07ee299a60a96df86525ebaffb21dd58d82"
    assert hashlib.sha256((tmp_path / "mutants.jsonl").read_bytes()).hexdigest() == known


# --- the step -----------------------------------------------------------------------------------------------
@pytest.fixture
def step(tmp_path, monkeypatch):
    """A work folder, two parents, stages that build nothing, and a worker: what it was asked, what it will say."""
    problem = tmp_path / "problems/kernelbench/level1_1.py"
    write_text(problem, "import torch\n")
    found = []
    for name in ("a", "b"):
        path = tmp_path / f"{name}.py"
        path.write_text(f"# {name}\nSOURCE = r'''{CUDA}'''\n")
        found.append(parents.Parent(f"{name}/kernelbench/level1_1/0", path, problem, "cuda", "all"))
    compiled = SimpleNamespace(verdict="pass", build_directory="b")
    monkeypatch.setattr(running, "compiled", lambda work, kernel: compiled)
    asked: list[str] = []
    answers: dict[str, list[object]] = {}

    def worker(command, input, **more):
        name = json.loads(input)["source"].rpartition("/")[2].partition("-")[0]
        asked.append(name)
        said = answers[name].pop(0)
        if isinstance(said, Exception):
            raise said
        if isinstance(said, str):
            return SimpleNamespace(returncode=1, stdout="", stderr=said)
        return SimpleNamespace(returncode=0, stdout=f"warned\n{json.dumps({'launched': said})}\n", stderr="")

    monkeypatch.setattr(launches.subprocess, "run", worker)
    builds = []
    stages = SimpleNamespace(device="cpu", jobs=1, until_s=float("inf"))
    stages.compile = lambda kernels, builds: stages.built.append([k.name for k in kernels if builds(k)])
    stages.built = builds
    return SimpleNamespace(
        work=running.Work(tmp_path / "work"), found=found, stages=stages, asked=asked, answers=answers
    )


def test_launches_are_asked_for_once_and_kept(step):
    step.answers.update(a=[[ROWS, TORCHS]], b=["out of memory", [TAIL]])
    assert launches.record(step.work, step.stages, step.found)
    assert step.asked == ["a", "b", "b"]  # a full GPU may be met once
    assert step.stages.built == [["a-kernelbench-level1_1-0--all", "b-kernelbench-level1_1-0--all"]]
    said = launches.of(step.work, step.found)
    assert said == {step.found[0].name: [ROWS, TORCHS], step.found[1].name: [TAIL]}
    before = step.work.reached.read_bytes()
    assert launches.record(step.work, step.stages, step.found)
    assert step.work.reached.read_bytes() == before and len(step.asked) == 3 and len(step.stages.built) == 1

    step.found[0].path.write_text("# another source\n")
    with pytest.raises(ValueError, match="a/kernelbench/level1_1/0 is not in it, or in another version"):
        launches.of(step.work, step.found)
    step.answers.update(a=[[TAIL]])
    assert launches.record(step.work, step.stages, step.found) and step.asked == ["a", "b", "b", "a"]


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ([], "the profiler saw no kernel"),
        ("Traceback\nRuntimeError: no kernel image", "exit 1: Traceback\nRuntimeError: no kernel image"),
        (subprocess.TimeoutExpired("x", 120), "no answer within 120 s"),
    ],
)
def test_where_nothing_is_seen_nothing_is_known_and_no_place_is_dropped(step, said, why):
    step.answers.update(a=[said, said])
    assert launches.record(step.work, step.stages, step.found[:1])
    line = launches.read(step.work)[step.found[0].name]
    assert line["launched"] is None and line["why_null"].startswith(why)
    found = step.found[:1]
    every = command.make_list(step.work, found, 1000, 1)
    assert command.make_list(step.work, found, 1000, 1, launched=launches.of(step.work, found)) == every
    fewer = command.make_list(step.work, found, 1000, 1, launched={found[0].name: [TORCHS]})
    assert 0 < len(fewer) < len(every)


def test_launches_that_there_was_no_time_for_are_asked_for_in_the_next_call(step):
    step.stages.until_s = 0.0
    assert not launches.record(step.work, step.stages, step.found) and step.asked == []
    step.stages.until_s = float("inf")
    step.answers.update(a=[[ROWS]], b=[[ROWS]])
    assert launches.record(step.work, step.stages, step.found) and step.asked == ["a", "b"]
