"""What a model is asked: one turn, from the Jinja templates in ``workflow/prompts/``.

``build`` makes the messages and says what went into them; ``docs/prompts.md`` explains both variants.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from kbverified.prompts.templates import Templates
from kbverified.records.base import Dtype
from kbverified.records.generation import Hardware, PromptFacts, PromptTarget, PromptVariant

if TYPE_CHECKING:
    from kbverified.config import Settings
    from kbverified.generators import GeneratorSpec

_DTYPES = {"fp32": "float32", "bf16": "bfloat16"}
_TEMPLATE = {"standard": "standard.jinja", "input-blind": "input_blind.jinja"}
_DEFAULT_TARGETS: dict[str, tuple[PromptTarget, ...]] = {"cuda": ("cuda", "triton"), "cpu": ("cpp",)}


@dataclass(frozen=True)
class Request:
    """What a generator and the configuration decide about a prompt."""

    device: str = "cuda"
    """``cuda`` or ``cpu``."""
    dtype: Dtype = "fp32"
    target: PromptTarget | None = None
    """Language of the kernels; None: C++ on a CPU, CUDA C++ or Triton on a GPU."""
    variant: PromptVariant = "standard"
    hardware: Hardware | None = None
    """What is told about the device; ``hardware_from`` says who said so."""
    hardware_from: str | None = None


@dataclass(frozen=True)
class Prompt:
    messages: list[dict[str, str]]
    facts: PromptFacts
    sha256: str = field(init=False)
    """Over the messages as sent."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "sha256", sha256(self.messages))


def sha256(messages: list[dict[str, str]]) -> str:
    """Sha256 (hex) over the messages as sent."""
    return hashlib.sha256(json.dumps(messages, sort_keys=True).encode()).hexdigest()


def build(problem: Path, request: Request, root: Path = Path(".")) -> Prompt:
    """The chat messages that ask for a candidate, and what they were made from.

    ``root`` holds ``workflow/prompts/``; without one the templates of this repository are used. Raises
    InputBlindError, problems.ProblemError, templates.TemplateError (bad input); FileNotFoundError.
    """
    targets = (request.target,) if request.target else _DEFAULT_TARGETS[request.device]
    templates = Templates(root)
    variables: dict[str, Any] = {
        "device": request.device,
        "dtype": _DTYPES[request.dtype],
        "targets": list(targets),
        "hardware": request.hardware,
        "example": {
            "reference": templates.text("examples/reference.py"),
            "answer": templates.text(f"examples/{targets[0].replace('-', '_')}.py"),
        },
    }
    numbers: tuple[int | float, ...] = ()
    if request.variant == "input-blind":
        from kbverified.prompts.blind import blind

        found = blind(problem, _DTYPES[request.dtype])
        numbers = found.numbers_in_code
        variables |= {"reference": found.code, "inputs": found.inputs, "init_arguments": found.init_arguments}
    else:
        variables["reference"] = problem.read_bytes().decode("utf-8-sig", "replace").strip("\n")
    variables["fence"] = _fence(variables["reference"])
    text = templates.render(_TEMPLATE[request.variant], variables)
    facts = PromptFacts(
        variant=request.variant,
        targets=targets,
        templates=templates.sha256,
        hardware=request.hardware,
        hardware_from=request.hardware_from,  # type: ignore[arg-type]
        numbers_in_code=numbers,
    )
    return Prompt([{"role": "user", "content": text}], facts)


def _fence(text: str) -> str:
    """More backticks than the text has in a row: no problem ends its own block."""
    fence = "```"
    while fence in text:
        fence += "`"
    return fence


# --- what a generator asks ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Told:
    """What the configuration says about one prompt of a generator."""

    variant: PromptVariant | None = None
    """None: what the generator's own column says."""
    hardware: Hardware | None = None
    """For where the machine that asks has no such device."""


def from_settings(settings: Settings, suite: str, problem: str, own: PromptVariant | None) -> Told:
    """What a configuration says about a problem's prompt. ``own``: the prompt of the generator's row."""
    figures = settings.hardware.model_dump(exclude_none=True)
    blind = settings.prompts.is_blind(suite, problem, always=own == "input-blind")
    return Told("input-blind" if blind else "standard", Hardware(**figures) if figures else None)


def for_generator(spec: GeneratorSpec, problem: Path, told: Told | None, root: Path) -> Prompt:
    """The prompt of a row of the generators table for a problem. Raises like ``build``; RuntimeError."""
    from kbverified.devices.facts import device_facts

    told = told or Told()
    device = "cpu" if spec.devices == "cpu" else "cuda"
    here = device_facts(device)
    hardware = here or told.hardware
    request = Request(
        device=device,
        dtype=spec.dtype,
        target=spec.target,
        variant=told.variant or spec.prompt or "standard",
        hardware=hardware,
        hardware_from=None if hardware is None else "device" if here else "config",
    )
    return build(problem, request, root)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments by which the workflow hands on what ``told`` reads."""
    parser.add_argument("--prompt", choices=("standard", "input-blind"), help="default: as the generator's row says")
    parser.add_argument(
        "--hardware", default="none", help="JSON: what to say of the device where this machine has none"
    )


def told(arguments: argparse.Namespace) -> Told:
    """What a command line says. Raises ValueError for hardware that is none."""
    if arguments.hardware == "none":
        return Told(arguments.prompt)
    try:
        return Told(arguments.prompt, Hardware.model_validate_json(arguments.hardware))
    except ValidationError as error:
        first = error.errors()[0]
        field_name = ".".join(map(str, first["loc"]))
        raise ValueError(f"--hardware {arguments.hardware}: {field_name}: {first['msg']}") from None
