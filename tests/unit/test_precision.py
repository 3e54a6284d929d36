"""Precision modes: what is set is what is read back, through either of torch's two interfaces."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from kbverified import precision

EXPECTED = {"ieee": (False, False), "default": (False, True), "tf32": (True, True)}


@pytest.fixture(autouse=True)
def restored():
    yield
    precision.set_mode("default")


@pytest.mark.parametrize("before", EXPECTED)
@pytest.mark.parametrize("mode", EXPECTED)
def test_a_mode_sets_both_flags_whatever_they_were(before, mode):
    precision.set_mode(before)
    precision.set_mode(mode)
    flags = precision.read_flags()
    assert (flags.matmul_tf32, flags.cudnn_tf32) == EXPECTED[mode]
    assert (torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32) == EXPECTED[mode]
    assert flags.matmul_precision == ("high" if mode == "tf32" else "highest")


def test_default_is_what_torch_ships():
    code = "from kbverified import precision; print(precision.read_flags().model_dump_json())"
    fresh = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    precision.set_mode("default")
    assert fresh.strip() == precision.read_flags().model_dump_json()


def test_an_unknown_mode_is_named():
    with pytest.raises(ValueError, match="'fp16' is none of ieee, default, tf32"):
        precision.set_mode("fp16")


def test_every_flag_is_seen():
    precision.set_mode("ieee")
    plain = precision.read_flags()
    assert (plain.cudnn_benchmark, plain.deterministic, plain.default_dtype) == (False, False, "float32")
    try:
        torch.backends.cudnn.benchmark = True
        torch.use_deterministic_algorithms(True)
        torch.set_default_dtype(torch.float64)
        torch.set_float32_matmul_precision("medium")
        found = precision.read_flags()
    finally:
        torch.backends.cudnn.benchmark = False
        torch.use_deterministic_algorithms(False)
        torch.set_default_dtype(torch.float32)
        torch.set_float32_matmul_precision("highest")
    assert (found.cudnn_benchmark, found.deterministic, found.default_dtype) == (True, True, "float64")
    assert found.matmul_precision == "medium" and found.matmul_tf32 is True


# torch's newer interface refuses to be read through the older one once the two were mixed.
NEWER = """
import torch
from kbverified import precision
precision.set_mode("ieee")
if not hasattr(torch.backends.cuda.matmul, "fp32_precision"):
    raise SystemExit("skip")
{setting}
flags = precision.read_flags()
print(flags.matmul_tf32, flags.cudnn_tf32)
"""


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ('torch.backends.cuda.matmul.fp32_precision = "tf32"', "True False"),
        ('torch.backends.cudnn.conv.fp32_precision = "tf32"', "False True"),
        ('torch.backends.cudnn.rnn.fp32_precision = "tf32"', "False True"),
        ('torch.backends.cudnn.fp32_precision = "tf32"', "False True"),
        ('torch.backends.fp32_precision = "tf32"', "False True"),  # matmul was set by its own name, which wins
        ('torch.backends.cuda.matmul.fp32_precision = "tf32"; precision.set_mode("ieee")', "False False"),
        ("pass", "False False"),
    ],
)
def test_a_candidate_that_uses_the_newer_interface_is_seen(setting, expected):
    code = NEWER.format(setting=setting)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    if "skip" in done.stderr:
        pytest.skip("this torch has only the older interface")
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == expected
