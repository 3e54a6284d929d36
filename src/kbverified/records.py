"""The data model: one frozen record per stage, JSON both ways, validated.

A record that cannot be true cannot be made: unknown fields, a verdict on a skipped stage, NaN where a number is
asked for. "Not measured" is None with a reason beside it, never 0.
"""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError, model_validator

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
    "unstable",  # too few rounds, or too different ones, for a time
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


class StageRecord(Record):
    """Base of the candidate's stage records: status says whether the stage ran, verdict judges the candidate."""

    stage: str
    provenance: Provenance
    status: Status
    reason: str | None = None
    """Why the stage was skipped. None where status is ok."""
    verdict: Verdict | None = None
    """None where status is skipped."""
    detail: str | None = None
    """One human sentence or traceback tail that explains a verdict other than pass."""
    output_tail: str = ""
    """The end of what the worker printed, capped."""

    @model_validator(mode="after")
    def _status_decides(self) -> StageRecord:
        if self.status == "skipped" and (self.verdict is not None or not self.reason):
            raise ValueError("a skipped stage has a reason and no verdict")
        if self.status == "ok" and (self.verdict is None or self.reason is not None):
            raise ValueError("a stage that ran has a verdict and no reason")
        return self


class Build(Record):
    """One extension that the candidate asked for."""

    name: str
    key: str
    """Content hash over sources, flags, compilers, torch and architecture."""
    seconds: float | None = None
    cached: bool = False
    ok: bool = True
    log_tail: str = ""


class CompileRecord(StageRecord):
    stage: Literal["compile"] = "compile"
    builds: tuple[Build, ...] = ()
    build_directory: str | None = None
    """Where what was built lies: content-addressed, outside results."""
    deferred: str | None = None
    """Why (part of) the building had to wait for the gate: Triton, a device query at import. None: all built."""
    cpu_seconds: float | None = None


OracleKind = Literal["fp64", "fp64_sliced", "reference", "none"]
"""What a trial was judged against beside the reference: the reference in float64, whole or cut along its batch; the
reference itself, where float64 gives no oracle; nothing, where the judge could not even do that."""


class OracleErrors(Record):
    """Errors of one trial against its oracle, worst over outputs. Whether they are too large is decided later."""

    kind: OracleKind
    why_not_fp64: str | None = None
    scaled_error: float | None = Field(default=None, ge=0)
    """Smallest m with |a-o| <= m * (scale + |o|), scale the oracle's rms per row. None: no floating-point output, or
    not finite."""
    reference_scaled_error: float | None = Field(default=None, ge=0)
    """... of the reference in the gate's arithmetic; for kind ``reference`` of itself on inputs moved by one ulp."""
    rms_error: float | None = Field(default=None, ge=0)
    """rms(a-o) / rms(o); None also where the oracle is zero throughout."""
    reference_rms_error: float | None = Field(default=None, ge=0)
    wrong_elements: int | None = Field(default=None, ge=0)
    """Of integer and bool outputs: neither the reference's nor the oracle's, nor a tie. None: there are none."""


class NumericsEvidence(Record):
    """Relative rms errors against the float64 oracle, worst over outputs, from which numerics.py names a class."""

    why_none: str | None = None
    candidate_rms_error: float | None = Field(default=None, ge=0)
    fp32_rms_error: float | None = Field(default=None, ge=0)
    """The reference as it is."""
    ten_bits_rms_error: float | None = Field(default=None, ge=0)
    """The reference with operands of products rounded to 10 mantissa bits; without products, inputs and outputs."""
    seven_bits_rms_error: float | None = Field(default=None, ge=0)
    products: int | None = Field(default=None, ge=0)
    """Products and convolutions that the reference's forward calls."""
    elements: int | None = Field(default=None, ge=0)
    """Of the smallest floating-point output."""


