"""What is found of problems whose needs are known: parts of inputs, known outputs, repeated ones, tables, FLOPs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from kbverified.devices import open_device
from kbverified.devices.cpu import CpuDevice
from kbverified.judge import audit
from kbverified.judge.party import Settings
from kbverified.judge.reference import Reference
from kbverified.roofline import needs

HEAD = "import torch\nimport torch.nn as nn\n\n\n"


def reference(tmp_path: Path, body: str, inputs: str, init: str = "") -> Reference:
    """A problem whose model has these lines (``def forward`` and, if need be, ``def __init__``)."""
    lines = "\n".join(f"    {line}" for line in body.strip("\n").splitlines())
    text = f"{HEAD}class Model(nn.Module):\n{lines}\n\n\ndef get_inputs():\n    return [{inputs}]\n"
    path = tmp_path / "level1_1.py"
    path.write_text(f"{text}\n\ndef get_init_inputs():\n    return [{init}]\n")
    return Reference(path)


def found(tmp_path: Path, body: str, inputs: str) -> dict[str, Any]:
    one = reference(tmp_path, body, inputs)
    device = open_device("cpu")
    one.place(device)
    return needs.input_output_needs(one, device)


FORWARD = "def forward(self, x):\n    return {}"


def test_all_of_an_input_and_an_output_that_is_used(tmp_path: Path) -> None:
    one = found(tmp_path, FORWARD.format("x * 2.0"), "torch.rand(64, 64)")
    (need,) = one["input_needs"]
    assert (need.varying_bytes, need.probes, need.hits, need.needed_bytes) == (16384, 20, 20, 16384)
    assert one["output_needed_bytes"] == [16384]


def test_half_of_an_input(tmp_path: Path) -> None:
    (need,) = found(tmp_path, FORWARD.format("x[:, :32].contiguous()"), "torch.rand(64, 64)")["input_needs"]
    assert 0 < need.hits < need.probes
    assert 0 < need.needed_bytes < 8192, "never more than the half that is used"


def test_a_zero_that_every_draw_has_need_not_be_read_or_written(tmp_path: Path) -> None:
    one = found(tmp_path, FORWARD.format("torch.triu(x)"), "torch.triu(torch.rand(64, 64))")
    (need,) = one["input_needs"]
    # Of row i, sectors i // 8 to 7 hold a random value, and of the output 64 * 65 / 2 elements vary.
    assert need.varying_bytes == 32 * sum(8 - i // 8 for i in range(64)) == need.needed_bytes
    assert one["output_needed_bytes"] == [4 * 64 * 65 // 2]


def test_an_output_that_depends_on_no_input_needs_none(tmp_path: Path) -> None:
    one = found(tmp_path, FORWARD.format("(x - x) + 1.0"), "torch.rand(64, 64)")
    assert one["output_needed_bytes"] == [0]
    assert [need.needed_bytes for need in one["input_needs"]] == [0]


def test_an_input_that_is_not_used(tmp_path: Path) -> None:
    one = found(tmp_path, "def forward(self, x, y, k):\n    return x + k", "torch.rand(64), torch.rand(999), 3")
    first, second, number = one["input_needs"]
    assert first.needed_bytes == 256 and second.needed_bytes == 0 and number is None


def test_a_repeated_value_and_a_tensor_given_twice_count_once(tmp_path: Path) -> None:
    body = "def forward(self, x):\n    y = x.sum(1, keepdim=True).repeat(1, 512)\n    z = x + 1\n    return y, z, z"
    assert found(tmp_path, body, "torch.rand(64, 64)")["output_needed_bytes"] == [256, 16384, 0]


def test_a_relu_of_negative_inputs_is_written_all_the_same(tmp_path: Path) -> None:
    body = FORWARD.format("torch.relu(x)")
    assert found(tmp_path, body, "-torch.rand(64, 64)")["output_needed_bytes"] == [16384]


def test_integers_are_tried_with_another_draw(tmp_path: Path) -> None:
    body = "def forward(self, i, t):\n    return t[i[:64]]"
    one = found(tmp_path, body, "torch.randint(0, 10**6, (128,)), torch.arange(10**6) * 1.0")
    indices, table = one["input_needs"]
    assert indices.varying_bytes == 1024 and 0 < indices.needed_bytes < 512
    assert table.varying_bytes == 0 == table.needed_bytes


def test_the_least_of_a_row_needs_all_of_it(tmp_path: Path) -> None:
    """A gradient would say that only the least element matters; a NaN anywhere says that all were looked at."""
    (need,) = found(tmp_path, FORWARD.format("x.amin(1)"), "torch.rand(64, 64)")["input_needs"]
    assert need.hits == need.probes == 20
    (need,) = found(tmp_path, FORWARD.format("x.argmin(1)"), "torch.rand(64, 64)")["input_needs"]
    assert need.hits >= 17, "a NaN that lands where the least element was changes no index"


def test_a_reference_that_changes_its_input_is_no_trouble(tmp_path: Path) -> None:
    (need,) = found(tmp_path, FORWARD.format("x.add_(1.0) * 1.0"), "torch.rand(64, 64)")["input_needs"]
    assert need.needed_bytes == 16384


def test_a_reference_that_refuses_nan_has_looked_at_it(tmp_path: Path) -> None:
    body = (
        "def forward(self, x):\n    if x.isnan().any():\n        raise ValueError('NaN')\n    return x.clamp(max=2.0)"
    )
    (need,) = found(tmp_path, body, "torch.rand(64, 64)")["input_needs"]
    assert need.needed_bytes == 16384


def test_short_memory_is_no_figure_and_no_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(needs, "_input_needs", full)
    one = found(tmp_path, FORWARD.format("x + 1"), "torch.rand(8)")
    assert one == {"input_needs": None, "output_needed_bytes": None, "needs_why_not": "MemoryError: "}


# --- FLOPs and weights --------------------------------------------------------------------------------------
def layers(*made: str) -> str:
    lines = ["def __init__(self):", "    super().__init__()"]
    lines += [f"    self.l{i} = {layer}" for i, layer in enumerate(made)]
    return "\n".join(lines) + "\n"


def test_flops_by_the_flag_that_governs_them(tmp_path: Path) -> None:
    body = layers("nn.Conv2d(3, 8, 3, bias=False)", "nn.Linear(6, 10)", "nn.Linear(1000, 1000)")
    body += "def forward(self, x):\n    return self.l1(self.l0(x))"
    one = needs.count_work(reference(tmp_path, body, "torch.rand(2, 3, 8, 8)"))
    conv, linear = 2 * 2 * 8 * 6 * 6 * 3 * 9, 2 * (2 * 8 * 6) * 6 * 10
    assert (one["flops"], one["flops_cudnn"], one["flops_matmul"]) == (conv + linear, conv, linear)
    assert one["weight_needed_bytes"] == 4 * (3 * 8 * 9 + 60 + 10), "the layer that is not called is not read"


@pytest.mark.parametrize("kind", ["RNN", "LSTM", "GRU"])
def test_recurrent_layers_are_cudnns(tmp_path: Path, kind: str) -> None:
    body = layers(f"nn.{kind}(16, 32, batch_first=True)", "nn.Linear(32, 4)")
    body += "def forward(self, x):\n    return self.l1(self.l0(x)[0][:, -1])"
    one = needs.count_work(reference(tmp_path, body, "torch.rand(2, 5, 16)"))
    gates = {"RNN": 1, "LSTM": 4, "GRU": 3}[kind]
    assert one["flops_cudnn"] == 2 * 2 * 5 * gates * 32 * (16 + 32) and one["flops_matmul"] == 2 * 2 * 32 * 4
    before = torch.backends.mkldnn.enabled
    assert before is True, "the switch is put back"


def test_attention_counts_as_its_products(tmp_path: Path) -> None:
    body = FORWARD.format("nn.functional.scaled_dot_product_attention(x, x, x)")
    one = needs.count_work(reference(tmp_path, body, "torch.rand(2, 3, 16, 8)"))
    assert one["flops"] == one["flops_matmul"] == 2 * (2 * 2 * 3 * 16 * 16 * 8)


def test_of_a_table_only_the_rows_looked_up(tmp_path: Path) -> None:
    body = layers("nn.Embedding(100000, 16)") + "def forward(self, x):\n    return self.l0(x)"
    one = needs.count_work(reference(tmp_path, body, "torch.randint(0, 100000, (7,))"))
    assert one["weight_needed_bytes"] == 7 * 16 * 4
    small = needs.count_work(reference(tmp_path, body.replace("100000", "5"), "torch.randint(0, 5, (7,))"))
    assert small["weight_needed_bytes"] == 5 * 16 * 4


def test_a_constructor_that_looks_at_values_is_run_in_full(tmp_path: Path) -> None:
    body = layers("nn.Linear(8, int(torch.tensor(4.0).item()))") + "def forward(self, x):\n    return self.l0(x)"
    assert needs.count_work(reference(tmp_path, body, "torch.rand(2, 8)"))["flops"] == 2 * 2 * 8 * 4


def test_a_forward_that_looks_at_values_has_no_figure(tmp_path: Path) -> None:
    body = FORWARD.format("x if x.sum().item() > 0 else x @ x")
    assert set(needs.count_work(reference(tmp_path, body, "torch.rand(4, 4)")).values()) == {None}


LOOKED_UP = "torch.randint(0, 64, (64, 64)).float()"


def test_a_device_that_a_probe_ends_costs_the_needs_and_nothing_else(tmp_path: Path, monkeypatch: Any) -> None:
    """On a GPU a NaN as an index fails an assert, and from then on every call of this process fails."""
    body = """
