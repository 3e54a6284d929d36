"""Slim headers with the real compiler: same results, same failures, and torch's own headers where they do not do.

Slow: torch's headers are really compiled. What needs the full ones includes only torch/types.h, a third of them.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from kbverified.compilation import toolchain
from kbverified.compilation.slim_build import SlimHeaders
from kbverified.compilation.slim_choice import NeedsFull
from kbverified.compilation.slim_compiler import Compiler
from kbverified.compilation.slim_tree import INDEX

RUN = """
import json, sys
from pathlib import Path
from kbverified.compilation.hooks import BuildFailed, Hooks
directory, tree, source, call = sys.argv[1:]
reports = []
Hooks(Path(directory), True, Path(tree) if tree else None, reports.append).install()
import torch
from torch.utils import cpp_extension
try:
    bare = 'extern "C"' in Path(source).read_text()
    options = {"no_implicit_headers": True, "is_python_module": False} if bare else {"functions": ["answer"]}
    module = cpp_extension.load_inline("asked", Path(source).read_text(), extra_cflags=["-O3"], **options)
    answer = eval(call)
except BuildFailed as failure:
    answer = str(failure)
print(json.dumps([answer, reports]))
"""


def built(folder: Path, tree: Path | None, source: str, call: str):
    """(answer or failure, report) of a build in a process of its own."""
    folder.mkdir(exist_ok=True)
    (folder / "source.cpp").write_text(source)
    command = [sys.executable, "-c", RUN, str(folder / "build"), str(tree or ""), str(folder / "source.cpp"), call]
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "PATH": path})
    assert done.returncode == 0, done.stderr[-3000:]
    answer, (report,) = json.loads(done.stdout.splitlines()[-1])
    return answer, report


USUAL = """
static torch::Tensor softplus_like(const torch::Tensor& x) { return torch::log1p(torch::exp(x)); }
std::vector<torch::Tensor> answer(torch::Tensor x, int64_t n, std::optional<torch::Tensor> y) {
  TORCH_CHECK(x.dim() == 1 && x.scalar_type() == torch::kFloat32, "a vector, not ", x.sizes());
  auto out = torch::empty_like(x);
  auto zero = torch::zeros({n}, x.options().dtype(torch::kFloat64).requires_grad(true));
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "twice", [&] {
    for (int64_t i = 0; i < x.numel(); ++i) out.data_ptr<scalar_t>()[i] = 2 * x.data_ptr<scalar_t>()[i];
  });
  auto index = x.index({torch::indexing::Slice(1)});
  return {out, zero, softplus_like(x) + torch::tensor({1.0f}), torch::cat({x, x}), index, y.value_or(at::max(x))};
}
"""
CALL = """[[t.tolist(), str(t.dtype), t.requires_grad] for t in module.answer(torch.tensor([1., 2.]), 2, None)]"""


def test_a_usual_extension_gives_what_torch_gives(tree, tmp_path):
    found, report = built(tmp_path, tree, USUAL, CALL)
    assert report["ok"] and report["log"] == "headers: slim", report
    assert not list(tmp_path.rglob("*.o"))
    x = torch.tensor([1.0, 2.0])
    expected = [
        2 * x,
        torch.zeros(2, dtype=torch.float64, requires_grad=True),  # torch::zeros heeds that, at::zeros would not
        torch.log1p(torch.exp(x)) + torch.tensor([1.0]),
        torch.cat([x, x]),
        x[1:],
        x.max(),
    ]
    for (value, dtype, gradient), tensor in zip(found, expected, strict=True):
        assert torch.allclose(torch.tensor(value, dtype=tensor.dtype), tensor)
        assert (dtype, gradient) == (str(tensor.dtype), tensor.requires_grad)


BARE = """#include <torch/types.h>
extern "C" __attribute__((visibility("default"))) int answer() { return 41; }
"""
CALL_DOUBLE = "lambda f: (setattr(f, 'restype', __import__('ctypes').c_double), f())[1]"
METHODS = """#include <torch/types.h>
torch::Tensor twice(torch::Tensor x) {
  return x.add(x).relu_().to(torch::kFloat64).sum({0}, true).contiguous().view({1}).clamp_min(3);
}
extern "C" __attribute__((visibility("default"))) double answer() {
  return twice(torch::ones({2}, torch::kFloat32)).item<double>();
}
"""


def test_methods_of_a_tensor_are_linked(tree, tmp_path):
    answer, report = built(tmp_path, tree, METHODS, f"({CALL_DOUBLE})(__import__('ctypes').CDLL(module).answer)")
    assert report["ok"] and report["log"] == "headers: slim", report
    assert answer == 4.0


def test_methods_that_nobody_calls_are_in_no_library(tree, tmp_path):
    _, report = built(tmp_path, tree, BARE, "0")
    assert report["log"] == "headers: slim"
    (library,) = tmp_path.rglob("*.so")
    assert b"clamp_min" not in library.read_bytes()


# What a lookup finds, under the full headers: (source, whether it compiles). One file shows that for all of them.
LOOKUPS = {
    "own_relu_beside_torchs": (
        "torch::Tensor relu(const torch::Tensor& x) { return x; } torch::Tensor f(torch::Tensor x) { return relu(x); }",
        False,
    ),
    "own_relu_of_floats": ("float relu(float x) { return x; } float f(float x) { return relu(x); }", True),
    "own_relu_qualified": (
        "namespace mine { torch::Tensor relu(torch::Tensor x) { return x; } } "
        "torch::Tensor f(torch::Tensor x) { return mine::relu(x); }",
        True,
    ),
    "own_name_of_no_operator": (
        "torch::Tensor my_own(torch::Tensor x) { return x; } torch::Tensor f(torch::Tensor x) { return my_own(x); }",
        True,
    ),
    "found_by_its_argument": ("torch::Tensor f(torch::Tensor x) { return sigmoid(x); }", True),
    "using_namespace": ("using namespace at; Tensor f(Tensor x) { return tanh(x); }", True),
    "factory_of_torch": ("torch::Tensor f() { return torch::full({2}, 1.0, torch::kFloat64); }", True),
    "helper_of_functions_h": ("int64_t f(torch::Tensor x) { return at::size(x, 0) + at::numel(x); }", True),
    "one_dimension": ("torch::Tensor f(torch::Tensor x) { return at::var(x, 0); }", True),
    "no_such_operator": ("torch::Tensor f(torch::Tensor x) { return torch::no_such_operator(x); }", False),
    "no_such_method": ("torch::Tensor f(torch::Tensor x) { return x.no_such_method(); }", False),
    "wrong_argument": ("torch::Tensor f(torch::Tensor x) { return torch::celu(x, x, 3, 4); }", False),
    "printed": ("void f(torch::Tensor x) { std::cout << x << x.sizes(); }", True),
    "operators": ("torch::Tensor f(torch::Tensor x) { return (x + 1) * x > 2 - x; }", True),
    "no_namespace": ("torch::Tensor f(torch::Tensor x) { return torch::zeros_like(x) + empty_like2(x); }", False),
}
INCLUDE = "#include <torch/extension.h>\n"


def errors(arguments: list[str], file: Path, before: list[str]) -> list[int]:
    """Lines of a file that the compiler complains of."""
    compiler = Compiler(toolchain.find(None))
    try:
        compiler.run([*arguments, "-fsyntax-only", str(file)], before)
    except subprocess.CalledProcessError as failed:
        return sorted({int(line) for line in re.findall(rf"{file.name}:(\d+):\d+: error", failed.stderr)})
    return []


def lookups(compiles: bool) -> str:
    return "".join(f"namespace {name} {{ {text} }}\n" for name, (text, good) in LOOKUPS.items() if good == compiles)


def test_what_is_said_of_the_full_headers_is_true(tmp_path):
    file = tmp_path / "all.cpp"
    good, bad = lookups(True), lookups(False)
    file.write_text(INCLUDE + good + bad)
    first = 2 + good.count("\n")
    assert errors([], file, []) == list(range(first, first + bad.count("\n")))


def slim_flags(tree: Path, source: str, folder: Path) -> list[str]:
    changed = SlimHeaders(tree).arguments("load_inline", {"name": "x", "cpp_sources": source}, folder)
    return [flag for group in changed["extra_cflags"] for flag in group.split()]


@pytest.mark.parametrize("compiles", [True, False])
def test_lookups_end_alike_under_slim_headers(tree, tmp_path, compiles):
    text = lookups(compiles)
    file = tmp_path / "code.cpp"
    file.write_text(INCLUDE + text)
    found = errors(["-O3"], file, slim_flags(tree, text, tmp_path))
    assert found == ([] if compiles else list(range(2, 2 + text.count("\n"))))


def test_the_bindings_are_read_precompiled(tree, tmp_path):
    file = tmp_path / "code.cpp"
    file.write_text(f"{INCLUDE}torch::Tensor f(torch::Tensor x) {{ return torch::relu(x); }}\n")
    compiler = Compiler(toolchain.find(None))
    command = [*compiler.command, *slim_flags(tree, "torch::relu(x)", tmp_path), *compiler.paths, *compiler.flags]
    command += ["-O3", "-H", "-fsyntax-only", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert f"! {tree}/bindings/torch/extension.h.gch/O3.gch" in done.stderr


@pytest.fixture
def useless(tree, tmp_path) -> Path:
    """Slim headers under which nothing compiles."""
    copy = tmp_path / "useless"
    (copy / "kbv").mkdir(parents=True)
    shutil.copy(tree / INDEX, copy)
    for name in ("base.h", "python.h"):
        (copy / "kbv" / name).write_text("#error these are the slim headers\n")
    return copy


def test_what_slim_headers_cannot_build_is_built_with_torchs_own(useless, tmp_path):
    answer, report = built(tmp_path / "build", useless, BARE, "__import__('ctypes').CDLL(module).answer()")
    assert answer == 41 and report["ok"]
    assert report["log"].startswith("headers: full after slim:") and "these are the slim headers" in report["log"]


def test_a_failing_build_is_told_from_the_full_headers(useless, tmp_path):
    """The slim headers fail too, and nothing of that reaches the candidate or the record."""
    source = BARE + LOOKUPS["own_relu_beside_torchs"][0]
    answer, report = built(tmp_path / "build", useless, source, "0")
    assert not report["ok"]
    for text in (answer, report["log"]):
        assert "is ambiguous" in text
        assert "slim" not in text and str(useless) not in text and "AT_PER_OPERATOR_HEADERS" not in text


# --- requests that are not for slim headers -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "request_",
    [
        {"extra_cflags": ["-include", "mine.h"]},
        {"extra_cflags": ["-I/mine"]},
        {"extra_cflags": ["-isystem /mine"]},
        {"extra_cflags": ["-DMINE=at::relu"]},
        {"extra_cflags": ["-DTORCH_ASSERT_ONLY_METHOD_OPERATORS"]},
        {"cpp_sources": "using namespace torch::nn; auto f = Linear(1, 2);"},
        {"no_implicit_headers": True},
        {"with_sycl": True},
    ],
    ids=str,
)
def test_full_headers_from_the_start(tree, tmp_path, request_):
    with pytest.raises(NeedsFull):
        SlimHeaders(tree).arguments("load_inline", {"name": "x", "cpp_sources": "int f();", **request_}, tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "flags", [["-O3"], [""], ["", " "], ["-O2", "-march=native"], ["-DBLOCK=256"], ["-std=c++20"], None], ids=str
)
def test_usual_flags_stay_in_front(tree, tmp_path, flags):
    request = {"name": "x", "cpp_sources": "int f();", "extra_cflags": flags}
    changed = SlimHeaders(tree).arguments("load_inline", request, tmp_path)
    assert changed["extra_cflags"][: len(flags or [])] == (flags or [])
    assert len(changed["extra_cflags"]) > len(flags or [])
    assert request == {"name": "x", "cpp_sources": "int f();", "extra_cflags": flags}


def test_a_header_in_a_folder_of_the_candidates_is_not_guessed_at(tree, tmp_path):
    (tmp_path / "mine.h").touch()
    request = {"name": "x", "cpp_sources": "#include <mine.h>\n", "extra_include_paths": [str(tmp_path)]}
    with pytest.raises(NeedsFull, match=r"mine\.h"):
        SlimHeaders(tree).arguments("load_inline", request, tmp_path)


def test_each_compiler_gets_what_its_source_needs(tree, tmp_path):
    request = {
        "name": "x",
        "cpp_sources": "torch::Tensor f(torch::Tensor x);",
        "cuda_sources": INCLUDE + "torch::Tensor f(torch::Tensor x) { return torch::nn::Linear(1, 2)->forward(x); }",
    }
    changed = SlimHeaders(tree).arguments("load_inline", request, tmp_path)
    assert "extra_cuda_cflags" not in changed and "extra_cflags" in changed
    request["cuda_sources"] = "torch::Tensor f(torch::Tensor x) { return torch::empty_like(x); }"
    changed = SlimHeaders(tree).arguments("load_inline", request, tmp_path)
    text = (tmp_path / "headers" / "cuda" / "kbv" / "source.h").read_text()
    assert "#include <kbv/base.h>" in text and "#include <ATen/ops/empty_like.h>" in text and "python" not in text
