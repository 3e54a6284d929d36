"""Run ``snakemake --lint`` and fail on whatever it finds, but for one advice that this workflow does not follow.

Snakemake asks for a conda environment or a container per rule. Here every rule runs in the one pip environment that
envs/constraints.txt pins, since the judge, its workers and the planning process have to agree on one torch.
"""

from __future__ import annotations

import subprocess
import sys

ON_PURPOSE = "Specify a conda environment or container for each rule."
TITLE, PLACE, CLEAN = "    * ", "Lints for ", "Congratulations"


def unexpected_lints(report: str) -> list[str]:
    """Findings in Snakemake's report, but for the one on purpose, each with the rule or file it is about.

    Raises ValueError for a report that holds no finding and does not say that all is well: lint itself failed.
    """
    found, place, titles = [], "", 0
    for line in report.splitlines():
        if line.startswith(PLACE):
            place = line.removeprefix(PLACE).rstrip(":")
        elif line.startswith(TITLE):
            titles += 1
            title = line.removeprefix(TITLE).rstrip(":")
            if not title.startswith(ON_PURPOSE):
                found.append(f"{place}: {title}")
    if not titles and CLEAN not in report:
        raise ValueError(report)
    return found


if __name__ == "__main__":
    done = subprocess.run([sys.executable, "-m", "snakemake", "--lint"], capture_output=True, text=True, check=False)
    sys.exit("\n".join(unexpected_lints(done.stderr + done.stdout)) or 0)