class TrialResult(Record):
    """One distribution, one trial: how far the candidate's output was from the reference's.

    Numbers are None where the outputs could not be compared; ``failure`` then says why.
    """

    distribution: str
    applicable: bool = True
    """False where the reference itself is not finite or raises (decided by the problem audit): never a pass."""
    failure: Verdict | None = None
    """A failure that no tolerance can mend. None: compare ``critical_tolerance`` with tau."""
    detail: str | None = None
    critical_tolerance: float | None = Field(default=None, ge=0)
    """Smallest tau with allclose(atol=tau, rtol=tau): max |a-b| / (1+|b|), b the reference."""
    max_abs_error: float | None = Field(default=None, ge=0)
    rms_relative_error: float | None = Field(default=None, ge=0)
    """rms(a-b) / rms(b)."""
    nan_count: int | None = None
    inf_count: int | None = None
    reference_rms: float | None = None
    oracle: OracleErrors | None = None
    """None where nothing was compared, and in older records."""


class HardenedTrial(TrialResult):
    """One trial under one of our own laws, whose parameters and weights nobody knew before: ``distribution`` names it.
    What is judged is ``oracle``: the critical tolerance beside it is for comparison."""

    parameters: dict[str, Any] = Field(default_factory=dict)
    """What was drawn for this trial: the law's own, told afterwards."""
    comparable: bool | None = None
    """Of the trial with other weights: whether the candidate's correspond to the reference's and are the same. It names
    the cause of a wrong answer, and excuses none. None: no correspondence, as of ``weights_match``."""

    @property
    def law(self) -> str:
        return self.distribution


class FlagState(Record):
    """Global precision flags as a worker reported them."""

    matmul_tf32: bool
    cudnn_tf32: bool
    matmul_precision: str
    cudnn_benchmark: bool
    deterministic: bool
    default_dtype: str


class GateRecord(StageRecord):
    """verdict ``pass`` here means: nothing failed that no tolerance can mend. tau is applied at aggregation."""

    stage: Literal["hidden-gate"] = "hidden-gate"
    trials: tuple[TrialResult, ...] = ()
    hardened: tuple[HardenedTrial, ...] = ()
    """No part of ``verdict``: what fails here fails the hardened test alone."""
    hardened_why_not: str | None = None
    """Why there are none, or fewer than there are laws."""
    weights_match: bool | None = None
    """Whether the candidate's state dict corresponds to the reference's and agrees. None: no correspondence."""
    flags_before: FlagState | None = None
    flags_after: FlagState | None = None
    judge_peak_bytes: int | None = None
    """Of the judge while it launched and compared: what stands beside a candidate's own memory."""
    oracle_peak_bytes: int | None = None
    """... and while it asked the float64 oracle, when no launch is under way."""
    numerics: NumericsEvidence | None = None
    """From the trial under the original law. None: it was not compared, the dtype is not fp32, or an older record."""


class DeviceReading(Record):
    """What NVML said about the device at one moment of a turn; None what it did not answer."""

    sm_clock_mhz: int | None = None
    temperature_c: int | None = None
    power_w: float | None = None
    throttle_reasons: int | None = None
    """Bit mask of clock event reasons."""


class JudgeBound(Record):
    """Launches measured by the judge's own clock: batches of distinct inputs whose outputs were all verified."""

    outcome: Literal["agreed", "disputed", "not_enforced", "not_measured"]
    """``not_enforced``: the bound is too short for the judge's clock (protocol.TIMING_BOUND_ENFORCED_ABOVE_MS)."""
    detail: str | None = None
    """Why it was not measured."""
    k: int | None = None
    """Inputs of one batch."""
    batches: int = 0
    baseline_k: tuple[int, ...] = ()
    """Inputs of each of the baseline's batches: the first was made before any code of the candidate's ran."""
    baseline_wall_ms: tuple[float, ...] = ()
    """The judge's clock over each of the baseline's batches, inputs and outputs brought and taken included."""
    baseline_launches_ms: tuple[float, ...] = ()
    """What of it were the launches themselves, by the baseline's own clock: the rest is overhead."""
    candidate_wall_ms: tuple[float, ...] = ()
    baseline_overhead_ms: tuple[float, ...] = ()
    """Of each of the baseline's batches the median over its launches of wall less launch."""
    candidate_launch_wall_ms: tuple[float, ...] = ()
    """Of each of the candidate's batches the median wall of a launch."""
    noise_ms: float | None = None
    """What this clock can tell, by the overheads in the baseline's first batch: by less a claim may be off."""
    claim_ms: float | None = None
    """Median of the candidate's recorded repetitions."""
    t_judge_ms: float | None = None
    """Candidate's smallest median wall less the baseline's smallest median overhead."""
    drift: float | None = None
    """Baseline in its batches / baseline in its rounds, at least 1: how much slower an honest launch may be there."""
    undetected_gain_at_most: float | None = None
    """Candidate's smallest median wall / claim: no honest launch of it took longer, whatever it claims."""


