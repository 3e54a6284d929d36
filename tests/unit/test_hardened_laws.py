"""Laws and weights of the hardened test: what they change, what they leave alone, and that they repeat."""

from __future__ import annotations

from copy import deepcopy

import pytest
import torch

from kbverified import distributions, protocol
from kbverified.hardened.laws import LAWS, draw_law, is_label
from kbverified.hardened.weights import perturbed_identity
from kbverified.layout import state_digests, weights_match

CPU = torch.device("cpu")


def two_inputs():
    return [torch.randn(8, 64), torch.randint(0, 5, (8,)), 3]


def tensors(law, seed=7, get_inputs=two_inputs, **more):
    return draw_law(get_inputs, law, seed, CPU, **more)[0].tensors


@pytest.mark.parametrize("law", LAWS)
def test_a_seed_gives_the_same_inputs_and_another_seed_others(law):
    first, again, other = tensors(law), tensors(law), tensors(law, seed=8)
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert not torch.equal(first[0], other[0])


@pytest.mark.parametrize("law", LAWS)
def test_floats_change_and_stay_finite_and_moderate_and_the_rest_stays_as_drawn(law):
    plain = distributions.draw(two_inputs, "d1_original", 7, CPU).tensors
    changed, drawn = draw_law(two_inputs, law, 7, CPU)
    assert not torch.equal(changed.tensors[0], plain[0])
    assert bool(changed.tensors[0].isfinite().all())
    assert changed.tensors[0].abs().max() < 201 * plain[0].abs().max()
    assert torch.equal(changed.tensors[1], plain[1])
    assert list(drawn) == ["0"] and all(isinstance(value, int | float) for value in drawn["0"].values())


@pytest.mark.parametrize("law", LAWS)
def test_dtype_and_shape_are_those_of_the_problem(law):
    assert tensors(law, dtype="bf16")[0].dtype == torch.bfloat16
    shapes = ((), (1,), (0,), (3, 1), (2, 3, 4))
    found = tensors(law, get_inputs=lambda: [torch.rand(shape) + 0.1 for shape in shapes])
    assert tuple(tensor.shape for tensor in found) == shapes


@pytest.mark.parametrize("law", LAWS)
def test_labels_keep_their_values_and_rows_that_sum_to_one_their_sum(law):
    signs = torch.tensor([1.0, -1.0] * 50)
    assert is_label(signs) and not is_label(torch.randn(100)) and not is_label(torch.arange(100.0))
    found = tensors(law, get_inputs=lambda: [signs.clone(), signs.reshape(10, 10).clone()], dtype="bf16")
    assert found[0].dtype == torch.bfloat16 and found[0].sum() == 0
    assert torch.equal(found[0].float(), signs) is (law != "h5_sorted_and_repeated")
    assert torch.equal(found[1].float(), signs.reshape(10, 10)), "no row of labels, but what may be a mask"
    found = tensors(law, get_inputs=lambda: [torch.randn(16, 32).softmax(-1)])[0]
    assert bool((found >= 0).all()) and torch.allclose(found.sum(-1), torch.ones(16), atol=1e-5)


def test_labels_in_order_tell_rows_from_columns():
    """A label taken for the row where it is the column's: by chance both means are the same, but not in order."""

    def get_inputs():
        return [torch.rand(256, 256), torch.randint(0, 2, (256,)).float() * 2 - 1]

    orders = set()
    for seed in range(40):
        inputs, drawn = draw_law(get_inputs, "h5_sorted_and_repeated", seed, torch.device("cpu"))
        x, y = inputs.tensors
        right, wrong = (float(torch.clamp(1 - x * labels, min=0).mean()) for labels in (y, y.unsqueeze(1)))
        assert abs(wrong - right) > 0.05 * right, seed
        assert torch.equal(y, y.sort(descending=drawn["1"]["descending"]).values)
        orders.add(drawn["1"]["descending"])
    assert orders == {True, False}


@pytest.mark.parametrize("law", LAWS)
def test_strides_of_the_problem_are_kept(law):
    found = tensors(law, get_inputs=lambda: [torch.randn(5, 7).t(), torch.randn(7, 1).expand(7, 5)])
    assert found[0].stride() == (1, 7)
    assert found[1].shape == (7, 5)


@pytest.mark.parametrize("law", LAWS)
def test_positive_means_no_negative_number(law):
    assert bool((tensors(law, positive=True)[0] >= 0).all())


@pytest.mark.parametrize("draw", [torch.rand, torch.randn])
def test_another_mean_leaves_numbers_of_both_signs(draw):
    for seed in range(100):
        x = tensors("h1_scale_and_offset", seed=seed, get_inputs=lambda: [draw(64, 64)])[0]
        assert bool((x > 0).any()) and bool((x < 0).any())


@pytest.mark.parametrize("law", LAWS)
def test_triangles_and_symmetry_stay(law):
    triangle = tensors(law, get_inputs=lambda: [torch.rand(40, 40).triu()])[0]
    assert torch.equal(triangle, triangle.triu()) and bool((triangle.triu() != 0).any())

    def symmetric():
        a = torch.rand(40, 40)
        return [a + a.t()]

    found = tensors(law, get_inputs=symmetric)[0]
    assert torch.equal(found, found.t())


