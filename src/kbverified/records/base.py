"""What every record has in common: the strict base, the words that fields take, and where a record comes from."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from kbverified.protocol import SCHEMA_VERSION

Verdict = Literal[
    "pass",
    # the source
    "no_code",  # null, empty or refused answer
    "unreadable_source",  # not UTF-8, or too large
    "syntax_error",  # truncated or broken source
    "no_model_new",  # source without ModelNew
    # building and starting
    "compile_error",  # an extension failed to build and the candidate did not get by without it
    "import_error",  # the module raised at import
    "init_error",  # ModelNew(...) raised
    # running
    "runtime_error",  # forward raised
    "crash",  # the process ended by a signal or an exit code of its own
    "timeout",
    "out_of_memory",
    "output_flood",  # printed more than the limit
    "protocol_violation",  # garbled or oversized message to the judge
    # the answer
    "wrong_type",
    "wrong_shape",
    "wrong_dtype",
    "wrong_device",
    "nonfinite",  # NaN or Inf where the reference is finite
    "aliases_input",
    "mutates_input",
    "weights_differ",
    "wrong_value",
    "sets_precision",  # reserved for candidates that fail by changing global flags
    # the times: no failure of correctness
    "time_disputed",  # the claimed times are shorter than the judge's own clock allows
    "unstable",  # too few rounds or too different ones for a time, or a disputed one that is the host's
]
"""Judgement on the candidate: ``pass`` or exactly one failure class."""

Status = Literal["ok", "skipped"]
DeviceKind = Literal["cuda", "cpu"]
SandboxLevel = Literal["full", "user", "none"]
PrecisionMode = Literal["ieee", "default", "tf32"]
Dtype = Literal["fp32", "bf16"]


class Record(BaseModel):
    """Base of everything that is written as JSON: frozen, closed, finite numbers only."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class DeviceInfo(Record):
    """The device and the software that drives it. The uuid is provenance only: it never keeps records apart."""

    kind: DeviceKind
    name: str
    uuid: str | None = None
    driver: str | None = None
    torch: str
    cuda: str | None = None
    memory_bytes: int | None = None

    def environment(self) -> tuple[str, str, str | None, str, str | None]:
        """What has to agree before two records may stand in one table."""
        return (self.kind, self.name, self.driver, self.torch, self.cuda)


class Provenance(Record):
    """Where a record comes from."""

    schema_version: int = SCHEMA_VERSION
    package_version: str
    protocol_digest: str
    """protocol.digest() of the stage."""
    problem_sha256: str | None = None
    """None for a device's own record."""
    candidate_sha256: str | None = None
    """None for a problem's or device's own record."""
    device: DeviceInfo | None = None
    """None where no device was touched: a skipped stage, a verdict on the source alone."""
    mode: PrecisionMode | None = None
    dtype: Dtype = "fp32"
    sandbox: SandboxLevel | None = None
    started_at: str
    """ISO 8601, UTC."""
    duration_s: float = Field(ge=0)
    device_wait_s: float | None = Field(default=None, ge=0)
    """How long the stage waited for a device after everything else was ready. None: no device was asked for."""
    device_hold_s: float | None = Field(default=None, ge=0)
    """How long it kept every other job off the device."""
    device_hold_parts_s: dict[str, float] | None = None
    """What that time went into, part by part in order; what no part names is not in it."""
    evaluator: bool = False
    """Whether judge and workers were forked by an evaluator. It changes times outside the hold, and on a CPU device the
    resident set."""


class FlagState(Record):
    """Global precision flags as a worker reported them."""

    matmul_tf32: bool
    cudnn_tf32: bool
    matmul_precision: str
    cudnn_benchmark: bool
    deterministic: bool
    default_dtype: str
