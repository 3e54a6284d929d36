"""Does a problem's reference run at these sizes, and what shapes does it answer with? On fake tensors, without a GPU.

Reads the paths of problems from standard input, one a line, and prints one JSON line each: ``{"problem", "shapes"}``,
or ``{"problem", "error"}`` where the module does not load, or Model refuses its arguments or its inputs. Fake tensors
have shapes and no data: 4 GiB of inputs cost nothing. Problems are trusted code.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils import _pytree

from kbverified import problems


def shapes(path: Path) -> list[list[int]]:
    """Of every tensor in the reference's output. Raises what the problem raises."""
    with FakeTensorMode(allow_non_fake_inputs=True), torch.no_grad():
        problem = problems.load(path)
        model = problem.Model(*problem.get_init_inputs())
        output = model(*problem.get_inputs())
    return [list(leaf.shape) for leaf in _pytree.tree_leaves(output) if isinstance(leaf, torch.Tensor)]


def answer(path: Path) -> dict[str, Any]:
    """A problem's line."""
    try:
        return {"problem": str(path), "shapes": shapes(path)}
    except Exception as error:  # a reference that refuses a size says so in its own way
        return {"problem": str(path), "error": f"{type(error).__name__}: {error}"[:300]}


if __name__ == "__main__":
    for line in sys.stdin.read().splitlines():
        print(json.dumps(answer(Path(line))), flush=True)
