"""All generators' tables and the problem audits to results/leaderboard.json, .csv and .md."""

from pathlib import Path

from kbverified import leaderboard
from kbverified.aggregation import AggregationSettings, load_problems
from kbverified.kernel_table import read_parquet
from kbverified.keys import ProblemKey
from kbverified.llm_judges.records import Labels
from kbverified.records.files import read
from kbverified.rule_log import rule_log


def main(kernels: list[str], audits: list[str], labels: list[str], settings: dict[str, object], out: Path) -> None:
    """Raises what leaderboard.build raises: a message with file, field and value in the rule's log."""
    tables = {Path(path).stem: read_parquet(Path(path)) for path in kernels}
    keys = [ProblemKey.from_path(Path(path)) for path in audits]
    problems = load_problems(Path("."), keys)
    known = AggregationSettings.model_validate(settings)
    audited = read(Path(labels[0]), Labels) if labels else None
    leaderboard.write(leaderboard.build(tables, problems, known, labels=audited), out)


if __name__ == "__main__":
    with rule_log(snakemake.log[0]):  # noqa: F821
        main(
            list(snakemake.input.kernels),  # noqa: F821
            list(snakemake.input.audits),  # noqa: F821
            list(snakemake.input.get("labels", [])),  # noqa: F821
            dict(snakemake.params.settings),  # noqa: F821
            Path(snakemake.output.json).parent,  # noqa: F821
        )