def forward(self, x):
    if torch.isnan(x).any():
        Model.lost = True
    if getattr(Model, "lost", False):
        raise RuntimeError("CUDA error: device-side assert triggered")
    return torch.arange(64.0)[x.long().clamp(0, 63)]
"""
    one = reference(tmp_path, body, LOOKED_UP)

    class Fragile(CpuDevice):
        def synchronize(self) -> None:
            if getattr(one.problem.Model, "lost", False):
                raise RuntimeError("CUDA error: device-side assert triggered")

        def release_cached(self) -> None:
            self.synchronize()

    fragile = Fragile()
    monkeypatch.setattr(audit, "open_device", lambda *_: fragile)
    monkeypatch.setattr(audit, "Reference", lambda _: one)
    settings = Settings("cpu", "none", "fp32", 60.0, tmp_path / "build", threads=1)
    fields, info, _ = audit.run(tmp_path / "level1_1.py", settings)
    assert (fields["input_needs"], fields["output_needed_bytes"]) == (None, None)
    assert "DeviceLost" in fields["needs_why_not"] and "device-side assert" in fields["needs_why_not"]
    assert fields["usable"] and len(fields["distributions"]) == 4 and info.kind == "cpu"


def test_a_reference_that_refuses_nan_is_an_answer_on_a_device_that_lives(tmp_path: Path) -> None:
    one = found(tmp_path, FORWARD.format("torch.arange(64.0)[x.long()]"), LOOKED_UP)
    (need,) = one["input_needs"]
    assert need.hits == need.probes > 0 and "needs_why_not" not in one
