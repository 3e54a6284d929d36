"""Tensors in a shared buffer, and the judgement of an output's kind."""

from __future__ import annotations

import itertools

import pytest
import torch

from kbverified.layout import (
    Guard,
    aliases,
    copy_into,
    dense_stride,
    fill_between,
    gaps,
    leaves,
    mismatch,
    plan,
    spec_of,
    state_digests,
    structure,
    views,
    weights_match,
)

torch.manual_seed(8)
TENSORS = {
    "float32": torch.randn(3, 5),
    "no dimension": torch.tensor(2.5),
    "empty": torch.empty(0),
    "empty with other dimensions": torch.empty(3, 0, 2),
    "bf16": torch.randn(7).bfloat16(),
    "bool": torch.tensor([True, False, True]),
    "int64": torch.tensor([[2**62, -1], [0, 5]]),
    "permuted": torch.randn(2, 3, 4).permute(2, 0, 1),
    "transposed": torch.randn(6, 4).t(),
    "channels last": torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last),
    "expanded": torch.randn(1, 4).expand(3, 4),
    "sliced": torch.randn(10, 10)[::2, 1:4],
    "extent one": torch.randn(5, 1, 3).transpose(0, 1),
}
GAPLESS = ("permuted", "transposed", "channels last")


def lay_out(tensors: list[torch.Tensor]):
    slots, nbytes = plan([spec_of(t) for t in tensors], [dense_stride(t) for t in tensors])
    buffer = torch.full((nbytes,), 0xA5, dtype=torch.uint8)
    return slots, buffer, views(buffer, slots)


@pytest.mark.parametrize("name", TENSORS)
def test_one_tensor_comes_back(name):
    tensor = TENSORS[name]
    _, _, (view,) = lay_out([tensor])
    view.copy_(tensor)
    assert (view.shape, view.dtype) == (tensor.shape, tensor.dtype)
    assert torch.equal(view, tensor)
    # A candidate may choose its way by the strides, so a permuted tensor stays permuted.
    assert view.is_contiguous() == (name not in GAPLESS)
    if name in GAPLESS:
        assert view.stride() == tensor.stride()


def test_all_together_do_not_touch_each_other():
    tensors = list(TENSORS.values())
    slots, buffer, found = lay_out(tensors)
    copy_into(found, tensors)
    for view, tensor in zip(found, tensors, strict=True):
        assert torch.equal(view, tensor)
    low = buffer.data_ptr()
    ranges = []
    for view, slot in zip(found, slots, strict=True):
        assert slot["at"] % 512 == 0
        if view.numel():
            assert view.data_ptr() == low + slot["at"]
            ranges.append((slot["at"], slot["at"] + view.numel() * view.element_size()))
    assert all(end <= start for (_, end), (start, _) in itertools.pairwise(ranges))
    assert ranges[-1][1] <= buffer.numel()


def test_views_write_through_to_the_buffer():
    slots, buffer, (view,) = lay_out([torch.zeros(3)])
    view.fill_(1.0)
    assert torch.equal(views(buffer, slots)[0], torch.ones(3))


def test_nothing_needs_no_bytes():
    assert plan([]) == ([], 0)
    assert views(torch.empty(0, dtype=torch.uint8), []) == []


@pytest.mark.parametrize("name", TENSORS)
def test_dense_stride_is_kept_for_gapless_tensors_only(name):
    expected = TENSORS[name].stride() if name in GAPLESS else None
    assert dense_stride(TENSORS[name]) == expected


# --- kinds of output ----------------------------------------------------------------------------------------------


def test_leaves_and_structure_agree():
    a, b, c = torch.zeros(1), torch.ones(2), torch.ones(3)
    value = ({"z": a, "a": [b]}, c)
    assert [id(t) for t in leaves(value)] == [id(b), id(a), id(c)]
    assert structure(value) == [{"a": ["tensor"], "z": "tensor"}, "tensor"]
    assert structure([a, b]) == structure((a, b)) == ["tensor", "tensor"]
    assert leaves(None) == leaves(3.0) == [] and structure(None) == "NoneType"


class Subclass(torch.Tensor):
    pass


