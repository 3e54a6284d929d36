"""All generators' tables and the problem audits to results/leaderboard.json, .csv and .md."""

import contextlib
import sys
from pathlib import Path

from kbverified import leaderboard
from kbverified.aggregation import AggregationSettings, load_problems
from kbverified.kernel_table import read_parquet
from kbverified.keys import ProblemKey


def main(kernels: list[str], audits: list[str], settings: dict[str, object], out: Path) -> None:
    """Raises what leaderboard.build raises: a message with file, field and value in the rule's log."""
    tables = {Path(path).stem: read_parquet(Path(path)) for path in kernels}
    keys = [ProblemKey(Path(path).parent.name, Path(path).stem) for path in audits]
    problems = load_problems(Path("."), keys)
    leaderboard.write(leaderboard.build(tables, problems, AggregationSettings.model_validate(settings)), out)


if __name__ == "__main__":
    with (
        open(snakemake.log[0], "w", encoding="utf-8") as log,  # noqa: F821
        contextlib.redirect_stdout(log),
        contextlib.redirect_stderr(log),
    ):
        try:
            main(
                list(snakemake.input.kernels),  # noqa: F821
                list(snakemake.input.audits),  # noqa: F821
                dict(snakemake.params.settings),  # noqa: F821
                Path(snakemake.output.json).parent,  # noqa: F821
            )
        except ValueError as error:
            print(error, file=log)
            sys.exit(1)
