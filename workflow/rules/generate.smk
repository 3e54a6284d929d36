"""
This part of the workflow asks a model's API for candidates. Bundled and imported candidates are plain files and
never outputs of a rule: Snakemake deletes a rule's outputs before it runs the rule again.

REQUIRED INPUTS:

    problem   = problems/{suite}/{problem}.py

OUTPUTS:

    source    = generations/{generator}/{suite}/{problem}/{sample}.py     for generators with origin api only
    metadata  = generations/{generator}/{suite}/{problem}/{sample}.json

A response is paid for, so nothing here may lose one. Responses live in an append-only store under
generations/{generator}/ that no rule owns, and the command replays it before it asks again. ``update`` keeps the
outputs in place while the rule runs and brings them back where it fails; a sample edited by hand is left as it is.
``ancient``: a newer problem file alone sends no new request. To ask anew, delete the sample: what is asked is known by
the sha256 of its messages, so that a changed template, list of blind problems or hardware asks anew only where the
messages are others (docs/prompts.md). None of these is a param: a run with them would find every sample kept.

A job waits for its endpoint and computes nothing: where ``api_calls`` says how many may run at once, it takes no core of
this machine. The generator's own limits hold between jobs, whatever starts them. ``retries: 0``: the command has tried
again by itself, and where the budget is spent another try would be refused as well. ``runtime``, in minutes: waiting
for a turn and trying may take ``timeout_s`` each, and the last request twice that.
"""

# For where the machine that asks has no device, in the very words of the command line.
HARDWARE = SETTINGS.hardware.model_dump_json(exclude_none=True) if SETTINGS.hardware.name else "none"


rule generate:
    input:
        problem=ancient("problems/{suite}/{problem}.py"),
    output:
        source=update("generations/{generator}/{suite}/{problem}/{sample}.py"),
        metadata=update("generations/{generator}/{suite}/{problem}/{sample}.json"),
    log:
        "logs/generate/{generator}/{suite}/{problem}/{sample}.log",
    benchmark:
        "benchmarks/out/generate/{generator}/{suite}/{problem}/{sample}.tsv"
    wildcard_constraints:
        generator=api_generators(),
    retries: 0
    threads: asking_threads
    resources:
        api_calls=1,
        mem_mb=1000,
        runtime=lambda wildcards: asking_min(SPECS[wildcards.generator].timeout_s),
        generators=SETTINGS.generators_tsv,
        prompt=lambda w: prompts.from_settings(SETTINGS, w.suite, w.problem, SPECS[w.generator].prompt).variant,
        hardware=HARDWARE,
    shell:
        "kbverified generate --generator {wildcards.generator} --suite {wildcards.suite}"
        " --problem {wildcards.problem} --sample {wildcards.sample}"
        " --prompt {resources.prompt} --hardware {resources.hardware:q}"
        " --generators-tsv {resources.generators:q} --out {output.source} > {log} 2>&1"