ONE = torch.zeros(2, 3)
KINDS = {
    "nothing": (None, "wrong_type"),
    "number": (1.0, "wrong_type"),
    "array": (ONE.numpy(), "wrong_type"),
    "list": ([ONE], "wrong_type"),
    "two": ((ONE, ONE), "wrong_type"),
    "subclass": (ONE.as_subclass(Subclass), "wrong_type"),
    "parameter": (torch.nn.Parameter(ONE), "wrong_type"),
    "sparse": (ONE.to_sparse(), "wrong_type"),
    "transposed": (torch.zeros(3, 2), "wrong_shape"),
    "one dimension more": (torch.zeros(1, 2, 3), "wrong_shape"),
    "no dimension": (torch.tensor(0.0), "wrong_shape"),
    "float64": (ONE.double(), "wrong_dtype"),
    "float16": (ONE.half(), "wrong_dtype"),
    "int32": (ONE.int(), "wrong_dtype"),
    "meta": (ONE.to("meta"), "wrong_device"),
}
SLOTS, _ = plan([spec_of(ONE)])


@pytest.mark.parametrize("name", KINDS)
def test_every_wrong_kind_has_its_verdict(name):
    value, verdict = KINDS[name]
    found = mismatch(value, "tensor", SLOTS, "cpu")
    assert found is not None and found[0] == verdict
    assert len(found[1]) < 400


def test_the_right_kind_is_no_mismatch_whatever_its_strides():
    assert mismatch(ONE, "tensor", SLOTS, "cpu") is None
    assert mismatch(torch.zeros(3, 2).t(), "tensor", SLOTS, "cpu") is None
    assert mismatch(torch.zeros(1, 3).expand(2, 3), "tensor", SLOTS, "cpu") is None


def test_the_second_of_two_outputs_is_looked_at_too():
    slots, _ = plan([spec_of(ONE), spec_of(torch.zeros(4, dtype=torch.int64))])
    wanted = ["tensor", "tensor"]
    assert mismatch((ONE, torch.zeros(4, dtype=torch.int64)), wanted, slots, "cpu") is None
    assert mismatch((ONE, torch.zeros(4)), wanted, slots, "cpu")[0] == "wrong_dtype"
    assert mismatch({"a": ONE, "b": ONE}, wanted, slots, "cpu")[0] == "wrong_type"


def test_endless_and_odd_outputs_are_of_the_wrong_type():
    endless: list = []
    endless.append(endless)
    assert mismatch(endless, "tensor", SLOTS, "cpu")[0] == "wrong_type"
    assert mismatch({1: ONE, "a": ONE}, "tensor", SLOTS, "cpu")[0] == "wrong_type"  # keys that do not sort
    found = mismatch([ONE] * 100_000, "tensor", SLOTS, "cpu")
    assert found[0] == "wrong_type" and len(found[1]) < 400


# --- aliases ------------------------------------------------------------------------------------------------------


def test_views_of_the_inputs_are_aliases():
    _, buffer, (first, second) = lay_out([torch.zeros(4, 4), torch.zeros(8)])
    for output in (first, second, first.t(), first[1:2, 1:2], second.view(2, 4), first.detach(), second[-1]):
        assert aliases([torch.zeros(3), output], buffer)


def test_copies_neighbours_and_empty_outputs_are_none():
    whole = torch.zeros(3000, dtype=torch.uint8)
    buffer = whole[1000:2000].clone()
    for output in (buffer.clone(), torch.zeros(5), torch.empty(0), buffer[:0], torch.tensor(1.0)):
        assert not aliases([output], buffer)
    assert not aliases([], buffer)


def test_memory_right_beside_the_buffer_is_not_the_buffers():
    memory = bytearray(4096)
    part = torch.frombuffer(memory, dtype=torch.uint8, count=1024, offset=1024)
    for offset, inside in ((0, False), (2048, False), (1, True), (2047, True)):
        other = torch.frombuffer(memory, dtype=torch.uint8, count=1024, offset=offset)
        assert aliases([other], part) is inside, offset


# --- weights ------------------------------------------------------------------------------------------------------


def row(name: str, shape: list[int], digest: str) -> list:
    return [name, shape, "float32", digest]


TWO = [row("a", [2], "x"), row("b", [3], "y")]


