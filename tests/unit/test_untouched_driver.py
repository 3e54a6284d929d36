"""Nothing asks the CUDA driver before a GPU is leased: it reads CUDA_VISIBLE_DEVICES when it is first asked.

torch's CUDA entry points are replaced by ones that keep count, so this needs no GPU and no torch with CUDA.
"""

import json
import os
import subprocess
import sys

import pytest

COUNTING = """
import json, sys
from pathlib import Path
from kbverified import lease
if sys.argv[1] == "untouched":
    lease.leave_driver_untouched()
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

FakeTensorMode()  # its imports, while torch still is what it is
asked, now = [], ""
torch.version.cuda = "13.0"
torch._C._cuda_getDeviceCount = lambda: asked.append(now) or 2
torch.cuda._device_count_nvml = lambda: 2
from kbverified.roofline.needs import count_work
from kbverified.judge.reference import Reference

now = "a problem's own question"
reference = Reference(Path(sys.argv[2]))
now = "fake tensors"
count_work(reference)
now = "the extension builder"
import torch.utils.cpp_extension
print(json.dumps(asked))
"""
PROBLEM = """
import torch
print("a problem may ask at import:", torch.cuda.is_available())
class Model(torch.nn.Module):
    def forward(self, a, b):
        return a @ b
def get_inputs():
    return [torch.rand(8, 16), torch.rand(16, 4)]
def get_init_inputs():
    return []
"""


@pytest.mark.parametrize("how", ["untouched", "as torch is"])
def test_what_happens_before_a_lease_leaves_the_driver_alone(tmp_path, how):
    problem = tmp_path / "level1_1.py"
    problem.write_text(PROBLEM)
    environment = {**os.environ, "CUDA_HOME": str(tmp_path)}  # the extension builder asks only where it finds a CUDA
    environment.pop("PYTORCH_NVML_BASED_CUDA_CHECK", None)
    done = subprocess.run(
        [sys.executable, "-c", COUNTING, how, str(problem)],
        capture_output=True, text=True, check=False, env=environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    asked = set(json.loads(done.stdout.splitlines()[-1]))
    every = {"a problem's own question", "fake tensors", "the extension builder"}
    assert asked == (set() if how == "untouched" else every)
