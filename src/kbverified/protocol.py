"""Every number of the measurement, each with its source, and their digest per stage.

Tolerances and thresholds that only interpret records (tau, fast_p levels) belong to aggregation: changing one
reruns no stage. A constant that shapes a stage's record enters that stage's digest, which is a ``params:`` of
its rule: changing it reruns the stage and what follows, nothing else.
"""

from __future__ import annotations

import hashlib
import json

SCHEMA_VERSION = 1

# --- inputs -------------------------------------------------------------------------------------------------
# The four laws of the published system (arXiv 2607.16241): float input tensors times a factor; integers, bools,
# scalars and shapes untouched.
DISTRIBUTIONS: dict[str, float] = {
    "d1_original": 1.0,
    "d2_scale_3": 3.0,
    "d3_scale_0.01": 0.01,
    "d4_negate": -1.0,
}
STANDARD_DISTRIBUTION = "d1_original"

# Weights: both constructors start from this seed (KernelBench seeds both sides alike). It is no secret.
WEIGHT_SEED = 42
# The generator is reseeded with this before every forward, so that dropout and random initial states agree.
FORWARD_SEED = 99

# --- audit-problem ------------------------------------------------------------------------------------------
AUDIT_SEEDS = 3
# Mode of the audit, and of the gate unless the configuration says otherwise: an honest fp32 kernel is not held against
# a TF32 reference.
AUDIT_MODE = "ieee"
# Degenerate: max |reference| over seeds, weights and distributions. KernelBench's level2 23, 80, 83 lie at
# 2.0e-7 and below, the next problem at 8.1e-6 (H200, evidence of 2026-11).
DEGENERATE_MAX_ABS = 1e-6
# Non-discriminating: the output for other inputs passes every applicable distribution at the published tau.
NON_DISCRIMINATING_TAU = 1e-3
# Weights drawn for the degenerate test: one seed shared with the gate and one other.
AUDIT_WEIGHT_SEEDS = (WEIGHT_SEED, 1042)
# What of an input reaches the output is tried sector by sector, the 32 bytes that a GPU's memory hands over at least
# (CUDA Best Practices Guide, coalesced access): so many of each input, and no new one after this time.
NEEDS_SECTOR_BYTES = 32
NEEDS_PROBES = 20
NEEDS_PROBE_BUDGET_S = 10.0

# --- ceilings: what a device can do, measured -----------------------------------------------------------------
# Buffers far larger than any cache, and square products large enough to fill an H200 (132 SMs). The best of all
# repetitions counts: a ceiling that is too low would make honest times look impossible.
CEILING_BUFFER_BYTES = {"cuda": 4 << 30, "cpu": 128 << 20}
CEILING_MATMUL_SIZES = {"cuda": (4096, 8192), "cpu": (512, 1024)}
CEILING_WARMUPS = 2
CEILING_REPETITIONS = 20
# One kind of measurement ends after this; on a GPU only the ieee product of 8192 gets there.
CEILING_BUDGET_S = 0.5

# --- hidden-gate --------------------------------------------------------------------------------------------
GATE_TRIALS_PER_DISTRIBUTION = 1
# Comparison works on chunks of this many elements, so that the judge needs no second copy of either.
COMPARE_CHUNK_ELEMENTS = 1 << 24
# Amplitude of the finite noise that fills an output buffer before a launch: far from any honest output.
POISON_AMPLITUDE = 1.0e30

# The reference in float64 is the oracle where it and the reference in the gate's arithmetic are no further apart than
# this (relative rms error): further, it is another function (random numbers drawn in another dtype, a noise output).
ORACLE_AGREES_RMS = {"fp32": 0.01, "bf16": 0.1}
# No float64 forward beyond so many FLOPs: some seconds of an H200's, and about one of two cores.
ORACLE_FLOPS_MAX = {"cuda": 2.0e13, "cpu": 5.0e9}
# ... nor where it needs more than this share of the free memory; then in at most so many slices along the first
# dimension, each of whose outputs has to be the unsliced one's up to rounding (scaled error).
ORACLE_MEMORY_SHARE = 0.7
ORACLE_SLICES_MAX = 64
ORACLE_SLICE_LIMIT = 2e-5
# Activations between inputs and outputs, in sizes of both together, where no allocator has counted them (a CPU).
ORACLE_UNCOUNTED_ACTIVATIONS = 4
# Rows of an output with at least so many elements have a scale of their own, and this share of the whole output's rms
# at least (docs/decisions/0018-oracle-and-scaled-error.md).
SCALED_ROW_ELEMENTS_MIN = 32
SCALED_ROW_FLOOR = 1e-3

