"""Strategy: answers with what lies in the output's memory before anything was written there: in a harness that runs
    the reference first, its answer.
Layer: gate, outputs full of noise, and no reference before the answer is taken
Severity: high, nothing is computed
Verdict: wrong_value
Switch: poison
Device: any
Problem: relu
"""

import gc

import torch.nn as nn

from kbverified import layout


class ModelNew(nn.Module):
    def forward(self, x):
        (worker,) = [o for o in gc.get_objects() if type(o).__name__ == "Bootstrap"]
        (out,) = layout.views(worker.outputs_buffer.tensor, worker.layout["output_specs"])
        return out.clone()