class Round(Record):
    """One interleaved round: each side's repetitions in milliseconds, in order."""

    first: Literal["baseline", "candidate"]
    baseline_ms: tuple[float, ...]
    candidate_ms: tuple[float, ...]
    baseline_reading: DeviceReading | None = None
    """Of the device while the baseline ran; None where nothing reads it (a CPU, no NVML)."""
    candidate_reading: DeviceReading | None = None
    """... while the candidate ran."""
    baseline_host_bound: int | None = None
    """Repetitions in which the device had done all when the host had just given it all: what such a time says is how
    fast the host is. None on a CPU, and where one side ran after the other."""
    candidate_host_bound: int | None = None
    """... by the candidate's own word."""
    sm_clock_mhz: int | None = None
    """Of records of November 2026 only, which have no readings: the SM clock right after the round."""
    throttle_reasons: int | None = None
    """... and the reasons."""
    dropped: bool = False
    """Throttled for one of protocol.TIMING_DROP_REASONS: kept here, and no part of any figure."""


class CompiledBaseline(Record):
    """The baseline of time-compile: torch.compile of the reference, and what it was compared with."""

    backend: str
    dynamic: bool
    fallback_random: bool
    """Whether random operators use eager torch's generator: without, dropout would give another answer."""
    compile_s: float = Field(ge=0)
    """Its first launch with empty caches, by the judge's clock; this happened once for the problem and environment."""
    load_s: float = Field(ge=0)
    """Its first launch in this stage, from the caches."""
    graphs: int = Field(ge=1)
    from_caches: int = Field(ge=0)
    """How many of them this stage found in inductor's caches: fewer than ``graphs`` means that it compiled again."""
    graph_breaks: int = Field(ge=0)
    """Where torch.compile fell back to eager torch between graphs."""
    critical_tolerance: float = Field(ge=0)
    """Its output against the eager reference's, same mode and dtype, on inputs of this stage."""
    rms_relative_error: float | None = Field(default=None, ge=0)
    """None where the reference is zero throughout."""


class TimeRecord(StageRecord):
    """Raw repetitions of baseline and candidate under one precision mode. Summaries are derived, also here."""

    stage: Literal["time-fp32", "time-tf32", "time-ieee", "time-compile"]
    rounds: tuple[Round, ...] = ()
    baseline_alone_ms: tuple[float, ...] = ()
    ramp_s: float | None = None
    """How long the judge kept the device busy until its clock was up; None on a CPU."""
    reserved_cores: int | None = None
    """Cores kept for this device's judge and workers; None where the machine has too few, or no GPU."""
    baseline_disturbed: bool | None = None
    """The baseline alone and the baseline beside the candidate differ by more than the protocol allows."""
    interleaved: bool | None = None
    """False where both sides did not fit the device together and ran one after the other."""
    outputs_verified: int | None = None
    """How many rounds had an output of a timed launch compared with the reference."""
    timed_critical_tolerance: float | None = None
    """Worst critical tolerance among them."""
    timed_output_limit: float | None = None
    """Relative rms error beyond which a timed output is wrong, for this problem."""
    flags_before: FlagState | None = None
    flags_after: FlagState | None = None
    judge_wall_ms_per_launch: float | None = None
    """The judge's own clock over the candidate's launches of a turn, per launch, flush included: an upper bound."""
    rounds_dropped: int | None = None
    """How many of the rounds are dropped."""
    budget_s: float | None = None
    """What the rounds were allowed to take, as configured."""
    judge_bound: JudgeBound | None = None
    compiled_baseline: CompiledBaseline | None = None
    """Of time-compile; None in the other stages, whose baseline is the eager reference."""