# The hardened test's laws (hardened/laws.py). A tensor's factor, and how far from its least to its largest value its
# new zero lies.
HARDENED_SCALE = (0.25, 4.0)
HARDENED_OFFSET = (0.2, 0.8)
# Binary orders, up and down, by which rows differ.
HARDENED_ROW_SCALE = 3.0
# So many spikes, an odd number; in a large tensor up to this size, so that together they weigh a tenth of its sum.
HARDENED_SPIKES = 15
HARDENED_SPIKE_SIZE_MAX = 4096.0
# Along each dimension, this share of its lines get one more, where loops and tiles begin and end or anywhere: at most
# one in so many elements, and so many in all.
HARDENED_SPIKE_LINES = 0.5
HARDENED_SPIKE_SPARSE = 128
HARDENED_SPIKE_LINES_MAX = 1 << 18
# From where exp() of numbers around one overflows, which a softmax has to bear.
HARDENED_SPIKE_SIZE = (100.0, 200.0)
# Spread around one. Below a tenth, a variance from squares, as honest kernels compute it, cancels to fewer digits than
# fp32 is held to.
HARDENED_NEAR_ONE = (0.1, 0.3)
HARDENED_RAMP_STEPS = (5, 40)
HARDENED_WIDE_EXPONENTS = (-10, 5)
# More zeros than this share of a draw are on purpose, and stay.
HARDENED_ZEROS_SHARE = 0.01
# A float tensor of at most so many different whole numbers is labels.
HARDENED_LABEL_VALUES = 16
# Launches on the same inputs under the first law that applies, each answer judged; one under all others.
HARDENED_LAUNCHES = 2
# What memory around inputs and outputs, and free memory, is full of, byte by byte, one trial after the other. As
# float32: 3.4e38, -1.7e38, NaN; as an index: out of any range.
HARDENED_RUBBISH = (0x7F, 0xFE, 0xFF)
# So much of it lies before each input and output, which starts and ends on multiples of the alignment, as torch's own
# allocators align (c10/core/alignment.h: 64 bytes; CUDACachingAllocator: 512).
HARDENED_GAP_BYTES = {"cpu": 1 << 16, "cuda": 1 << 20}
HARDENED_ALIGN_BYTES = {"cpu": 64, "cuda": 512}
# Touching it ends the worker: on a CPU before and behind each input, on a GPU behind the last one only. Off there: it
# has never run on one.
HARDENED_CLOSED = {"cpu": True, "cuda": False}
# In one more trial what torch allocates for a launch lies between so much rubbish too, closed where the device can do
# that: of at most so many tensors, and this share of the free memory in all.
HARDENED_OWN_GAP_BYTES = 1 << 16
HARDENED_OWN_TENSORS_MAX = 2000
HARDENED_OWN_MEMORY_SHARE = 0.25
# Identity parameters lie so far from the identity, at least and at most (hardened/weights.py).
HARDENED_IDENTITY_SPREAD = (0.1, 0.25)
# A candidate that is further off than this under the four distributions needs no hardened trial to fail.
HARDENED_WORTHWHILE_TOLERANCE = 0.1
# As ORACLE_FLOPS_MAX, of each of the seven hardened trials: beyond, the reference itself is the oracle.
HARDENED_ORACLE_FLOPS_MAX = {"cuda": 1.0e12, "cpu": 1.0e9}
# Where the reference itself is further off than this (scaled error), a law asks for more than fp32 can tell.
HARDENED_REFERENCE_ERROR_MAX = 2e-3

