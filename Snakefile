"""
From problems and language-model-written kernels to verified speedups.

One file target per candidate and stage, in the order of the includes below:

    generate -> compile -> hidden-gate -> time-fp32, time-tf32 -> memory -> aggregate

    snakemake --cores all                                    what config/config.yaml selects
    snakemake --cores all --configfile config/kernelbench.yaml
    snakemake --cores all results/kernels/GENERATOR.parquet  one generator
    snakemake --cores all llm_judges                         what LLM judges say of the fastest verified candidates
    snakemake --cores all paper                              tables, figures and findings, in results/paper/
    snakemake -n                                             what would run, and why
    snakemake --report report.html                           tables, run times and the graph of rules as one HTML file

Stages have a rising ``priority``: what holds a GPU starts before what makes more of it ready, and a candidate that was
begun is finished before the next, so that a run that is cut short leaves whole candidates.

A candidate's failure is a result: the job succeeds and its record says why. Only faults of the machine fail a job.
The stages are ``shell:`` with a light client and not ``script:``: Snakemake starts a script's interpreter with a
preamble that costs 270 ms, reruns it when the script is merely touched and does not see the modules it imports.
Here the modules behind a stage enter its ``params:`` as a digest instead (src/kbverified/source_digest.py).
"""

import os
import sys
from pathlib import Path

from snakemake.utils import min_version

min_version("9.27")

# The code beside this file is the code that runs, in this process and in every job, whatever else is installed.
sys.path.insert(0, str(Path(workflow.basedir) / "src"))
os.environ.update(PYTHONPATH=os.pathsep.join([sys.path[0], *filter(None, [os.environ.get("PYTHONPATH")])]))


configfile: "config/config.yaml"


report: "workflow/report/workflow.rst"


include: "workflow/rules/common.smk"
include: "workflow/rules/resources.smk"
include: "workflow/rules/problems.smk"
include: "workflow/rules/generate.smk"
include: "workflow/rules/compile.smk"
include: "workflow/rules/hidden_gate.smk"
include: "workflow/rules/time.smk"
include: "workflow/rules/ceilings.smk"
include: "workflow/rules/memory.smk"
include: "workflow/rules/aggregate.smk"
include: "workflow/rules/llm_judges.smk"
include: "workflow/rules/page.smk"
include: "workflow/rules/paper.smk"


localrules:
    all,
    aggregate,
    leaderboard,
    llm_judges,
    llm_judges_chosen,
    llm_judges_labels,
    llm_judges_substitutes,
    page,
    paper,


# Every record is requested, not only the leaderboard: Snakemake does not remake a deleted intermediate that nobody
# asks for.
rule all:
    default_target: True
    input:
        leaderboard=LEADERBOARD,
        page=PAGE,
        problems=lambda wildcards: audits(),
        ceilings=CEILINGS,
        records=lambda wildcards: [record for generator in selected().candidates for record in records(generator)],


rule llm_judges:
    input:
        labels="results/llm-judges/labels.json",
        queue="results/llm-judges/queue.csv",


rule paper:
    input:
        files=PAPER_FILES,


onstart:
    require_device()
    progress.start(logger, total=len(workflow.dag))


onsuccess:
    progress.finish()
    summary.print_success(Path("."))


onerror:
    progress.finish()
    summary.print_failure(log)
