"""One generator's records to results/kernels/{generator}.parquet, one row per candidate."""

from pathlib import Path

from kbverified.aggregation import AggregationSettings, aggregate_generator, write_parquet
from kbverified.keys import STAGES, CandidateKey
from kbverified.rule_log import rule_log


def candidate_keys(records: list[str]) -> list[CandidateKey]:
    """Keys of the candidates whose records these are: paths results/{stage}/{tail}.json, one for each stage."""
    first = f"results/{STAGES[0]}/"
    return [CandidateKey.from_tail(path.removeprefix(first)) for path in records if path.startswith(first)]


def main(records: list[str], generator: str, settings: dict[str, object], out: Path) -> None:
    """Raises what aggregate_generator raises: a message with file, field and value in the rule's log."""
    table = aggregate_generator(
        Path("."), generator, candidate_keys(records), AggregationSettings.model_validate(settings)
    )
    write_parquet(table, out)


if __name__ == "__main__":
    with rule_log(snakemake.log[0]):  # noqa: F821
        main(
            list(snakemake.input.records),  # noqa: F821
            snakemake.wildcards.generator,  # noqa: F821
            dict(snakemake.params.settings),  # noqa: F821
            Path(snakemake.output.kernels),  # noqa: F821
        )
