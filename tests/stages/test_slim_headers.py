"""Slim headers in the sandbox: a worker builds with them, and cannot change them for others."""

from __future__ import annotations

from pathlib import Path

from stage_places import HONEST, Place

CANDIDATE = (
    HONEST
    + '''
import glob
from torch.utils.cpp_extension import load_inline
folders = glob.glob("PCH/slim-*")
for path in [f + "/index.json" for f in folders] + [f + "/kbv/base.h" for f in folders]:
    for attempt in (lambda: open(path, "a"), lambda: __import__("os").unlink(path)):
        try:
            attempt()
            print("changed", path)
        except OSError:
            print("refused")
extension = load_inline("mine", """#include <torch/types.h>
extern "C" __attribute__((visibility("default"))) int mine() { return torch::zeros({2}).numel(); }
""", no_implicit_headers=True, is_python_module=False)
'''
)


def test_a_worker_builds_with_slim_headers_and_cannot_change_them(place: Place):
    root = Path(place.bench.options[place.bench.options.index("--build-root") + 1])
    item = place.item(CANDIDATE.replace("PCH", str(root / "pch")), 70)
    assert place.stage("compile", item).returncode == 0
    record = place.record("compile", item)
    (build,) = record["builds"]
    assert build["ok"] and build["log_tail"] == "headers: slim", build
    assert "refused" in record["output_tail"] and "changed" not in record["output_tail"]
    assert place.stage("hidden-gate", item).returncode == 0
    assert place.record("hidden-gate", item)["verdict"] == "pass"
