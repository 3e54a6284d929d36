"""Whom LLM judges are asked about, whom to ask besides, or the label of every candidate: what the rule's step says."""

from pathlib import Path

from kbverified.llm_judges import plan
from kbverified.llm_judges.settings import LlmJudges
from kbverified.rule_log import rule_log

INPUTS = ("kernels", "chosen", "judgements", "besides")


def listed(paths: object) -> list[str]:
    return [paths] if isinstance(paths, str) else list(paths)


def main(step: str, inputs: dict[str, list[str]], settings: LlmJudges, told: dict[str, object], out: list[str]) -> None:
    """Raises what the functions of plan raise: a message with file, field and value in the rule's log."""
    paths = {name: [Path(path) for path in several] for name, several in inputs.items()}
    if step == "chosen":
        made = plan.write_chosen(paths["kernels"], settings, dict(told["models"]), Path(out[0]))
        print(f"{len(made.candidates)} of {made.n_verified} verified candidates; too few judges: {made.too_few_judges}")
    elif step == "substitutes":
        print(len(plan.write_substitutes(paths["chosen"][0], paths["judgements"], Path(out[0])).judges), "to ask again")
    else:
        judgements = [*paths["judgements"], *paths["besides"]]
        files = (paths["chosen"][0], paths["kernels"], judgements, settings, Path(out[0]), Path(out[1]))
        print(len(plan.write_labels(*files).candidates), "labels")


if __name__ == "__main__":
    with rule_log(snakemake.log[0]):  # noqa: F821
        main(
            snakemake.params.step,  # noqa: F821
            {name: listed(snakemake.input.get(name, [])) for name in INPUTS},  # noqa: F821
            LlmJudges.model_validate(snakemake.params.settings),  # noqa: F821
            dict(snakemake.params.get("told", {})),  # noqa: F821
            list(snakemake.output),  # noqa: F821
        )
