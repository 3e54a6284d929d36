"""The configuration: what to evaluate, on what, and how long a stage may take.

These models are the source. The schemas in ``workflow/schemas/`` are generated from them and from the generators'
model (``python -m kbverified.config``), and a test fails where they differ. Torch-free.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator, model_validator

from kbverified import protocol
from kbverified.keys import BASELINE_STAGES, NAME_PATTERN, PROBLEM_PATTERN, Baseline
from kbverified.llm_judges.settings import LlmJudges
from kbverified.metrics import Arm
from kbverified.records.generation import Hardware

Device = Literal["auto", "cuda", "cpu"]
Sandbox = Literal["auto", "full", "user", "none"]


class ConfigError(ValueError):
    """A configuration that cannot be used. The message names file, key and value."""


class Section(BaseModel):
    """Base of every part of the configuration: frozen, and an unknown key is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def _checked_problems(problems: tuple[str, ...] | str) -> tuple[str, ...] | str:
    for problem in problems if isinstance(problems, tuple) else ():
        if not re.fullmatch(rf"({NAME_PATTERN}/)?{PROBLEM_PATTERN}", problem):
            raise ValueError(f"{problem!r} is no problem: write level1_19 or suite/level1_19")
    return problems


class Selection(Section):
    """Which candidates and problems. ``all`` stands for everything that is there."""

    suites: tuple[str, ...] = Field(default=("bundled",), min_length=1)
    """Folders of ``problems/``."""
    generators: tuple[str, ...] | Literal["all"] = "all"
    """Rows of the generators table."""
    levels: tuple[int, ...] | Literal["all"] = "all"
    problems: tuple[str, ...] | Literal["all"] = "all"
    """``level1_19``, or ``kernelbench/level1_19`` for one suite only."""
    samples: tuple[int, ...] | Literal["all"] = "all"
    """Sample numbers. For an API generator ``all`` means the number of samples in its row."""

    @field_validator("suites")
    @classmethod
    def _suites_are_names(cls, suites: tuple[str, ...]) -> tuple[str, ...]:
        for suite in suites:
            if not re.fullmatch(NAME_PATTERN, suite):
                raise ValueError(f"{suite!r} is no suite name ({NAME_PATTERN})")
        return suites

    @field_validator("problems")
    @classmethod
    def _problems_are_keys(cls, problems: tuple[str, ...] | str) -> tuple[str, ...] | str:
        return _checked_problems(problems)


class Tau(Section):
    """Tolerance per dtype, applied at aggregation: the critical tolerance of a pass is at most this."""

    fp32: float = Field(default=protocol.TAU["fp32"], gt=0, allow_inf_nan=False)
    bf16: float = Field(default=protocol.TAU["bf16"], gt=0, allow_inf_nan=False)


class Timeouts(Section):
    """Seconds that a candidate's (or problem's) process may take in each stage.

    A timeout is a verdict on the candidate. Changing one reruns nothing by itself: see config/README.md.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    audit_problem: int = Field(default=600, gt=0, alias="audit-problem")
    compile: int = Field(default=600, gt=0)
    hidden_gate: int = Field(default=300, gt=0, alias="hidden-gate")
    time_fp32: int = Field(default=300, gt=0, alias="time-fp32")
    time_tf32: int = Field(default=300, gt=0, alias="time-tf32")
    time_ieee: int = Field(default=300, gt=0, alias="time-ieee")
    time_compile: int = Field(default=300, gt=0, alias="time-compile")
    memory: int = Field(default=120, gt=0)

    def of(self, stage: str) -> int:
        """Seconds for a stage by its name in ``keys.EVERY_STAGE``, or ``audit-problem``."""
        return int(getattr(self, stage.replace("-", "_")))


class Timing(Section):
    budget_s: float = Field(default=1.5, gt=0, allow_inf_nan=False)
    """Seconds of a device that the rounds of one timing stage may take; ten are made in any case."""


class Prompts(Section):
    """Which problems an API generator is asked about without their numbers (docs/prompts.md)."""

    input_blind: tuple[str, ...] | Literal["all", "none"] = ("level1_90", "level1_100", "level3_35", "level3_47")
    """``level1_19``, or ``kernelbench/level1_19`` for one suite only. The default is arXiv 2607.16241's."""
    never_blind: tuple[str, ...] = ("level2_83", "level3_33", "level3_41")
    """Left out of ``all``, and of generators whose prompt is input-blind: their Model reads a constant of its module,
    in KernelBench."""

    @field_validator("input_blind", "never_blind")
    @classmethod
    def _problems_are_keys(cls, problems: tuple[str, ...] | str) -> tuple[str, ...] | str:
        return _checked_problems(problems)

    @model_validator(mode="after")
    def _not_both(self) -> Prompts:
        both = [name for name in self.never_blind if name in self._listed]
        if both:
            raise ValueError(f"{', '.join(both)} is named in input_blind and in never_blind")
        return self

    def is_blind(self, suite: str, problem: str, always: bool = False) -> bool:
        """Whether a problem is asked blind. ``always``: the generator's own prompt is input-blind."""
        names = {problem, f"{suite}/{problem}"}
        everything = always or self.input_blind == "all"
        return not names.isdisjoint(self._listed) or (everything and names.isdisjoint(self.never_blind))

    @property
    def _listed(self) -> tuple[str, ...]:
        return () if isinstance(self.input_blind, str) else self.input_blind