@pytest.mark.parametrize(
    ("candidate", "expected"),
    [
        (TWO, True),
        (TWO[::-1], True),
        ([row("a", [2], "x"), row("b", [3], "z")], False),
        ([row("p", [2], "x"), row("q", [3], "y")], True),  # other names: the order of shapes decides
        ([row("p", [2], "x"), row("q", [3], "z")], False),
        ([row("p", [3], "y"), row("q", [2], "x")], None),
        ([row("a", [2], "x"), row("b", [4], "y")], None),
        ([row("a", [2], "x")], None),
        ([*TWO, row("extra", [1], "w")], None),
        ([], None),
    ],
)
def test_weights_match_by_name_or_by_order(candidate, expected):
    assert weights_match(candidate, TWO) is expected


def test_models_without_weights_do_not_correspond():
    assert weights_match([], []) is None


@pytest.mark.parametrize(
    "claim",
    [None, 7, "text", {}, {"a": 1}, [None], [[]], [["a"]], [[["unhashable"], [2], "float32", "x"]], [{}], [7], "ab"],
    ids=str,
)
def test_a_claim_that_is_no_list_of_rows_says_nothing(claim):
    assert weights_match(claim, TWO) is None


def model(seed: int) -> torch.nn.Module:
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))


def test_state_digests_tell_weights_apart_and_nothing_else():
    one, same, other = state_digests(model(1)), state_digests(model(1)), state_digests(model(2))
    assert one == same
    assert weights_match(one, same) is True and weights_match(one, other) is False
    assert [r[:3] for r in one][:2] == [["0.weight", [2, 3], "float32"], ["0.bias", [2], "float32"]]
    assert ["1.num_batches_tracked", [], "int64"] in [r[:3] for r in one]


@pytest.mark.parametrize("count", [1, 2047, 2048, 2049, 5000])
def test_a_digest_has_every_element_and_its_place(count):
    """2048 floats fill a row of the table that is summed up, so that the last row may be full, short or missing."""

    def digest(values):
        holder = torch.nn.Module()
        holder.register_buffer("b", values)
        return state_digests(holder)[0][3]

    plain = torch.arange(1.0, count + 1)
    changed = [plain.clone() for _ in range(min(count, 64))]
    for index, one in enumerate(changed):
        one[-1 - index] = 0.5
    swapped = plain.roll(1) if count > 1 else plain + 1
    assert len({digest(one) for one in (plain, swapped, *changed)}) == 2 + len(changed)
    assert digest(plain) == digest(plain.clone())


def test_state_digests_of_odd_tensors():
    odd = torch.nn.Module()
    odd.register_buffer("empty", torch.empty(0, 3))
    odd.register_buffer("transposed", torch.arange(6.0).reshape(2, 3).t())
    odd.register_buffer("flags", torch.tensor([True, False]))
    odd.register_buffer("part", torch.arange(10.0)[3:])
    straight = torch.nn.Module()
    straight.register_buffer("empty", torch.empty(0, 3))
    straight.register_buffer("transposed", torch.arange(6.0).reshape(2, 3).t().contiguous())
    straight.register_buffer("flags", torch.tensor([True, False]))
    straight.register_buffer("part", torch.arange(3.0, 10.0))
    assert state_digests(odd) == state_digests(straight)


def test_a_guard_puts_every_tensor_at_the_end_of_a_page_behind_a_gap():
    guard = Guard(align_bytes=64, page_bytes=4096, gap_bytes=8192, rubbish=0xFE, closed=True)
    tensors = [TENSORS[name] for name in ("float32", "empty", "bf16", "channels last")] + [torch.ones(5000)]
    slots, nbytes = plan([spec_of(t) for t in tensors], [dense_stride(t) for t in tensors], guard)
    assert [slot["at"] for slot in slots] == [12288 - 64, 20480, 32768 - 64, 45056 - 512, 73728 - 20032]
    assert nbytes == 73728
    assert gaps(slots, 4096, 8192) == [(0, 8192), (12288, 8192), (20480, 8192), (32768, 8192), (45056, 8192)]
    buffer = torch.zeros(nbytes, dtype=torch.uint8)
    copy_into(views(buffer, slots), tensors)
    fill_between(buffer, slots, guard.rubbish)
    assert all(torch.equal(view, tensor) for view, tensor in zip(views(buffer, slots), tensors, strict=True))
    assert int((buffer == 0xFE).sum()) >= nbytes - sum(t.numel() * t.element_size() for t in tensors)