def test_each_law_breaks_what_it_says():
    sizes = tensors("h2_row_scales")[0].pow(2).mean(1).sqrt()
    assert sizes.max() > 3 * sizes.min()
    x = tensors("h3_spikes", get_inputs=lambda: [torch.rand(200, 200)])[0]
    assert 5 < x.max() and 0 < int((x > 1).sum()) < 250
    weighs = tensors("h3_spikes", get_inputs=lambda: [torch.rand(2_000_000)])[0]
    assert abs(float(weighs[::2].mean() / weighs[1::2].mean()) - 1) > 1e-3
    assert bool((x[:, 0] > 1).any()) and bool((x[:, -1] > 1).any()) and float((x[:, 1:-1] > 1).float().mean()) < 0.01
    near = tensors("h4_near_one")[0]
    assert 0.9 < near.mean() < 1.1 and near.std() < 0.4
    steps = tensors("h5_sorted_and_repeated", get_inputs=lambda: [torch.randn(4, 300)])[0]
    differences = steps.diff(dim=1)
    assert bool((differences >= 0).all() | (differences <= 0).all())
    assert all(len(row.unique()) <= protocol.HARDENED_RAMP_STEPS[1] for row in steps)
    wide = tensors("h6_wide_exponents", get_inputs=lambda: [torch.ones(1000) + torch.rand(1000)])[0].log2()
    assert wide.max() - wide.min() > 10


def test_spikes_stand_where_loops_and_tiles_begin_and_end_along_every_dimension():
    """Of 4000 lines with 64 elements each: at each of these places in some lines, and everywhere in fewer."""
    x = tensors("h3_spikes", get_inputs=lambda: [torch.rand(64, 4000)])[0]
    counts = (x > 1).sum(dim=1)
    borders = {0, 1, 2, 7, 8, 15, 16, 31, 32, 61, 62, 63}
    inside = [int(counts[i]) for i in range(64) if i not in borders]
    assert min(int(counts[i]) for i in borders) > 2 * max(inside) and min(inside) > 0
    columns = (tensors("h3_spikes", get_inputs=lambda: [torch.rand(4000, 64)])[0] > 1).sum(dim=0)
    assert min(int(columns[i]) for i in borders) > 2 * sum(map(int, columns)) / 64 / 2
    one_row = tensors("h3_spikes", get_inputs=lambda: [torch.rand(1, 3)])[0]
    assert one_row.shape == (1, 3) and bool(one_row.isfinite().all())


@pytest.mark.parametrize("count", [1, 2, 3, 14, 15, 16, 17, 100_000])
def test_the_first_and_the_last_element_are_spikes(count):
    for seed in range(10):
        inputs, drawn = draw_law(lambda: [torch.full((count,), 0.5)], "h3_spikes", seed, torch.device("cpu"))
        (x,) = inputs.tensors
        assert float(x[0]) > 40 and float(x[-1]) > 40, seed
        assert drawn["0"]["count"] == min(count, 15) and int((x == x[0]).sum()) >= drawn["0"]["count"]


class Norms(torch.nn.Module):
    def __init__(self, more: bool = False):
        super().__init__()
        self.linear = torch.nn.Linear(16, 16)
        if more:  # draws nothing from the global generator, and is in no place of the other's
            self.unused = torch.nn.Identity()
        self.norm = torch.nn.LayerNorm(16)
        self.batch = torch.nn.BatchNorm2d(8)


def built(seed=3, **more):
    torch.manual_seed(11)
    with perturbed_identity(seed):
        return Norms(**more)


def test_identity_parameters_are_near_the_identity_and_not_it():
    model = built()
    for parameter, constant in ((model.norm.weight, 1.0), (model.norm.bias, 0.0), (model.batch.weight, 1.0)):
        off, (least, most) = parameter - constant, protocol.HARDENED_IDENTITY_SPREAD
        assert least - 1e-6 <= off.abs().min() and off.abs().max() <= most + 1e-6
        assert bool((off > 0).any()) and bool((off < 0).any())


def far_off(parameter, constant):
    return bool(((parameter - constant).abs() >= protocol.HARDENED_IDENTITY_SPREAD[0] - 1e-6).all())


def test_no_parameter_is_moved_by_next_to_nothing_be_it_a_single_number():
    for seed in range(50):
        with perturbed_identity(seed):
            gate, slope = torch.nn.Parameter(torch.zeros(1)), torch.nn.PReLU(init=0.25).weight
        assert far_off(gate, 0.0) and far_off(slope, 0.25)


