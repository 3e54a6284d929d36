"""Which mentions of a name count: those through which C++ could find a declaration, and no others."""

from __future__ import annotations

import pytest

from kbverified.compilation.slim_choice import NeedsFull, choose

SPACES = [
    ("", False),
    ("#", False),
    ("at", True),
    ("torch", False),
    ("c10::attr", False),
    ("std", True),
    ("torch::nn", False),
]
HEADERS = {
    "ATen/ops/relu.h": "light",
    "ATen/Dispatch.h": "light",
    "torch/nn/modules/linear.h": "full",
    "interned_strings.h": "full",
    "ranges": "system",
    "pybind11/pybind11.h": "full",
    "empty": "function",
    "global.h": "light",
}
NAMES = {
    "relu": [("ATen/ops/relu.h", "at")],
    "AT_DISPATCH": [("ATen/Dispatch.h", "#")],
    "Linear": [("torch/nn/modules/linear.h", "torch::nn")],
    "x": [("interned_strings.h", "c10::attr")],
    "size": [("ranges", "std")],
    "PYBIND11_MODULE": [("pybind11/pybind11.h", "#")],
    "empty": [("empty", "torch")],
    "lonely": [("global.h", "")],
}
BEGIN = "#include <torch/extension.h>\n"


def index() -> dict:
    headers, spaces = list(HEADERS), [path for path, _ in SPACES]
    python = {"pybind11/pybind11.h"}
    return {
        "names": {n: [(headers.index(h), spaces.index(s), int(h in python)) for h, s in e] for n, e in NAMES.items()},
        "headers": [
            {"path": h, "kind": kind, "rank": rank, "types": h != "pybind11/pybind11.h"}
            for rank, (h, kind) in enumerate(HEADERS.items())
        ],
        "namespaces": [{"path": p, "last": p.split("::")[-1], "types": types} for p, types in SPACES],
        "methods": {"index": [0]},
        "functions": {"empty": {"text": "T empty();", "headers": ["ATen/ops/empty.h"]}},
        "usings": {"nullopt": ["namespace torch { using std::nullopt; }"]},
        "aliases": {"tensors": ["at"]},
        "searched": {"caffe2": ["at"], "jit": ["attr"]},
        "unknown": ["torch/csrc/"],
    }


def chosen(code: str, begin: str = BEGIN, python: bool = False) -> set[str]:
    return set(choose(begin + code, index(), python).headers)


@pytest.mark.parametrize(
    "code",
    [
        "at::relu(x);",
        "caffe2::relu(x);",  # a using-directive of torch's leads on
        "namespace caffe2 { int y = relu; }",
        "tensors::relu(x);",  # through an alias in torch's own headers
        "using namespace tensors; auto f = relu;",
        "torch::relu(x);",  # through torch's using-directive
        "relu(x);",  # through the type of its argument, beside the candidate's own
        "relu<float>(x);",
        "using at::relu;",
        "using namespace at; auto f = relu;",
        "using namespace torch; auto f = relu;",
        "namespace at { auto f = relu; }",
        "#define CALL(f) f(x)\nCALL(relu);",
        "namespace t = torch::x; auto f = &t::relu;",
        "x.index({1});",  # a method that takes a type which is only announced
    ],
)
def test_a_mention_that_could_find_the_operator(code):
    assert chosen(code) == {"ATen/ops/relu.h"}


@pytest.mark.parametrize(
    "code",
    [
        "int relu = 3; relu += 1;",  # nothing is called, nothing is qualified
        "x.relu();",  # a member
        "p->relu();",
        "mine::relu(x);",
        "// at::relu(x)\n",
        "/* at::relu(x) */",
        'f("at::relu(x)");',
        "#include <mine/relu>\n",
        "int x = 1;",  # a name of a namespace that nothing leads to
        "Linear(3);",
    ],
)
def test_a_mention_that_could_not(code):
    assert chosen(code) == set()


def test_macros_and_global_names_count_wherever_they_stand():
    assert chosen("AT_DISPATCH") == {"ATen/Dispatch.h"}
    assert chosen("int y = lonely;") == {"global.h"}


def test_standard_names():
    assert chosen("int size = 3;") == set()
    assert chosen("using namespace std; int y = size;") == chosen("std::size(v);") == chosen("size(v);") == {"ranges"}


def test_factories_come_as_text_with_the_headers_that_they_need():
    choice = choose(BEGIN + "torch::empty({1});", index(), False)
    assert choice.headers == ("ATen/ops/empty.h",) and choice.text == "T empty();" and not choice.python
    assert choose(BEGIN + "torch::nullopt;", index(), False).text == "namespace torch { using std::nullopt; }"


def test_bindings_in_a_source_bring_their_base():
    assert choose(BEGIN + "PYBIND11_MODULE", index(), False).python
    assert choose(BEGIN + "int f();", index(), True).python
    assert not choose(BEGIN + "int f();", index(), False).python


def test_what_types_h_does_not_promise_is_not_there():
    """A source that includes too little fails plainly, and has to fail here."""
    assert chosen("PYBIND11_MODULE", "#include <torch/types.h>\n") == set()
    for python in (False, True):
        assert not choose("#include <torch/types.h>\nPYBIND11_MODULE", index(), python).python


@pytest.mark.parametrize(
    ("source", "why"),
    [
        (BEGIN + "torch::nn::Linear(3);", "linear.h"),
        (BEGIN + "#define F(x) at::x##_out\n", "pastes"),
        (BEGIN + "#ifdef AT_PER_OPERATOR_HEADERS\n", "pastes"),
        (BEGIN + '#include "mine.h"\n', "mine.h"),
        (BEGIN + "#include MINE\n", "computed"),
        (BEGIN + "#include <torch/csrc/autograd/variable.h>\n", "looked into"),
        ("#include <ATen/core/Tensor.h>\n", "none of torch's"),
        ("int f();", "none of torch's"),
    ],
)
def test_what_is_read_with_the_full_headers(source, why):
    with pytest.raises(NeedsFull, match=why):
        choose(source, index(), False)
