"""``make test-gpu``: run the GPU tests and leave a report with date and environment.

    python tests/gpu/run.py [--out FOLDER] [pytest arguments]

The report (gpu-tests.md) belongs into docs/runs/.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import os
import platform
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from pathlib import Path

HERE = Path(__file__).parent


def environment() -> list[str]:
    """Lines about the machine: GPU, driver, Python, torch, compilers, commit."""
    smi = ["nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"]
    lines = [f"date: {datetime.datetime.now(datetime.UTC):%Y-%m-%d %H:%M} UTC", f"python: {platform.python_version()}"]
    lines += [f"{name}: {importlib.metadata.version(name)}" for name in ("torch", "triton", "cuda-bindings")]
    lines += [f"gpu: {_last_line(smi)}", f"nvcc: {_last_line(['nvcc', '--version'])}"]
    # A copy of the tree may come with a repository that names another commit, or with none.
    lines.append(f"commit: {os.environ.get('KBV_REVISION') or _last_line(['git', 'rev-parse', 'HEAD'])}")
    return [*lines, f"cores: {os.cpu_count()}, kernel: {platform.release()}"]


def _last_line(command: list[str]) -> str:
    """Of what a command prints."""
    try:
        out = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    except FileNotFoundError:
        out = ""
    return (out.splitlines() or ["not there"])[-1]


def report(junit: Path, wall_s: float) -> str:
    """Markdown: environment, counts, and each test with its outcome and seconds."""
    suite = ElementTree.parse(junit).getroot().find("testsuite")
    assert suite is not None
    rows = []
    for case in suite.iter("testcase"):
        bad = next((child.tag for child in case if child.tag in ("failure", "error", "skipped")), None)
        rows.append(f"| {case.get('name')} | {bad or 'passed'} | {float(case.get('time', 0)):.1f} |")
    counts = ", ".join(f"{suite.get(key)} {key}" for key in ("tests", "failures", "errors", "skipped"))
    head = ["# GPU tests", "", *(f"- {line}" for line in environment()), f"- wall: {wall_s:.0f} s", f"- {counts}", ""]
    return "\n".join([*head, "| test | outcome | s |", "|---|---|---|", *rows, ""])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("results/gpu-tests"))
    arguments, rest = parser.parse_known_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    junit = arguments.out / "gpu-tests.xml"
    os.environ.setdefault("KBV_GPU_TEST_OUT", str((arguments.out / "records").absolute()))
    start = time.monotonic()
    tests = subprocess.Popen([sys.executable, "-m", "pytest", str(HERE), f"--junitxml={junit}", "-rfE", *rest])
    try:
        code = tests.wait()
    except KeyboardInterrupt:  # pytest has got it as well: what was tested until now is worth its report
        code = tests.wait()
    if junit.exists():
        (arguments.out / "gpu-tests.md").write_text(report(junit, time.monotonic() - start))
        print(f"report: {arguments.out / 'gpu-tests.md'}")
    return code


if __name__ == "__main__":
    raise SystemExit(main())
