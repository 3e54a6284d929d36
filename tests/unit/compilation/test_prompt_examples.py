"""The one-shot examples in prompts are right: built and run where this machine can, read where it cannot.

C++ is built as a candidate's is. The CUDA source runs on the CPU, block by block, behind a few lines that stand in for
torch and CUDA, and goes through nvcc where there is one. Triton's runs in its interpreter where Triton is installed.
CuTe DSL's is only parsed, and its names looked up where the package is.
"""

from __future__ import annotations

import ast
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

EXAMPLES = Path(__file__).parents[3] / "workflow" / "prompts" / "examples"
LANGUAGES = ("cpp", "cuda", "triton", "cute_dsl")


def expected(x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """By another formula than the example's: the sign times the square."""
    return torch.sign(x) * x**2 * scale


def difference(rows: int, columns: int, module: str, prelude: str = "") -> float:
    """Largest difference between the example's ModelNew, in a process of its own, and what is expected."""
    program = f"""
import importlib.util, json, sys
{prelude}
import torch
def load(name):
    spec = importlib.util.spec_from_file_location(name, {str(EXAMPLES)!r} + f"/{{name}}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
torch.manual_seed(3)
x = torch.randn({rows}, {columns})
made = []
for factory in (load("reference").Model, load({module!r}).ModelNew):
    torch.manual_seed(5)
    made.append(factory({columns}))
with torch.no_grad():
    print(json.dumps([x.tolist(), made[0].scale.tolist(), made[0](x).tolist(), made[1](x).tolist()]))
"""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    x, scale, reference, candidate = map(torch.tensor, json.loads(done.stdout.splitlines()[-1]))
    assert torch.allclose(reference, expected(x, scale)), "the reference of the example"
    return float((candidate - reference).abs().max())


def test_the_cpp_example_is_built_and_right(tree: Path, tmp_path: Path) -> None:
    hooks = f"""
from pathlib import Path
from kbverified.compilation.hooks import Hooks
Hooks(Path({str(tmp_path)!r}), True, Path({str(tree)!r}), print).install()
"""
    assert difference(33, 17, "cpp", hooks) < 1e-6


STAND_IN = r"""
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <vector>
namespace torch {
struct Tensor {
    std::vector<float>* values;
    Tensor contiguous() const { return *this; }
    int64_t numel() const { return values->size(); }
    template <typename T> T* data_ptr() const { return values->data(); }
};
inline Tensor empty_like(const Tensor& other) { return {new std::vector<float>(other.numel())}; }
}  // namespace torch
"""
ON_THE_CPU = r"""
#define __global__
struct Dim3 { unsigned x; } gridDim, blockDim, blockIdx, threadIdx;
template <typename Kernel> auto launch(Kernel kernel, int64_t blocks, int threads) {
    return [=](auto... arguments) {
        gridDim.x = blocks;
        blockDim.x = threads;
        for (blockIdx.x = 0; blockIdx.x < blocks; ++blockIdx.x)
            for (threadIdx.x = 0; threadIdx.x < (unsigned)threads; ++threadIdx.x) kernel(arguments...);
    };
}
"""
MAIN = r"""
int main() {
    std::vector<float> x, scale = {0.5f, 2.0f, 3.0f};
    for (int i = 0; i < 300; ++i) x.push_back((i - 150) * 0.25f);
    for (float value : *signed_square({&x}, {&scale}).values) std::printf("%.9g\n", value);
}
"""


def cuda_source(folder: Path) -> str:
    """The CUDA C++ of the example, with headers that stand in for torch's beside it."""
    (folder / "c10" / "cuda").mkdir(parents=True)
    (folder / "c10/cuda/CUDAException.h").write_text("#define C10_CUDA_KERNEL_LAUNCH_CHECK() ((void)0)\n")
    (folder / "c10/cuda/CUDAStream.h").write_text(
        "namespace c10 { namespace cuda { inline decltype(nullptr) getCurrentCUDAStream() { return nullptr; } } }\n"
    )
    values = {
        node.targets[0].id: node.value.value
        for node in ast.parse((EXAMPLES / "cuda.py").read_text()).body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
    }
    return STAND_IN + values["DECLARATION"] + values["SOURCE"]


def test_the_cuda_example_computes_the_same(tmp_path: Path) -> None:
    compiler = shutil.which(os.environ.get("CXX", "c++"))
    assert compiler
    source, count = re.subn(r"(\w+)<<<(\w+), (\w+), 0, [^>]*>>>", r"launch(\1, \2, \3)", cuda_source(tmp_path))
    assert count == 1
    (tmp_path / "cpu.cpp").write_text(ON_THE_CPU + source + MAIN)
    command = [compiler, "-std=c++17", "-include", "cstdint", f"-I{tmp_path}", "cpu.cpp", "-o", "cpu"]
    subprocess.run(command, cwd=tmp_path, check=True)
    done = subprocess.run([tmp_path / "cpu"], capture_output=True, text=True, check=True)
    x = torch.tensor([(i - 150) * 0.25 for i in range(300)])
    assert torch.allclose(
        torch.tensor([*map(float, done.stdout.split())]), expected(x, torch.tensor([0.5, 2, 3] * 100))
    )


def test_nvcc_takes_the_cuda_example(tmp_path: Path) -> None:
    if (nvcc := shutil.which("nvcc")) is None:
        pytest.skip("no nvcc on this machine")
    (tmp_path / "example.cu").write_text(cuda_source(tmp_path))
    command = [nvcc, "-std=c++17", f"-I{tmp_path}", "-ptx", "example.cu", "-o", "example.ptx"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert ".entry" in (tmp_path / "example.ptx").read_text()


def test_the_triton_example_is_right_in_the_interpreter() -> None:
    if importlib.util.find_spec("triton") is None:
        pytest.skip("Triton is not installed here")
    assert difference(5, 700, "triton", "import os; os.environ['TRITON_INTERPRET'] = '1'") < 1e-6


@pytest.mark.parametrize("language", LANGUAGES)
def test_an_example_is_one_file_with_a_model(language: str) -> None:
    text = (EXAMPLES / f"{language}.py").read_text()
    assert "```" not in text
    classes = [node for node in ast.parse(text).body if isinstance(node, ast.ClassDef)]
    assert [node.name for node in classes] == ["ModelNew"]
    constructor, forward = (node for node in classes[0].body if isinstance(node, ast.FunctionDef))
    assert [a.arg for a in constructor.args.args] == ["self", "columns"]
    assert [a.arg for a in forward.args.args] == ["self", "x"]
    assert "self.scale = nn.Parameter(torch.rand(columns))" in text


def test_names_of_the_cute_dsl_example_are_there() -> None:
    if importlib.util.find_spec("cutlass") is None:
        pytest.skip("nvidia-cutlass-dsl is not installed here; its names were looked up in version 4.8.1")
    cute = importlib.import_module("cutlass.cute")
    for name in set(re.findall(r"\bcute\.((?:arch\.)?\w+)", (EXAMPLES / "cute_dsl.py").read_text())) - {"runtime"}:
        where = cute
        for part in name.split("."):
            where = getattr(where, part)
