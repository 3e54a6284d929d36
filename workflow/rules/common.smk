"""
Settings, keys and the small functions that the rule files share.

REQUIRED INPUTS:

    config/config.yaml      merged with --configfile and --config
    config/generators.tsv   or the table that generators_tsv names
    problems/, generations/ what is there decides what is selected

OUTPUTS: none; afterwards these names are set

    SETTINGS      the validated configuration
    DEVICE        cuda or cpu
    SPECS         the rows of the generators table, by name
    LEADERBOARD   paths of the final tables, PAGE of what shows them

audits(), records() and metadata() look up what is selected when asked: one candidate's record never scans all others.
"""

import hashlib
import re
import shlex
from functools import cache

from snakemake.exceptions import WorkflowError
from snakemake.logging import logger

from kbverified import keys, progress, prompts, protocol, run_lock, source_digest, summary
from kbverified.config import ConfigError
from kbverified.config_files import read_settings
from kbverified.device_choice import resolve_device
from kbverified.generators import read_generators
from kbverified.selection import select

# In the order in which they override each other: this workflow's own first, then those of the command line.
CONFIG_FILES = sorted(map(os.path.relpath, workflow.configfiles), key=lambda path: path != "config/config.yaml")

try:
    SETTINGS = read_settings(config, CONFIG_FILES)
    GENERATORS_TSV = Path(SETTINGS.generators_tsv)
    ROWS = read_generators(GENERATORS_TSV)
    # Which executor there will be is not known yet, and whoever plans a run needs no GPU: see require_device.
    DEVICE = resolve_device(SETTINGS.device, check=False)
except (ConfigError, OSError, ValueError) as error:
    raise WorkflowError(str(error)) from None

# The one switch that gets past update() in generate.smk: it would delete paid and edited samples.
if "--delete-all-output" in sys.argv and any(row.origin == "api" for row in ROWS):
    raise WorkflowError("--delete-all-output would delete generated candidates as well. Delete results/ instead.")

SPECS = {row.generator: row for row in ROWS}
# Named by path, not by reference, which takes a quadratic time: docs/decisions/0011-planning-at-scale.md.
LEADERBOARD = [f"results/leaderboard.{ending}" for ending in ("json", "csv", "md")]
PAGE = "results/leaderboard.html"
# What aggregation is told; everything else in the configuration is about stages.
AGGREGATION = SETTINGS.aggregation()

if workflow.is_main_process:
    run_lock.hold(Path(".snakemake"))

# In the environment of the jobs and in no param: a stage writes the same record with it and without.
os.environ.setdefault("KBV_EVALUATOR", "on" if SETTINGS.evaluator else "off")

# Rules write ``kbverified stage ...``: this very interpreter. A prefix replaces Snakemake's own, strict mode included.
shell.prefix(f'set -euo pipefail; kbverified() {{{{ exec {shlex.quote(sys.executable)} -m kbverified "$@"; }}}}; ')


wildcard_constraints:
    generator=keys.NAME_PATTERN,
    suite=keys.NAME_PATTERN,
    problem=keys.PROBLEM_PATTERN,
    sample=keys.SAMPLE_PATTERN,


@cache
def _sha256_of_existing(path):
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def sha256(path):
    """Sha256 (hex) of a file. A candidate that is still to be generated has none yet: its job is planned anew later."""
    try:
        return _sha256_of_existing(path)
    except FileNotFoundError:
        return "not there yet"


def problem_sha256(wildcards):
    return f"problem {sha256(f'problems/{wildcards.suite}/{wildcards.problem}.py')}"


def source_sha256(wildcards):
    """Tracked beside the inputs themselves, because an edit that keeps an old mtime (rsync, tar) is an edit too."""
    tail = keys.candidate_tail(wildcards.generator, wildcards.suite, wildcards.problem, wildcards.sample)
    return f"candidate {sha256(f'generations/{tail}.py')} {problem_sha256(wildcards)}"


def code(stage, *more):
    """Modules and constants that shape a record: a change reruns its stage. ``more``: modules loaded by their names."""
    constants = protocol.digest(stage) if stage in protocol.STAGE_CONSTANTS else ""
    return f"{source_digest.digest(stage, *more)} {constants}"


@cache
def selected():
    """Keys of what is selected."""
    try:
        return select(SETTINGS.selection, ROWS, DEVICE)
    except (ConfigError, OSError, ValueError) as error:
        raise WorkflowError(str(error)) from None


@cache
def audits():
    """Paths of the audit records of all selected problems."""
    return [f"results/problems/{key.suite}/{key.problem}.json" for key in selected().problems]


@cache
def records(generator):
    """Paths of all records of a selected generator."""
    stages = keys.stages_with(SETTINGS.baselines)
    return [f"results/{stage}/{key.tail}.json" for key in selected().candidates[generator] for stage in stages]


def metadata(generator):
    """Paths of the metadata beside candidates: optional where it was put there by hand, always made by an API's."""
    paths = [f"generations/{key.tail}.json" for key in selected().candidates.get(generator, ())]
    return paths if SPECS[generator].asks else [path for path in paths if os.path.exists(path)]


def dtype(wildcards):
    """A candidate outside the selection may be asked for by name, but its generator has to be in the table."""
    if wildcards.generator not in SPECS:
        raise WorkflowError(
            f"{GENERATORS_TSV}: no row for generator {wildcards.generator!r}; it has {', '.join(SPECS)}"
        )
    return SPECS[wildcards.generator].dtype


def records_of(wildcards):
    """All records of a generator. Its table needs the selection: what is in it decides what is a row."""
    chosen = selected().candidates
    if wildcards.generator not in chosen:
        raise WorkflowError(
            f"results/kernels/{wildcards.generator}.parquet: generator {wildcards.generator!r} is not selected, or has "
            f"no candidate; selected: {', '.join(chosen)}"
        )
    return records(wildcards.generator)


def options(stage):
    """The settings that shape a stage's record, as its command line gets them: tracked as a param."""
    common = f"--device {DEVICE} --sandbox {SETTINGS.sandbox} --build-root {shlex.quote(SETTINGS.build_root)}"
    if SETTINGS.compile.arch:  # also where nothing is built: it is part of the place where a build lies
        common = f"{common} --arch {SETTINGS.compile.arch}"
    budget = f" --timing-budget-s {SETTINGS.timing.budget_s}"
    own = {"hidden-gate": f" --gate-mode {SETTINGS.gate_mode}", "time": budget}.get(stage, "")
    return lambda wildcards: f"{common}{own} --dtype {dtype(wildcards)}"


def api_generators():
    """A pattern for the generators whose candidates may be generated; one that matches nothing where there is none."""
    names = [re.escape(name) for name, row in SPECS.items() if row.asks]
    return "|".join(names) or "(?!)"
