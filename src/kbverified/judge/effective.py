"""What a candidate's arithmetic is held against: the reference with products as a narrower unit would compute them.

TF32 rounds the operands of products and convolutions to 10 mantissa bits and adds in float32; fp16 with float32
accumulation keeps as many, bf16 keeps 7. So the reference runs with the operands of every product rounded so, whatever
lies between them untouched. Where it has no products, its float inputs and outputs are rounded instead: that is what an
elementwise kernel in half precision does.
"""

from __future__ import annotations

from typing import Any

import torch

from kbverified.distributions import Inputs
from kbverified.judge import oracle
from kbverified.judge.modes import Mode
from kbverified.judge.reference import Reference
from kbverified.records.trials import NumericsEvidence
from kbverified.scaled_error import scaled_error

TEN_BITS, SEVEN_BITS = 10, 7

_aten = torch.ops.aten
# Operator -> which of its arguments are multiplied with each other. What is only added (a bias) stays as it is.
_PRODUCTS: dict[str, tuple[int, ...]] = {
    "mm": (0, 1),
    "bmm": (0, 1),
    "mv": (0, 1),
    "dot": (0, 1),
    "addmm": (1, 2),
    "baddbmm": (1, 2),
    "addbmm": (1, 2),
    "addmv": (1, 2),
    "linear": (0, 1),
    "convolution": (0, 1),
    "_scaled_dot_product_flash_attention": (0, 1, 2),
    "_scaled_dot_product_efficient_attention": (0, 1, 2),
    "_scaled_dot_product_cudnn_attention": (0, 1, 2),
    "_scaled_dot_product_flash_attention_for_cpu": (0, 1, 2),
    "_cudnn_rnn": (0, 1),
    "mkldnn_rnn_layer": (0, 1, 2),
}


class RoundedProducts(Mode):
    """Rounds the float32 operands of products to so many mantissa bits, and counts the products."""

    def __init__(self, bits: int):
        super().__init__()
        self.bits = bits
        self.products = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        places = _PRODUCTS.get(func.overloadpacket.__name__)
        if places is not None:
            args = tuple(self._rounded(a) if i in places else a for i, a in enumerate(args))
            self.products += 1
        return func(*args, **(kwargs or {}))

    def _rounded(self, value: Any) -> Any:
        if isinstance(value, list | tuple):
            return [self._rounded(item) for item in value]
        return rounded(value, self.bits) if isinstance(value, torch.Tensor) else value


def rounded(tensor: torch.Tensor, bits: int) -> torch.Tensor:
    """A float32 tensor to the nearest number of ``bits`` mantissa bits, ties to even; any other dtype as it is.

    By Veltkamp's splitting (Dekker, Numer. Math. 18, 1971): two roundings of float32 itself do it.
    """
    if tensor.dtype != torch.float32:
        return tensor
    wide = tensor * float(2 ** (23 - bits) + 1)
    return wide - (wide - tensor)


def evidence(
    reference: Reference,
    inputs: Inputs,
    expected: list[torch.Tensor],
    answers: list[torch.Tensor],
    truth: list[torch.Tensor],
) -> NumericsEvidence:
    """Errors of candidate and reference, and of the reference in narrower arithmetic, all against float64 outputs.

    Raises whatever the reference raises, lack of memory above all.
    """
    floats = [i for i, t in enumerate(expected) if t.is_floating_point()]
    if not floats:
        return NumericsEvidence(why_none="no output is a floating-point tensor")

    def worst(outputs: list[torch.Tensor]) -> float | None:
        errors = [scaled_error(outputs[i], truth[i]).rms for i in floats]
        known = [e for e in errors if e is not None]
        return max(known) if len(known) == len(floats) else None

    ten, products = _narrow(reference, inputs, TEN_BITS)
    ten_bits = worst(ten)
    del ten
    seven, _ = _narrow(reference, inputs, SEVEN_BITS)
    return NumericsEvidence(
        candidate_rms_error=worst(answers),
        fp32_rms_error=worst(expected),
        ten_bits_rms_error=ten_bits,
        seven_bits_rms_error=worst(seven),
        products=products,
        elements=min(expected[i].numel() for i in floats),
    )


def _narrow(reference: Reference, inputs: Inputs, bits: int) -> tuple[list[torch.Tensor], int]:
    """Outputs with narrow products, and how many products there were; without any, of narrow inputs and outputs."""
    with RoundedProducts(bits) as mode:
        outputs = oracle.forward(reference.model, inputs, lambda t: t)
    if not mode.products:
        outputs = oracle.forward(reference.model, inputs, lambda t: rounded(t, bits))
        outputs = [rounded(t, bits) for t in outputs]
    return outputs, mode.products