# --- timing -------------------------------------------------------------------------------------------------
# Rounds A B B A. Ten are the pilot; their spread fixes how many there will be, before the eleventh starts.
TIMING_ROUNDS_MIN = 10
TIMING_ROUNDS_MAX = 120
# Kernels so slow that ten rounds exceed the total budget below get these: the fewest that have a 95 % interval.
TIMING_ROUNDS_SLOW = 6
# A ratio that repeats within 1 %: its interval is to reach half a percent to either side. A CPU's says nothing that
# exact, and is spared the wait.
TIMING_TARGET_HALF_WIDTH = {"cuda": 0.005, "cpu": 0.1}
# ... of this confidence: that of the tables, but a table of another one needs no other rounds.
TIMING_CONFIDENCE = 0.95
# Still wider than this after the budget: the verdict is ``unstable``. On a CPU only what says nothing at all.
TIMING_UNSTABLE_HALF_WIDTH = {"cuda": 0.03, "cpu": 0.5}
# A round under one of these clock event reasons is dropped (nvml.h): hardware slowdown 0x08, software thermal 0x20,
# hardware thermal 0x40, power brake 0x80. Not the software power cap, 0x04: a card at its own limit is the speed that
# a power-hungry kernel has, for both sides, and dropping those rounds would keep only the cool ones.
TIMING_DROP_REASONS = 0xE8
# Fewer rounds left than this is ``unstable`` too: there is no interval.
TIMING_ROUNDS_LEFT_MIN = 6
# One side's repetitions in one turn aim at this. Turns are short and rounds many: a 4096^3 TF32 matmul on an H200
# swings between 0.385 and 0.44 ms in spells of some 20 to 50 ms (2026-11-30), which have to meet both sides.
TIMING_TURN_MS = {"cuda": 8.0, "cpu": 30.0}
TIMING_REPETITIONS_MAX = 20
# Untimed launches of the same side, back to back, right before its repetitions: both sides start hot.
TIMING_HOT_MS = {"cuda": 4.0, "cpu": 1.0}
TIMING_HOT_LAUNCHES_MAX = 40
# Warm-up: chunks of launches until two medians in a row agree to this ratio, or the budget is spent.
TIMING_WARMUP_CHUNK = 5
TIMING_WARMUP_STABLE_RATIO = 0.02
TIMING_WARMUP_BUDGET_MS = 150.0
# Before anything is timed the judge keeps the device busy until its SM clock has reached this share of its maximum,
# or this long: an idle H200 stands at 345 of 1980 MHz and is up after some 0.1 s of load (2026-11-29, docs/runs).
TIMING_RAMP_CLOCK_SHARE = 0.9
TIMING_RAMP_BUDGET_S = 3.0
# What a launch costs beside itself: cover, flush and messages. It only sizes the rounds.
TIMING_LAUNCH_OVERHEAD_MS = {"cuda": 0.65, "cpu": 6.0}
# A turn may take this many times as long as the pilot's launches promised.
TIMING_ROUND_ROOM = 10.0
# In a round a wait of the device and so many flushes of the cache are queued before each launch, and its clock starts
# behind them on the device: that hides the host's way to its first kernel, 0.25 to 0.5 ms from the start of a
# repetition on a busy host (docs/runs/2026-11-30-host-load.jsonl.gz). No flush: from an idle device, that way included,
# which is mere noise where cores are busy (decision 14: 33 of 44 times of honest small candidates were none).
TIMING_COVER_MS = {"cuda": 0.5, "cpu": 0.0}
TIMING_QUEUED_FLUSHES = {"cuda": 1, "cpu": 0}
# In a batch of the judge's bound there is no wait: a worker that leaves it out would have as long for work that the
# judge's clock takes for overhead. So many flushes are all the cover there is, 0.17 ms on an H200.
TIMING_BATCH_QUEUED_FLUSHES = {"cuda": 4, "cpu": 0}
# Judge and worker look for each other's messages without sleeping for so long while a batch is made, where cores are
# kept for them: to be woken takes longer than a short launch, and never equally long.
TIMING_SPIN_S = 0.02
# Work of other streams that goes on this much longer than the launch's own stream is counted; less is what waiting for
# all streams takes by itself.
TIMING_JOIN_GAP_MS = 0.02
# No clock here ticks faster than once in a nanosecond.
TIMING_SHORTEST_MS = 1e-6
# A claim may exceed the judge's clock by this ratio: a GPU's clock and the judge's drift apart by parts per million.
TIMING_CLOCKS_AGREE_RATIO = 1.01
# Times are kept to so many significant digits: a CUDA event's clock ticks every half microsecond.
TIMING_SIGNIFICANT_DIGITS = 6
# Cores kept for each GPU: judge, baseline, candidate, and one to spare.
RESERVED_CORES_PER_DEVICE = 4
# Both sides of ten rounds together may spend about this long in launches; see TIMING_ROUNDS_SLOW.
TIMING_TOTAL_BUDGET_S = 20.0
# The judge's bound: batches of at most so many distinct inputs, as many as memory and this time per pair of batches
# allow. The judge's clock runs from before the first input is visible until every output is in private memory. With 32
# the two batches were a fifth of what a timing stage held a GPU for beside its launches (docs/performance.md).
TIMING_BATCH_MAX = 16
TIMING_BATCH_BUDGET_MS = 300.0
# Share of the free device memory that a batch's buffers may take.
TIMING_BATCH_MEMORY_SHARE = 0.4
# A claim below this share of the bound is ``time_disputed``, where the bound exceeds so many milliseconds: below, the
# messages' own jitter is too large a part. The aim is 0.95; of 22 honest pairs on an H200 (2026-11-30) five came within
# 4 % of that, so that it waits for a study of more. A busy CPU's clock is coarser by far.
TIMING_BOUND_AGREE_RATIO = {"cuda": 0.9, "cpu": 0.5}
TIMING_BOUND_ENFORCED_ABOVE_MS = {"cuda": 0.3, "cpu": 5.0}
# ... and where claim and bound are further apart than this share of a launch's overhead, which differs between workers
# whose code is the same: by up to 0.41 of it over 118 honest stages on H200s (2026-11-30, claims under 5 ms; at a share
# of 0.4 that one was disputed), where attacks on a 2.7 ms launch stood at 1.3 and more.
TIMING_BOUND_RESOLUTION = {"cuda": 0.5, "cpu": 0.0}
# So many batches before a bound is too short to be enforced, and so many before a claim is disputed; of all of them the
# smallest walls count. Noise only ever makes one longer, and a cheat gains nothing by another: every batch has fresh
# inputs and every output is verified.
TIMING_BATCHES_MIN = 3
TIMING_BATCHES_MAX = 5
# Where the trusted baseline runs slower in its batch than in its rounds, the candidate may too, up to this: the two
# speeds of an H200's TF32 matmul lie 1.14 apart. On a busy CPU a batch's mean was seen at 3 to 6 times a median.
TIMING_BOUND_DRIFT_MAX = {"cuda": 1.15, "cpu": 5.0}
# Where the device waits for the host in most of the baseline's launches, a claim that is off by less than this ratio is
# ``unstable`` and not ``time_disputed``: a renamed reference of thousands of kernels (KernelBench level3 40) claimed
# 62.6 ms and took 73 by the judge's clock, baselines alone and in rounds differed by up to 1.9 (H200, 2026-11-30).
TIMING_HOST_BOUND_RATIO = 2.0
# An output of a timed launch is compared with the reference, loosely, since TF32 may be on: relative rms error.
# TF32 keeps 10 mantissa bits, so an honest answer lies orders of magnitude below this.
TIMED_OUTPUT_RMS_LIMIT = 0.05
# Where another input's output lies closer than that, an answer has to be nearer to its own than this share of the way
# to another's: what was kept from an earlier launch is all of it away, the mean of many 0.71. A 4096^3 matmul of rand()
# inputs has outputs that differ by 2 % from draw to draw.
TIMED_OUTPUT_REPLAY_RATIO = 0.5
# TF32 and bf16 may be off by so much; where other inputs' outputs are no further away, no check can tell.
TIMED_OUTPUT_REPLAY_FLOOR = 0.002
# A timed output may be off by this many times what the gate and the mode show, and the floor above on top.
TIMED_OUTPUT_ARITHMETIC_MARGIN = 4.0
# So many rounds of the pilot, and as many of the rest, chosen in secret, have it compared. Every round delivers one, so
# that no worker can tell which.
TIMED_OUTPUTS_VERIFIED = 3
# A candidate further off than this under the original inputs is right at no tolerance that anyone would set: it is
# not timed.
TIMING_WORTHLESS_TOLERANCE = 0.1
# The baseline alone beforehand and the baseline beside the candidate: more than this apart is marked.
BASELINE_DISTURBED_RATIO = 0.02

