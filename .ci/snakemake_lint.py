"""Run ``snakemake --lint`` and fail on whatever it finds, but for one rule that this workflow breaks on purpose.

Snakemake asks for a conda environment or a container per rule. Here every rule runs in the one pip environment that
envs/constraints.txt pins, since the judge, its workers and the planning process have to agree on one torch.
"""

from __future__ import annotations

import json
import subprocess
import sys

ON_PURPOSE = {"Specify a conda environment or container for each rule."}


def lints() -> list[str]:
    """One line per finding. Raises RuntimeError where Snakemake itself fails."""
    done = subprocess.run(
        [sys.executable, "-m", "snakemake", "--lint", "json"], capture_output=True, text=True, check=False
    )
    if not done.stdout.strip():
        raise RuntimeError(f"snakemake --lint ended with {done.returncode}:\n{done.stderr}")
    found = json.loads(done.stdout)
    places = [
        (place["for"], lint)
        for kind in ("rules", "snakefiles")
        for place in found.get(kind) or ()
        for lint in place["lints"]
    ]
    return [f"{place}: {lint['title']}" for place, lint in places if lint["title"] not in ON_PURPOSE]


if __name__ == "__main__":
    sys.exit("\n".join(lints()) or 0)
