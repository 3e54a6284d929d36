"""Kernel tables, audits, the leaderboard and the records behind them to results/leaderboard.html."""

from pathlib import Path

from kbverified.aggregation import AggregationSettings
from kbverified.keys import ProblemKey
from kbverified.page import build
from kbverified.rule_log import rule_log


def main(kernels: list[str], audits: list[str], leaderboard: str, settings: dict[str, object], out: str) -> None:
    """Raises what build.write raises: a message with file, field and value in the rule's log."""
    keys = [ProblemKey.from_path(Path(path)) for path in audits]
    known = AggregationSettings.model_validate(settings)
    build.write(Path("."), [Path(path) for path in kernels], keys, Path(leaderboard), known, Path(out))


if __name__ == "__main__":
    with rule_log(snakemake.log[0]):  # noqa: F821
        main(
            list(snakemake.input.kernels),  # noqa: F821
            list(snakemake.input.audits),  # noqa: F821
            snakemake.input.leaderboard,  # noqa: F821
            dict(snakemake.params.settings),  # noqa: F821
            snakemake.output.page,  # noqa: F821
        )