# --- optional baselines -------------------------------------------------------------------------------------
# time-compile: mode of both sides. That of the matched arm, so that the two differ by the compiler alone.
COMPILED_BASELINE_MODE = "tf32"
# What differs from torch.compile's defaults. Shapes never change here; and random numbers are to be those of the eager
# model, for a baseline with others answers another question (dropout, initial states drawn in forward).
COMPILED_BASELINE_OPTIONS = {"backend": "inductor", "dynamic": False, "fallback_random": True}
# The compiled baseline against the eager reference in the same mode and dtype, relative rms error: beyond this it
# gives another answer and is not timed. Fusing rounds less often than eager bf16 does; both lie well below.
COMPILED_BASELINE_RMS_LIMIT = 0.02

# --- workers ------------------------------------------------------------------------------------------------
# Output captured from a worker beyond this ends it: verdict output_flood.
WORKER_OUTPUT_LIMIT_BYTES = 16 << 20
# What of it is kept in a record.
WORKER_OUTPUT_KEPT_BYTES = 8 << 10
# Longest message accepted from a worker.
WORKER_MESSAGE_LIMIT_BYTES = 1 << 20
# A stage may take as long as this many answers. The slowest stage, timing, waits for 2 launches and at least
# TIMING_ROUNDS_SLOW rounds of one launch each.
STAGE_LIMIT_ANSWERS = 10
# Larger candidate files are a verdict, not a read.
CANDIDATE_SIZE_LIMIT_BYTES = 4 << 20