class SideMemory(Record):
    """One forward of one side. ``above`` counts what came on top of inputs and weights."""

    allocator_peak_bytes: int | None = None
    """torch's allocator peak during one forward (the published metric), inputs and weights included."""
    allocator_above_bytes: int | None = None
    device_peak_bytes: int | None = None
    """Device-wide figure, which also sees raw cudaMalloc; on a CPU, the process's peak resident set."""
    device_above_bytes: int | None = None


class MemoryRecord(StageRecord):
    stage: Literal["memory"] = "memory"
    baseline: SideMemory | None = None
    candidate: SideMemory | None = None
    input_bytes: int | None = None
    output_bytes: int | None = None
    output_limit: float | None = None
    """Relative rms error beyond which the measured forward's output is wrong, as that of a timed launch."""


STAGE_MODELS: dict[str, type[StageRecord]] = {
    "compile": CompileRecord,
    "hidden-gate": GateRecord,
    "time-fp32": TimeRecord,
    "time-tf32": TimeRecord,
    "time-ieee": TimeRecord,
    "time-compile": TimeRecord,
    "memory": MemoryRecord,
}
"""The record of each stage of keys.EVERY_STAGE."""


class TensorSpec(Record):
    """Shape and dtype of one tensor, as ``float32``, ``int64``, ..."""

    shape: tuple[int, ...]
    dtype: str

    def numel(self) -> int:
        n = 1
        for extent in self.shape:
            n *= extent
        return n


class DistributionAudit(Record):
    """What the audit found about one input law, worst case over seeds."""

    distribution: str
    applicable: bool
    """False where the reference is not finite or raises."""
    why_not: str | None = None
    max_abs: float | None = None
    rms: float | None = None
    zeros_tolerance: float | None = None
    """Critical tolerance at which an all-zero answer passes."""
    mean_tolerance: float | None = None
    """... the reference's mean everywhere."""
    input_tolerance: float | None = None
    """... the first input itself; None where shapes differ."""
    replay_tolerance: float | None = None
    """... the output for other inputs (another seed)."""
    input_independent: bool | None = None
    """The outputs for two seeds are bitwise equal."""


class HardenedAudit(Record):
    """What one of our own laws tells answers apart by, on one problem."""

    law: str
    applicable: bool
    why_not: str | None = None
    positive: bool = False
    """The law's absolute values are taken: the reference is not finite for others."""
    replay: OracleErrors | None = None
    """Of the output for other inputs, as if a candidate had given it."""


class InputNeed(Record):
    """How much of one input has to be read, never too much: what no other draw holds, as far as it matters."""

    varying_bytes: int = Field(ge=0)
    """Sectors (protocol.NEEDS_SECTOR_BYTES) that differ between two draws. The rest is known beforehand."""
    probes: int = Field(ge=0)
    """Sectors of those in which NaN was put, one at a time."""
    hits: int = Field(ge=0)
    """How many of them changed the output."""
    needed_bytes: int = Field(ge=0)
    """0 also where the output does not depend on any input."""


