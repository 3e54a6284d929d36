"""Changes that a kernel's text shows to change nothing are no mutants; those beside them are."""

from __future__ import annotations

import pytest

from benchmarks.mutation import idle, mutants

KERNEL = """
__global__ void add(const float* x, float* y, int n) {
    int stride = gridDim.x * blockDim.x;
    for (int i = threadIdx.x; i < n; i += stride) { y[i] = x[i] * w; }
    for (int tile = 0; tile < n; tile += TILE) { y[tile] += 1.0f; }
    for (int k = 0; k < n; k += 1) { y[k] += 1.0f; }
}
int blocks(int n) { return (n + 255) / 256; }
int launched(int n, int t) { return (n + t - 1) / t; }
"""
SOURCE = f'source = r"""{KERNEL}"""\n'


def changes(source: str, operator: str, kept: bool) -> list[str]:
    every = mutants.of_parent("p", "level1_1", "cuda", source)
    left = idle.without(every, source)
    assert left == [m for m in every if m in left]  # their order
    return [m.change for m in (left if kept else [m for m in every if m not in left]) if m.operator == operator]


@pytest.mark.parametrize("operator", ["loop-end-early", "loop-end-late", "loop-rounded-down"])
def test_a_loop_from_a_number_in_larger_steps_takes_as_many(operator):
    (dropped,) = changes(SOURCE, operator, kept=False)
    assert "tile += TILE" in dropped
    kept = changes(SOURCE, operator, kept=True)
    assert len(kept) == 2 and "threadIdx" in kept[0] and "k += 1" in kept[1]


def test_a_strided_grid_takes_any_number_of_blocks_and_any_stride():
    assert len(changes(SOURCE, "blocks-rounded-down", kept=False)) == 1
    assert changes(SOURCE, "blocks-rounded-down", kept=True) == []
    (dropped,) = changes(SOURCE, "factor-dropped", kept=False)
    assert "gridDim.x" in dropped
    assert any("x[i] * w" in change for change in changes(SOURCE, "factor-dropped", kept=True))


def test_without_a_strided_grid_blocks_are_rounded_down():
    assert len(changes(SOURCE.replace("gridDim.x * blockDim.x", "32"), "blocks-rounded-down", kept=True)) == 1


def test_a_start_that_is_late_is_a_fault_in_any_steps():
    assert len(changes(SOURCE, "loop-start-late", kept=True)) == 3
