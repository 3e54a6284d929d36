"""The static view: small sources for every label, hostile ones, bundled candidates, and real ones where they are."""

from __future__ import annotations

import os
import re
import textwrap
from pathlib import Path

import pytest

from kbverified.aggregation import AggregationSettings, candidate_row
from kbverified.keys import CandidateKey
from kbverified.static_view.describe import View, describe, problem_of
from kbverified.static_view.reader import Reader

ROOT = Path(__file__).resolve().parents[2]
HEAD = """
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.cpp_extension import load_inline
"""
PROBLEM = (
    HEAD
    + """
class Model(nn.Module):
    def __init__(self, features):
        super(Model, self).__init__()
        self.fc = nn.Linear(features, features)

    def forward(self, x):
        '''Multiply, then clip.'''
        y = self.fc(x)
        return torch.relu(y) * 2.0
"""
)
CUDA = '''
SOURCE = r"""
#include <torch/extension.h>
// helper<<<1, 1>>>(); at::matmul(a, b): a comment
__global__ void scale(const float* x, float* y, int n) { y[threadIdx.x] = 2.0f * x[threadIdx.x]; }
torch::Tensor run(torch::Tensor x) {
    auto y = torch::empty_like(x);
    scale<<<1, 32>>>(x.data_ptr<float>(), y.data_ptr<float>(), 32);
    return y;
}
torch::Tensor product(torch::Tensor x, torch::Tensor w) { return at::matmul(x, w); }
torch::Tensor loop(torch::Tensor x) {
    auto y = torch::empty_like(x);
    float* to = y.data_ptr<float>();
    for (int64_t i = 0; i < x.numel(); ++i) { to[i] = 1.0f; }
    return y;
}
"""
ext = load_inline(name="e", cpp_sources="", cuda_sources=SOURCE, functions=["run", "product", "loop"])
'''
TRITON = """
import triton
import triton.language as tl

@triton.jit
def copy_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(y_ptr + at, tl.load(x_ptr + at) * 2.0)
"""


def model(forward: str, more: str = "", init: str = "") -> str:
    body = "\n".join(f"        {line}" for line in textwrap.dedent(forward).strip().splitlines())
    made = (
        f"    def __init__(self, n):\n        super().__init__()\n{textwrap.indent(textwrap.dedent(init), ' ' * 8)}\n"
    )
    return f"{HEAD}{more}\nclass ModelNew(nn.Module):\n{made if init else ''}    def forward(self, x):\n{body}\n"


def see(source: str, problem: str | None = PROBLEM) -> View:
    return describe(source, problem_of(problem) if problem else None)


FC = "self.fc = nn.Linear(n, n)"
WRAPPER = """
def launch(t):
    out = torch.empty_like(t)
    copy_kernel[(1,)](t, out, t.numel(), BLOCK=32)
    return out
"""
FUNCTION = (
    "class Fn(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, x):\n        return ext.run(x)\n"
)
LAZY = CUDA.replace(
    "ext = load", "_ext = None\ndef get():\n    global _ext\n    if _ext is None:\n        _ext = load"
) + ("    return _ext\n")
GUARDED = CUDA.replace("ext = load", "try:\n    ext = load") + "except Exception:\n    ext = None\n"
FALLBACK = "try:\n    return ext.run(x)\nexcept Exception:\n    return torch.relu(x)"
PASSED = "try:\n    return ext.run(x)\nexcept Exception:\n    pass\nreturn torch.relu(x)"