class ProblemRecord(Record):
    """Audit of one problem."""

    stage: Literal["audit-problem"] = "audit-problem"
    provenance: Provenance
    status: Status
    reason: str | None = None
    name: str
    level: int
    usable: bool
    """False where the problem itself is broken (no get_inputs, raises): its candidates are skipped."""
    detail: str | None = None
    distributions: tuple[DistributionAudit, ...] = ()
    degenerate: bool | None = None
    non_discriminating: bool | None = None
    """Another input's output passes on every applicable distribution at protocol.NON_DISCRIMINATING_TAU."""
    hardened: tuple[HardenedAudit, ...] = ()
    """One for each law; empty in older records and where there was no time or memory for it."""
    inputs: tuple[TensorSpec | None, ...] = ()
    """None stands for an input that is no tensor."""
    outputs: tuple[TensorSpec, ...] = ()
    output_structure: Any = None
    """``tensor``, or a nesting of lists and dicts of ``tensor``."""
    init_inputs: Any = None
    """The constructor's arguments, encoded as they cross to a worker."""
    inputs_made_on: Literal["device", "cpu"] | None = None
    input_bytes: int | None = None
    output_bytes: int | None = None
    weight_bytes: int | None = None
    min_bytes: int | None = None
    """Bytes that must move: inputs and weights once, outputs once."""
    flops: int | None = None
    """torch's counter on the reference; None where it sees nothing."""
    flops_matmul: int | None = None
    """Of these, what the matmul flag governs."""
    flops_cudnn: int | None = None
    """Of these, convolutions and recurrent layers, which cuDNN's flag governs."""
    weight_needed_bytes: int | None = None
    """Parameters and buffers that some operator of the forward takes; of a table at most the rows looked up."""
    input_needs: tuple[InputNeed | None, ...] | None = None
    """One for each entry of ``inputs``. None: memory was too short to find out, or an older record."""
    output_needed_bytes: tuple[int, ...] | None = None
    """One for each entry of ``outputs``: elements that differ between draws, a repeated dimension counted once."""
    needs_why_not: str | None = None
    """Why neither is known; None in older records."""
    reference_peak_bytes: int | None = None

    def applicable(self) -> tuple[str, ...]:
        return tuple(d.distribution for d in self.distributions if d.applicable)


class CeilingRun(Record):
    """One kind of work, launched again and again on an otherwise idle device."""

    what: Literal["copy", "scale", "read", "write", "matmul"]
    mode: PrecisionMode | None = None
    """Of a matmul in fp32; None for bf16 and for memory."""
    dtype: Dtype = "fp32"
    size: int
    """Bytes of the buffer, or rows and columns of the square matrices."""
    work: int = Field(gt=0)
    """Bytes that one launch moves (copy and scale read and write), or its FLOPs."""
    times_ms: tuple[float, ...] = Field(min_length=1)

    def best_per_s(self) -> float:
        """Bytes or FLOPs per second of the fastest repetition."""
        return 1e3 * self.work / min(self.times_ms)


class Ceilings(Record):
    """What one device moves and computes per second, measured. Raw repetitions; rates are derived."""

    stage: Literal["ceilings"] = "ceilings"
    provenance: Provenance
    cache_bytes: int | None = None
    """Last-level cache of the device: L2 of a GPU, all L3 of a CPU. None where the system does not say."""
    ramp_s: float | None = None
    """As in TimeRecord."""
    threads: int | None = None
    """torch's threads on a CPU; None on a GPU."""
    runs: tuple[CeilingRun, ...] = Field(min_length=1)


R = TypeVar("R", bound=Record)


class RecordError(ValueError):
    """A record file that is not what it should be. The message names file, field and value."""


def read(path: Path, model: type[R]) -> R:
    """Read and validate one record. Raises RecordError with file, field and value, FileNotFoundError if missing."""
    try:
        return model.model_validate_json(path.read_bytes())
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"]) or "(whole record)"
        value = repr(first.get("input"))[:80]
        raise RecordError(
            f"{path}: field {field}: {first['msg']} (value {value}). Delete the file and rerun to make it again."
        ) from None


def write(path: Path, record: Record) -> None:
    """Write a record under a temporary name and rename it: a kill leaves none or a whole one. Raises OSError."""
    write_text(path, json.dumps(record.model_dump(mode="json"), indent=1, sort_keys=False) + "\n")


def write_text(path: Path, text: str) -> None:
    """``write_bytes`` of text as UTF-8. Raises OSError."""
    write_bytes(path, text.encode())


def write_bytes(path: Path, data: bytes) -> None:
    """Atomically replace the file at path, making its folder where missing. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fd, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:  # Ctrl-C too leaves no temporary file behind
        try:
            os.unlink(temporary)
        except OSError:
            pass
        raise