# --- aggregation only (in no stage digest) ------------------------------------------------------------------
TAU = {"fp32": 1e-3, "bf16": 1e-2}  # arXiv 2607.16241
FAST_P = (0.0, 0.5, 0.8, 1.0, 1.5, 2.0)
BOOTSTRAP_RESAMPLES = 2000
CONFIDENCE = 0.95
# Relative standard deviation of one kernel's speedup between jobs, beyond what its rounds show: an additive term of
# every interval. Null: not known yet. It takes an A/A study of repeats in fresh processes on that kind of device
# (``python -m benchmarks.aa``); until then intervals hold no variance between processes, and the tables say so.
BETWEEN_PROCESS_SD: dict[str, float | None] = {"cuda": None, "cpu": None}
# A claim this far below the floor is implausible. Measured ceilings are not physical ones: the best copy rates seen on
# an H200 are some 4.25 TB/s of the nominal 4.8, and 4.25 / (1 - 0.1) is 98 % of nominal, which no kernel reaches.
ROOFLINE_MARGIN = 0.1

# Scaled error (scaled_error.py) up to which an answer is right: so many times what the reference itself is off by, and
# never less than the floor (docs/decisions/0018-oracle-and-scaled-error.md).
SCALED_LIMIT_FLOOR = {"fp32": 3e-4, "bf16": 3e-2}
SCALED_LIMIT_MARGIN = 8.0
# Equal values are rounded alike, so that the error of a plain running sum grows with its length and not with the root
# of it: up to 9.9e-4 of the output's scale in an honest product over 10^6 (KernelBench level1 4 on an H200, at most
# 8.8e-6 under any other law; docs/runs/2026-11-30-h200-sixth.md). The floor is so many times higher there: again some
# three times the worst. Those sums are float32's whatever an answer is rounded to, and bf16's floor is above them as it
# is.
SCALED_LIMIT_FLOOR_FACTOR = {"fp32": {"h5_sorted_and_repeated": 10.0}}
# ... for answers that under every other law take at most this share of their limit, as such a sum does: a hinge loss
# that broadcasts its labels along the wrong axis was off by 3.3e-4 under h5, and by 2.7e-4 elsewhere (tests/attacks).
SCALED_LIMIT_SHARE_ELSEWHERE = 0.1
# Effective arithmetic, from relative rms errors: fewer elements than this say too little; a narrow arithmetic is told
# where its error is at least so many times the reference's in float32, since a plain loop over a long sum is some ten
# times as far off as a blocked one; and up to this ratio a candidate is as exact as the reference.
NUMERICS_ELEMENTS_MIN = 64
NUMERICS_APART_RATIO = 30.0
NUMERICS_FP32_RATIO = 3.0