class HardwareFigures(Hardware):
    """What prompts tell about the device where the machine that asks has none: a cluster's head node.

    ``kbverified prompt --hardware`` prints the section for the machine it runs on.
    """

    # A section may be empty: of a record's fields only this one is another.
    name: str | None = Field(default=None, min_length=1, pattern=r"^[^\x00-\x1f]*$")  # type: ignore[assignment]

    @model_validator(mode="after")
    def _figures_have_a_name(self) -> HardwareFigures:
        if self.name is None and self.model_dump(exclude_none=True):
            raise ValueError("figures of a device need its name")
        return self


class Compile(Section):
    arch: str | None = Field(default=None, pattern=r"^\d+\.\d[af]?$")
    """CUDA architecture to build for, as ``9.0``. None: that of the GPU in this machine."""


class Paper(Section):
    """What ``snakemake paper`` is told beyond what the run itself says. No record depends on it."""

    taus: tuple[Annotated[float, Field(gt=0, allow_inf_nan=False)], ...] = Field(
        default=(1e-2, 1e-3, 1e-4), min_length=1
    )
    """Tolerances of the sensitivity tables and figures, from critical tolerances that are already measured."""
    published: str | None = None
    """JSON file of published numbers that stand beside the measured ones, in the shape of config/published.json."""
    published_suite: str = "kernelbench"
    """The suite that the published numbers are about."""
    names: dict[str, str] = Field(default_factory=dict)
    """What a generator is called in the published numbers, where that is not its own name."""
    references: tuple[str, ...] = ()
    """Generators that consist of renamed references (python -m benchmarks.references): the A/A study."""

    @field_validator("taus")
    @classmethod
    def _taus_are_named_once(cls, taus: tuple[float, ...]) -> tuple[float, ...]:
        if len(set(taus)) < len(taus):
            raise ValueError("each tolerance is named once")
        return taus


class Settings(Section):
    """The whole configuration."""

    selection: Selection = Selection()
    generators_tsv: str = "config/generators.tsv"
    """The table of generators."""
    device: Device = "auto"
    """``auto``: cuda where a GPU is there, else cpu."""
    sandbox: Sandbox = "auto"
    """``auto``: the strongest level that this machine allows. The level reached is in every record."""
    gate_mode: Literal["ieee", "default"] = "ieee"
    """Precision mode of both sides in the hidden gate; ``default`` is that of the published run."""
    tau: Tau = Tau()
    timeouts_s: Timeouts = Timeouts()
    compile: Compile = Compile()
    timing: Timing = Timing()
    build_root: str = ".build"
    """Where extensions are built, outside results; may be deleted at any time."""
    evaluator: bool = False
    """Fork judges and workers from a warm process instead of importing torch in each. No verdict depends on it."""
    allow_mixed_environments: bool = False
    """Aggregate records of different devices, drivers or torch versions into one table."""
    baselines: tuple[Baseline, ...] = ()
    """Optional baselines: each adds a timing stage and an arm of its name."""
    headline_arm: Arm = "matched"
    prompts: Prompts = Prompts()
    hardware: HardwareFigures = HardwareFigures()
    llm_judges: LlmJudges = LlmJudges()
    """Language models that audit the fastest verified candidates. None: nobody is asked."""
    paper: Paper = Paper()

    @field_validator("baselines")
    @classmethod
    def _baselines_are_named_once(cls, baselines: tuple[Baseline, ...]) -> tuple[Baseline, ...]:
        if len(set(baselines)) < len(baselines):
            raise ValueError("each baseline is named once")
        return baselines

    @field_validator("headline_arm")
    @classmethod
    def _headline_is_measured(cls, arm: Arm, info: ValidationInfo) -> Arm:
        # Where baselines itself is wrong, it is not among the data, and its own error is enough.
        if arm in BASELINE_STAGES and arm not in info.data.get("baselines", (arm,)):
            raise ValueError(
                f"the {arm} arm needs the baseline of its name: add {arm} to baselines, or choose naive, published or "
                "matched"
            )
        return arm

    def aggregation(self) -> dict[str, Any]:
        """What interprets records, as ``AggregationSettings`` takes it. The rest is about stages."""
        return {
            "tau": self.tau.model_dump(),
            "allow_mixed": self.allow_mixed_environments,
            "baselines": self.baselines,
            "headline_arm": self.headline_arm,
        }


# --- schemas ------------------------------------------------------------------------------------------------

SCHEMA_FOLDER = Path("workflow/schemas")


def schema_texts() -> dict[str, str]:
    """The JSON schemas of the configuration and of a row of the generators table, by file name."""
    from kbverified.generators import GeneratorSpec

    models: dict[str, type[BaseModel]] = {"config": Settings, "generators": GeneratorSpec}
    return {
        f"{name}.schema.json": json.dumps(
            {"$schema": "https://json-schema.org/draft/2020-12/schema", **model.model_json_schema(by_alias=True)},
            indent=2,
        )
        + "\n"
        for name, model in models.items()
    }


if __name__ == "__main__":
    for file_name, text in schema_texts().items():
        (SCHEMA_FOLDER / file_name).write_text(text, encoding="utf-8")
