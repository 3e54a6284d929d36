"""Values that cross to a worker come out as they went in; anything else is refused by name."""

from __future__ import annotations

import json
import math

import pytest
import torch

from kbverified.codec import CodecError, decode, dtype_name, dtype_of, encode

VALUES = [
    None,
    True,
    0,
    -(10**30),
    2.5,
    -0.0,
    "text with ünïcode",
    [],
    (),
    {},
    [1, (2, [3, (4,)]), "x"],
    {"a": (1, 2), "tensor": 3, "tuple": [4], "dict": {"float": "inf"}},
    torch.bfloat16,
    [torch.float32, {"dtype": torch.int64}],
]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_round_trip_through_json_keeps_value_and_kind(value):
    tensors: list[torch.Tensor] = []
    text = json.dumps(encode(value, tensors), allow_nan=False)
    back = decode(json.loads(text), tensors)
    assert tensors == []
    assert back == value and type(back) is type(value)
    assert repr(back) == repr(value)  # tuples within lists, and the sign of a zero


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
def test_floats_that_json_lacks_cross_all_the_same(value):
    back = decode(json.loads(json.dumps(encode([value], []), allow_nan=False)), [])[0]
    assert back == value or (math.isnan(back) and math.isnan(value))


def test_tensors_are_taken_out_in_order_and_put_back():
    a, b = torch.zeros(2), torch.ones(3)
    tensors: list[torch.Tensor] = []
    encoded = encode([a, {"x": (b, 4)}, a], tensors)
    assert [id(t) for t in tensors] == [id(a), id(b), id(a)]
    replaced = [torch.full((1,), float(i)) for i in range(3)]
    back = decode(json.loads(json.dumps(encoded)), replaced)
    assert back[0] is replaced[0] and back[1]["x"][0] is replaced[1] and back[2] is replaced[2]
    assert back[1]["x"] == (replaced[1], 4)


@pytest.mark.parametrize(
    ("value", "named"),
    [
        (object(), "object"),
        ({1: 2}, "dict"),
        ({1, 2}, "set"),
        (b"bytes", "bytes"),
        (1j, "complex"),
        (torch.device("cpu"), "device"),
        ([lambda: None], "function"),
        (torch.nn.ReLU(), "ReLU"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_has_no_encoding_is_named(value, named):
    with pytest.raises(CodecError, match=named):
        encode(value, [])


@pytest.mark.parametrize(
    "value",
    [
        {"tensor": 1},
        {"tensor": -1},
        {"tensor": "0"},
        {"tensor": 0.0},
        {"tensor": 0, "float": "1"},
        {},
        {"code": "import os"},
        {"dtype": "nn"},
        {"dtype": "no_such_dtype"},
        {"dict": {"x": {"tensor": 7}}},
    ],
    ids=str,
)
def test_what_encode_never_writes_is_refused(value):
    with pytest.raises(CodecError):
        decode([value], [torch.zeros(1)])


def test_dtype_names():
    for dtype in (torch.float32, torch.bfloat16, torch.int64, torch.bool):
        assert dtype_of(dtype_name(dtype)) is dtype
    assert dtype_name(torch.float16) == "float16"
    for name in ("nn", "float33", "Tensor", "load"):
        with pytest.raises(CodecError, match=name):
            dtype_of(name)