_WORKER = (
    "WORKER_OUTPUT_LIMIT_BYTES",
    "WORKER_OUTPUT_KEPT_BYTES",
    "WORKER_MESSAGE_LIMIT_BYTES",
)
_DEVICE = ("STAGE_LIMIT_ANSWERS", "COMPARE_CHUNK_ELEMENTS", "POISON_AMPLITUDE", "RESERVED_CORES_PER_DEVICE")
_INPUTS = ("DISTRIBUTIONS", "STANDARD_DISTRIBUTION", "WEIGHT_SEED", "FORWARD_SEED")
_ORACLE = (
    "ORACLE_AGREES_RMS",
    "ORACLE_FLOPS_MAX",
    "ORACLE_MEMORY_SHARE",
    "ORACLE_SLICES_MAX",
    "ORACLE_SLICE_LIMIT",
    "ORACLE_UNCOUNTED_ACTIVATIONS",
    "SCALED_ROW_ELEMENTS_MIN",
    "SCALED_ROW_FLOOR",
)
_HARDENED = (
    "HARDENED_SCALE",
    "HARDENED_OFFSET",
    "HARDENED_ROW_SCALE",
    "HARDENED_SPIKES",
    "HARDENED_SPIKE_SIZE_MAX",
    "HARDENED_SPIKE_LINES",
    "HARDENED_SPIKE_SPARSE",
    "HARDENED_SPIKE_LINES_MAX",
    "HARDENED_SPIKE_SIZE",
    "HARDENED_NEAR_ONE",
    "HARDENED_RAMP_STEPS",
    "HARDENED_WIDE_EXPONENTS",
    "HARDENED_LABEL_VALUES",
    "HARDENED_ZEROS_SHARE",
    "HARDENED_IDENTITY_SPREAD",
    "HARDENED_REFERENCE_ERROR_MAX",
    "HARDENED_ORACLE_FLOPS_MAX",
)
_OUTPUT_LIMIT = (
    "TIMED_OUTPUT_RMS_LIMIT",
    "TIMED_OUTPUT_REPLAY_RATIO",
    "TIMED_OUTPUT_REPLAY_FLOOR",
    "TIMED_OUTPUT_ARITHMETIC_MARGIN",
)
_TIMING = (
    "TIMING_ROUNDS_MIN",
    "TIMING_ROUNDS_MAX",
    "TIMING_ROUNDS_SLOW",
    "TIMING_TARGET_HALF_WIDTH",
    "TIMING_CONFIDENCE",
    "TIMING_UNSTABLE_HALF_WIDTH",
    "TIMING_DROP_REASONS",
    "TIMING_ROUNDS_LEFT_MIN",
    "TIMING_TURN_MS",
    "TIMING_REPETITIONS_MAX",
    "TIMING_HOT_MS",
    "TIMING_HOT_LAUNCHES_MAX",
    "TIMING_WARMUP_CHUNK",
    "TIMING_WARMUP_STABLE_RATIO",
    "TIMING_WARMUP_BUDGET_MS",
    "TIMING_RAMP_CLOCK_SHARE",
    "TIMING_RAMP_BUDGET_S",
    "TIMING_LAUNCH_OVERHEAD_MS",
    "TIMING_ROUND_ROOM",
    "TIMING_JOIN_GAP_MS",
    "TIMING_COVER_MS",
    "TIMING_QUEUED_FLUSHES",
    "TIMING_BATCH_QUEUED_FLUSHES",
    "TIMING_SPIN_S",
    "TIMING_SHORTEST_MS",
    "TIMING_CLOCKS_AGREE_RATIO",
    "TIMING_SIGNIFICANT_DIGITS",
    "TIMING_TOTAL_BUDGET_S",
    "TIMING_BATCH_MAX",
    "TIMING_BATCH_BUDGET_MS",
    "TIMING_BATCH_MEMORY_SHARE",
    "TIMING_BOUND_AGREE_RATIO",
    "TIMING_BOUND_ENFORCED_ABOVE_MS",
    "TIMING_BOUND_RESOLUTION",
    "TIMING_BATCHES_MIN",
    "TIMING_BATCHES_MAX",
    "TIMING_BOUND_DRIFT_MAX",
    "TIMING_HOST_BOUND_RATIO",
    "BASELINE_DISTURBED_RATIO",
    *_OUTPUT_LIMIT,
    "TIMED_OUTPUTS_VERIFIED",
    "TIMING_WORTHLESS_TOLERANCE",
)
_COMPILED_BASELINE = ("COMPILED_BASELINE_MODE", "COMPILED_BASELINE_RMS_LIMIT", "COMPILED_BASELINE_OPTIONS")
STAGE_CONSTANTS: dict[str, tuple[str, ...]] = {
    "audit-problem": (
        *_INPUTS,
        "AUDIT_SEEDS",
        "DEGENERATE_MAX_ABS",
        "NON_DISCRIMINATING_TAU",
        "AUDIT_WEIGHT_SEEDS",
        "COMPARE_CHUNK_ELEMENTS",
        "AUDIT_MODE",
        "NEEDS_SECTOR_BYTES",
        "NEEDS_PROBES",
        "NEEDS_PROBE_BUDGET_S",
        *_ORACLE,
        *_HARDENED,
    ),
    "ceilings": (
        "CEILING_BUFFER_BYTES",
        "CEILING_MATMUL_SIZES",
        "CEILING_WARMUPS",
        "CEILING_REPETITIONS",
        "CEILING_BUDGET_S",
    ),
    "compile": (*_WORKER, "CANDIDATE_SIZE_LIMIT_BYTES", "WEIGHT_SEED"),
    "hidden-gate": (
        *_WORKER,
        *_DEVICE,
        *_INPUTS,
        *_ORACLE,
        *_HARDENED,
        "GATE_TRIALS_PER_DISTRIBUTION",
        "HARDENED_WORTHWHILE_TOLERANCE",
        "HARDENED_LAUNCHES",
        "HARDENED_RUBBISH",
        "HARDENED_GAP_BYTES",
        "HARDENED_ALIGN_BYTES",
        "HARDENED_CLOSED",
        "HARDENED_OWN_GAP_BYTES",
        "HARDENED_OWN_TENSORS_MAX",
        "HARDENED_OWN_MEMORY_SHARE",
    ),
    "time-fp32": (*_WORKER, *_DEVICE, *_INPUTS, *_TIMING),
    "time-tf32": (*_WORKER, *_DEVICE, *_INPUTS, *_TIMING),
    "time-ieee": (*_WORKER, *_DEVICE, *_INPUTS, *_TIMING),
    "time-compile": (*_WORKER, *_DEVICE, *_INPUTS, *_TIMING, *_COMPILED_BASELINE),
    "memory": (*_WORKER, *_DEVICE, *_INPUTS, *_OUTPUT_LIMIT, "TIMING_WORTHLESS_TOLERANCE"),
}
"""Which constants shape the record of which stage."""


def digest(stage: str) -> str:
    """Sha256 (hex) over the constants that shape the record of a stage.

    Raises ValueError for an unknown stage.
    """
    if stage not in STAGE_CONSTANTS:
        raise ValueError(f"stage {stage!r} is none of {', '.join(STAGE_CONSTANTS)}")
    values = {name: globals()[name] for name in STAGE_CONSTANTS[stage]}
    values["SCHEMA_VERSION"] = SCHEMA_VERSION
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()