CASES = {
    "torch": (model("return torch.relu(self.fc(x)) * 3.0", init=FC), "torch only", "Python/torch", ()),
    "constant": (model("return torch.zeros(3)"), "torch only", "Python/torch", ()),
    "cuda": (model("return ext.run(x)", CUDA), "custom kernel", "CUDA C++", ()),
    "cuda, held": (model("return self.op(x)", CUDA, "self.op = ext.run"), "custom kernel", "CUDA C++", ()),
    "cuda, function": (model("return Fn.apply(x)", CUDA + FUNCTION), "custom kernel", "CUDA C++", ()),
    "cuda, lazy": (model("return get().run(x)", LAZY), "custom kernel", "CUDA C++", ()),
    "cuda, factory": (model("return self.e.run(x)", LAZY, "self.e = get()"), "custom kernel", "CUDA C++", ()),
    "c++ loop": (model("return ext.loop(x)", CUDA), "custom kernel", "C++", ()),
    "triton": (model("return launch(x)", TRITON + WRAPPER), "custom kernel", "Triton", ()),
    "triton, method": (model("return self.go(x)", TRITON + WRAPPER, "self.go = launch"), "custom kernel", "Triton", ()),
    "mixed": (model("return ext.run(self.fc(x))", CUDA, FC), "mixed", "CUDA C++, Python/torch", ()),
    "library": (model("return ext.product(x, x)", CUDA), "library call", "C++", ("decoy kernel",)),
    "torch.ops": (model("return torch.ops.aten.relu(x)"), "library call", "Python/torch", ()),
    "decoy": (model("return torch.relu(x)", CUDA), "torch only", "Python/torch", ("decoy kernel",)),
    "decoy, only built": (
        model("if self.e is None:\n    return x\nreturn torch.relu(x)", CUDA, "self.e = ext"),
        "torch only",
        "Python/torch",
        ("decoy kernel",),
    ),
    "decoy, run at init": (
        model("return torch.relu(x)", TRITON + WRAPPER, "self.w = launch(torch.ones(3))"),
        "torch only",
        "Python/torch",
        ("decoy kernel",),
    ),
    "decoy, never built": (
        model("return torch.relu(x)", CUDA.partition("ext = ")[0]),
        "torch only",
        "Python/torch",
        ("decoy kernel",),
    ),
    "fallback in a method": (
        model(
            "return self.e.run(x) if self.e else torch.relu(x)",
            LAZY,
            "self.e = None\ntry:\n    self.e = self.make()\nexcept Exception as error:\n    print(error)",
        )
        + "\n    def make(self):\n        return load_inline('f', '', SOURCE, functions=['run'])\n",
        "mixed",
        "CUDA C++, Python/torch",
        ("try/except fallback",),
    ),
    "fallback": (model(FALLBACK, CUDA), "mixed", "CUDA C++, Python/torch", ("try/except fallback",)),
    "fallback, passed": (model(PASSED, CUDA), "mixed", "CUDA C++, Python/torch", ("try/except fallback",)),
    "fallback at import": (
        model("return ext.run(x) if ext is not None else torch.relu(x)", GUARDED),
        "mixed",
        "CUDA C++, Python/torch",
        ("try/except fallback",),
    ),
    "no fallback": (
        model("try:\n    return ext.run(x)\nexcept RuntimeError:\n    raise", CUDA),
        "custom kernel",
        "CUDA C++",
        (),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_every_label(name: str) -> None:
    source, kind, languages, labels = CASES[name]
    view = see(source)
    assert (view.kind, ", ".join(view.languages), view.labels) == (kind, languages, labels)


RENAMED = """
from torch import nn as layers
import torch as t

class Helper(layers.Module):
    def __init__(self, width: int):
        super().__init__()
        self.dense = layers.Linear(width, width)  # a comment

    def forward(self, inp):
        z: t.Tensor = self.dense(inp)
        return t.relu(z) * 2.0

class ModelNew(Helper):
    "Fast."
"""


@pytest.mark.parametrize(
    ("source", "same"),
    [
        (PROBLEM.replace("Model", "ModelNew"), True),
        (PROBLEM + "ModelNew = Model\n", True),
        (RENAMED, True),
        (RENAMED.replace("2.0", "3.0"), False),
        (RENAMED.replace("t.relu", "t.sigmoid"), False),
        (RENAMED.replace("t.relu(z)", "t.relu(inp)"), False),
        (RENAMED.replace("width, width", "width, 2 * width"), False),
    ],
)
def test_a_reference_under_other_names(source: str, same: bool) -> None:
    assert ("renamed reference" in see(source).labels) is same


def test_what_is_left_to_torch() -> None:
    view = see(model("return ext.run(F.linear(x, self.fc.weight)).sigmoid()", CUDA, FC))
    assert view.problem_operators == ("matmul", "mul", "relu")
    assert view.delegated == ("matmul",)
    assert view.other_operators == ("sigmoid",)
    weights_only = see(model("return ext.run(self.fc.weight)", CUDA, FC))
    assert weights_only.delegated == () and weights_only.kind == "custom kernel"


FLAGS = {
    "code object": "torch.relu.__code__ = None",
    "gc": "import gc; gc.get_objects()",
    "inspect": "import inspect; inspect.stack()",
    "frames": "import sys; sys._getframe(1)",
    "interpreter state": "import sys; sys.modules['torch']",
    "ctypes": "import ctypes",
    "exit": "import os; os._exit(0)",
    "subprocess": "from subprocess import run",
    "network": "import socket as s",
    "signals": "import signal",
    "environment": "import os; os.environ.get('A')",
    "files": "open('/tmp/a', 'w')",
    "os": "import os; os.getppid()",
    "threads": "from threading import Thread",
    "dynamic import": "import importlib",
    "exec or eval": "exec('a = 1')",
    "default dtype or device": "torch.set_default_dtype(torch.float64)",
    "backend flags": "torch.backends.cuda.matmul.allow_tf32 = True",
    "monkeypatch": "import time\ntime.time = lambda: 0",
    "CUDA graphs": "g = torch.cuda.CUDAGraph()",
    "streams": "s = torch.cuda.Stream()",
    "random state": "torch.manual_seed(0)",
    "narrow cast": "w = torch.ones(3).half()",
    "/proc": "p = '/proc/self/maps'",
    "large literal": "t = [" + "0.5, " * 65 + "]",
    "silent except": "try:\n    import apex\nexcept ImportError:\n    pass",
    "tensor subclass": "class T(torch.Tensor):\n    pass",
    "torch.compile": "f = torch.compile(torch.relu)",
    "clock": "import time; time.sleep(1)",
    "pointer as key": "cache = {}\ndef f(x):\n    key = (x.data_ptr(), 1)\n    return cache.get(key)",
    "static in C++": 'S = """\nint f() {\n    static int calls = 0;\n}\n"""',
}
RUNNING = {
    "branch on values": "if x.sum().item() > 0:\n    return x\nreturn torch.relu(x)",
    "state kept between calls": "self.last = x\nreturn x",
    "torch branch": "if x.is_cuda:\n    return ext.run(x)\nelse:\n    return torch.relu(x)",
}


@pytest.mark.parametrize("name", [*FLAGS, *RUNNING])
def test_every_construct_is_found_where_it_stands(name: str) -> None:
    plain = see(model("return torch.relu(x)", CUDA))
    assert not any(flag.startswith(f"{name} (") for flag in plain.flags)
    more = CUDA + FLAGS.get(name, "") + "\n"
    found = see(model(RUNNING.get(name, "return torch.relu(x)"), more))
    line = re.search(rf"(?:^|, ){re.escape(name)} \((\d+)", ", ".join(found.flags))
    assert line is not None, found.flags
    if name in FLAGS:
        begins = (HEAD + CUDA).count("\n") + 1
        assert begins <= int(line[1]) <= begins + FLAGS[name].count("\n")


# --- the process that parses --------------------------------------------------------------------------------


def test_hostile_text_is_not_described_and_stops_nothing() -> None:
    good = model("return torch.relu(x)").encode()
    with Reader() as reader:
        for source in (b"class ModelNew(:", b"\xff\xfe", b"(" * 100_000, b"-" * 200_000 + b"1", b"x = 1\n"):
            assert reader.describe(source).kind is None
        chain = b"class ModelNew:\n    def forward(self, x):\n        return x" + b" + x" * 50_000
        assert reader.describe(chain).kind in (None, "torch only")
        assert reader.describe(b"#" * (5 << 20)).why_null.startswith("not described: larger")
        assert reader.describe(good, b"no problem (").kind is None
        assert reader.describe(good, PROBLEM.encode()).kind == "torch only"


def test_a_source_that_takes_too_long_is_given_up_and_the_next_one_is_described() -> None:
    """A call per line takes the parser seconds, of f-strings it takes older ones minutes."""
    with Reader(cpu_limit_s=1) as reader:
        assert reader.describe(b"f(a)\n" * (800 << 10)).why_null == "cannot be described within 1 s and 2 GiB"
        assert reader.describe(model("return torch.relu(x)").encode()).kind == "torch only"


def test_a_death_of_the_process_is_that_source_s() -> None:
    with Reader() as reader:
        assert reader.describe(model("return x").encode()).kind == "torch only"
        assert reader._child is not None
        reader._child.terminate()
        reader._child.wait()
        assert "within" in (reader.describe(model("return x").encode()).why_null or "")
        assert reader.describe(model("return x").encode()).kind == "torch only"


# --- in the table -------------------------------------------------------------------------------------------


def test_a_row_describes_the_source_that_was_judged_and_no_other(tmp_path: Path) -> None:
    key = CandidateKey("gen", "kb", "level1_19", 0)
    text = model("return torch.relu(x)", CUDA).encode()
    path = key.source_path(tmp_path)
    path.parent.mkdir(parents=True)
    path.write_bytes(text)
    row = candidate_row(tmp_path, key, AggregationSettings())
    assert (row["static_kind"], row["static_labels"]) == ("torch only", "decoy kernel")
    assert "unreached kernel" in row["static_flags"]
    assert row["why_null_static"] is None
    assert row["why_null_static_operators"] == "no torch operator is found in the problem"
    path.unlink()
    gone = candidate_row(tmp_path, key, AggregationSettings())
    assert (gone["static_kind"], gone["why_null_static"]) == (None, "no generations/gen/kb/level1_19/0.py")


# --- candidates ---------------------------------------------------------------------------------------------


TORCH_ONLY = """
honest/level1_1/1 honest/level1_11/0 honest/level1_4/0 honest/level1_6/0 honest/level1_8/0 honest/level1_9/0
honest/level2_2/0 honest/level2_4/0 honest/level3_1/0 honest/level3_2/0 honest/level3_3/0 gpu/level1_8/1
""".split()
MIXED = ("honest/level2_1/0", "gpu/level2_1/0")
NO_KIND = ("dishonest/level1_1/17", "dishonest/level1_1/18", "dishonest/level1_1/19", "dishonest/level1_1/21")
SHOWN = {
    "dishonest/level1_1/2": "state kept between calls",
    "dishonest/level1_1/7": "tensor subclass",
    "dishonest/level1_1/10": "ctypes",
    "dishonest/level1_1/13": "exit",
    "dishonest/level1_7/0": "branch on values",
    "dishonest/level1_8/0": "files",
    "dishonest/level1_8/1": "monkeypatch",
    "dishonest/level1_8/2": "narrow cast",
    "dishonest/level3_1/1": "frames",
}


def test_bundled_candidates() -> None:
    """What each is was read by hand: most strategies are torch only, and text shows some of them."""
    seen: dict[str, View] = {}
    with Reader() as reader:
        for path in sorted((ROOT / "generations").glob("bundled-*/bundled/*/*.py")):
            problem = (ROOT / "problems" / "bundled" / f"{path.parent.name}.py").read_bytes()
            name = "/".join([path.parts[-4].removeprefix("bundled-"), path.parent.name, path.stem])
            seen[name] = reader.describe(path.read_bytes(), problem)
    assert len(seen) == len(list((ROOT / "generations").rglob("*.py")))
    for name, view in seen.items():
        kind = "torch only" if name in TORCH_ONLY or "dishonest" in name else "custom kernel"
        kind = "mixed" if name in MIXED else "library call" if name == "dishonest/level1_1/20" else kind
        assert view.kind == (None if name in NO_KIND else kind), (name, view)
        assert view.labels == (("renamed reference",) if name == "gpu/level1_8/1" else ()), (name, view)
        assert any(flag.startswith(SHOWN.get(name, "")) for flag in view.flags) or name not in SHOWN, (name, view)
        if name.startswith("honest"):
            assert ("C++" in view.languages) is (kind != "torch only")


REAL = Path(os.environ.get("KBV_CANDIDATES", ROOT / ".candidates"))
READ_BY_HAND = {
    "claude-opus-4.1/level_2_problem_52_sample_0": "mixed",
    "claude-opus-4.1/level_2_problem_53_sample_0": "mixed",
    "codex-gpt-5.5/level_1_problem_26_sample_0": "custom kernel",
    "codex-gpt-5.5/level_1_problem_36_sample_0": "custom kernel",
    "codex-gpt-5.5/level_1_problem_90_sample_0": "custom kernel",
    "deepseek-v4-pro/level_1_problem_40_sample_0": "custom kernel",
    "deepseek-v4-pro/level_2_problem_86_sample_0": "mixed",
    "gemini-2.5-pro/level_1_problem_94_sample_0": "mixed",
    "gemma-4-26b/level_1_problem_61_sample_0": "torch only",
    "gemma-4-26b/level_3_problem_41_sample_0": "torch only",
    "grok-code-fast-1-cuda/level_2_problem_40_sample_0": "mixed",
    "grok-code-fast-1-cuda/level_2_problem_59_sample_0": "mixed",
    "qwen3-coder-480b/level_1_problem_1_sample_0": "custom kernel",
    "qwen3.6-35b-a3b/level_2_problem_98_sample_0": "mixed",
}


@pytest.mark.skipif(not REAL.is_dir(), reason="needs the public candidates (docs/runs/candidates.jsonl)")
def test_real_candidates_that_were_read_by_hand() -> None:
    with Reader() as reader:
        found = {name: reader.describe((REAL / f"{name}_kernel.py").read_bytes()) for name in READ_BY_HAND}
    assert {name: view.kind for name, view in found.items()} == READ_BY_HAND
    assert [name for name, view in found.items() if "decoy kernel" in view.labels] == [
        name for name in READ_BY_HAND if name.startswith("gemma")
    ]