def test_whoever_fills_a_parameter_with_a_constant_and_under_whatever_name():
    """nn.MultiheadAttention has taken constant_ from torch.nn.init when it was imported."""
    with perturbed_identity(3):
        attention = torch.nn.MultiheadAttention(16, 2)
        by_hand = torch.nn.LayerNorm(8)
        by_hand.weight.data.fill_(2.0)
        with torch.no_grad():
            by_hand.bias.zero_()
        layers = torch.nn.TransformerEncoderLayer(16, 2, 32)
    assert far_off(attention.in_proj_bias, 0.0) and far_off(attention.out_proj.bias, 0.0)
    assert far_off(by_hand.weight, 2.0) and far_off(by_hand.bias, 0.0)
    constant = [name for name, p in layers.named_parameters() if bool((p == p.reshape(-1)[0]).all())]
    assert constant == []


def test_parameters_of_one_shape_and_constant_differ_and_copies_do_not():
    with perturbed_identity(3):
        norms = [torch.nn.LayerNorm(16) for _ in range(3)]
        gates = [torch.nn.Parameter(torch.zeros(1)) for _ in range(3)]
        copy = deepcopy(gates[0])
    assert not torch.equal(norms[0].weight, norms[1].weight) and not torch.equal(norms[0].bias, norms[2].bias)
    assert len({gate.item() for gate in gates}) == 3 and torch.equal(copy, gates[0])


def test_what_is_no_parameter_or_no_whole_one_stays_as_it_is_filled():
    with perturbed_identity(3):
        mask = torch.empty(4, 4).fill_(1.0)
        torch.nn.init.zeros_(mask[0])
        embedding = torch.nn.Embedding(6, 4, padding_idx=2)
        running = torch.nn.BatchNorm1d(5).running_var
    assert mask.sum() == 12 and torch.equal(embedding.weight[2], torch.zeros(4)) and torch.equal(running, torch.ones(5))


def test_memory_that_nobody_has_set_yet_makes_no_difference():
    """A parameter is made of whatever was there: zeros, fresh from the system, or what somebody left."""

    def made(fill):
        left = [torch.full((1 << 20,), fill) for _ in range(3)]
        del left
        torch.manual_seed(11)
        with perturbed_identity(3):
            linear = torch.nn.Linear(1 << 10, 1 << 10)
            norm = torch.nn.Parameter(torch.empty(1 << 10, 1 << 10))
            torch.nn.init.zeros_(norm)
        return linear.weight, norm

    assert all(torch.equal(a, b) for a, b in zip(made(0.0), made(1.0), strict=True))
    assert not torch.are_deterministic_algorithms_enabled()


def test_models_that_correspond_agree_and_others_do_not():
    plain = state_digests(built())
    assert weights_match(state_digests(built(more=True)), plain) is True
    assert weights_match(state_digests(built(seed=4)), plain) is False

    class ByHand(Norms):
        def __init__(self):
            super().__init__()
            self.batch.weight.data.copy_(torch.ones(8))  # a constant that nothing here sees

    torch.manual_seed(11)
    with perturbed_identity(3):
        other = ByHand()
    assert torch.equal(other.norm.weight, built().norm.weight)
    assert weights_match(state_digests(other), plain) is False


def test_a_model_that_is_written_otherwise_agrees_all_the_same():
    class Written(torch.nn.Module):
        def __init__(self):
            super().__init__()
            linear = torch.nn.Linear(16, 16)
            self.linear = torch.nn.Linear(16, 16, device="meta")
            self.linear.weight = torch.nn.Parameter(linear.weight.detach().clone())
            self.linear.bias = torch.nn.Parameter(linear.bias.detach().clone())
            self.norm = torch.nn.Module()
            shift, scale = torch.nn.Parameter(torch.zeros(16)), torch.nn.Parameter(torch.empty(16))
            self.norm.weight, self.norm.bias = torch.nn.init.constant_(scale, 1), shift
            self.batch = torch.nn.BatchNorm2d(8)

    torch.manual_seed(11)
    with perturbed_identity(3):
        written = Written()
    assert weights_match(state_digests(written), state_digests(built())) is True


def test_what_is_derived_from_a_constant_in_the_constructor_is_derived_from_its_new_values():
    with perturbed_identity(3):
        ones = torch.ones(2, 3)
        parameter = torch.nn.Parameter(ones)
        random = torch.nn.Parameter(torch.arange(3.0))
    assert torch.equal(ones, parameter) and not torch.equal(parameter, torch.ones(2, 3))
    assert torch.equal(random, torch.arange(3.0))


def test_random_weights_are_those_of_the_seed_and_everything_is_as_before_afterwards():
    torch.manual_seed(11)
    plain = Norms()
    assert torch.equal(plain.linear.weight, built().linear.weight)
    before, new = torch.Tensor.fill_, torch.nn.Parameter.__new__
    with pytest.raises(RuntimeError), perturbed_identity(3):
        assert torch.Tensor.fill_ is not before and torch.nn.Parameter.__new__ is not new
        raise RuntimeError
    assert torch.Tensor.fill_ is before and torch.nn.Parameter.__new__ is new
    assert not {"fill_", "zero_"} & vars(torch.Tensor).keys()
    assert torch.equal(torch.nn.LayerNorm(4).weight, torch.ones(4))
