"""Where a candidate's source comes from: the record beside each source, and what its prompt was made from."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, JsonValue

from kbverified.protocol import SCHEMA_VERSION
from kbverified.records.base import Record

PromptVariant = Literal["standard", "input-blind"]
PromptTarget = Literal["cuda", "triton", "cute-dsl", "cpp"]


class Hardware(Record):
    """What a prompt tells about the device that a candidate will run on; what is null is not told."""

    name: str = Field(min_length=1, pattern=r"^[^\x00-\x1f]*$")
    compute_capability: str | None = Field(default=None, pattern=r"^\d+\.\d$")
    multiprocessors: int | None = Field(default=None, gt=0)
    cores: int | None = Field(default=None, gt=0)
    """Of a CPU: as many threads as run at once."""
    memory_gib: int | None = Field(default=None, gt=0)
    """2^30 bytes."""
    bandwidth_gb_s: int | None = Field(default=None, gt=0)
    """Of the memory's bus, 10^9 bytes a second."""


class PromptFacts(Record):
    """What a prompt was made from; the messages themselves are in the stored response."""

    variant: PromptVariant
    targets: tuple[PromptTarget, ...]
    """Languages that it leaves a choice of."""
    templates: dict[str, str]
    """Sha256 of each file under workflow/prompts/ that went in."""
    hardware: Hardware | None = None
    hardware_from: Literal["device", "config"] | None = None
    """Whether the figures come from the device of the machine that asked, or from the configuration."""
    numbers_in_code: tuple[int | float, ...] = ()
    """Input-blind: hidden numbers that Model's own computation holds as well, so that they stand in the prompt."""


class Generation(Record):
    """Where a candidate's source comes from: the ``.json`` beside each ``generations/.../{sample}.py``."""

    schema_version: int = SCHEMA_VERSION
    origin: Literal["bundled", "import", "api"]
    source: str
    """Imported path, API model name, or a sentence for a bundled candidate."""
    candidate_sha256: str
    extraction: Literal["verbatim", "fence", "none"]
    """How the code was found: the whole text, a Markdown fence, or not at all (the file is then empty)."""
    detail: str | None = None
    """For ``none``: why."""
    model: str | None = None
    settings: dict[str, JsonValue] = Field(default_factory=dict)
    prompt_sha256: str | None = None
    prompt: PromptFacts | None = None
    """What the prompt was made from. None unless generated here."""
    response_path: str | None = None
    """Raw response in the append-only store."""
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    expected_verdict: str | None = None
    """Bundled candidates of ours name the verdict that they must get."""
