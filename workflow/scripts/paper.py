"""One topic's tables, figures and findings below results/paper/, or, without a topic, findings.md from all topics."""

from pathlib import Path

from kbverified.aggregation import AggregationSettings
from kbverified.keys import ProblemKey
from kbverified.paper import build
from kbverified.paper.inputs import load
from kbverified.rule_log import rule_log


def main(
    topic: str | None,
    kernels: list[str],
    audits: list[str],
    leaderboard: str,
    labels: list[str],
    published: list[str],
    settings: dict[str, object],
    told: dict[str, object],
    folder: Path,
) -> None:
    """``told``: what load is told by name.

    Raises what load and write_topic raise: a message with file, field and value in the rule's log.
    """
    inputs = load(
        Path("."),
        [Path(path).stem for path in kernels],
        [ProblemKey.from_path(Path(path)) for path in audits],
        AggregationSettings.model_validate(settings),
        published=Path(published[0]) if published else None,
        leaderboard_path=Path(leaderboard),
        labels_path=Path(labels[0]) if labels else None,
        **told,
    )
    if topic is None:
        build.write_findings(inputs, folder)
    else:
        build.write_topic(build.topic(topic), inputs, folder)


if __name__ == "__main__":
    with rule_log(snakemake.log[0]):  # noqa: F821
        main(
            snakemake.params.topic,  # noqa: F821
            list(snakemake.input.kernels),  # noqa: F821
            list(snakemake.input.audits),  # noqa: F821
            snakemake.input.leaderboard,  # noqa: F821
            list(snakemake.input.get("labels", [])),  # noqa: F821
            list(snakemake.input.get("published", [])),  # noqa: F821
            dict(snakemake.params.settings),  # noqa: F821
            dict(snakemake.params.told),  # noqa: F821
            Path(snakemake.output[0]).parents[1 if snakemake.params.topic else 0],  # noqa: F821
        )
