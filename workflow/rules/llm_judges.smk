"""
This part of the workflow asks LLM judges what they think of the fastest verified candidates.

REQUIRED INPUTS:

    kernels   = results/kernels/{generator}.parquet        of every selected generator
    source    = generations/{generator}/{suite}/{problem}/{sample}.py
    reference = problems/{suite}/{problem}.py
    template  = workflow/prompts/llm_judge.jinja
    review    = judgements/review.csv, or what llm_judges.review names: a person's file, read where it is there

OUTPUTS:

    chosen      = results/llm-judges/chosen.json           whom to ask about what
    judgements  = results/llm-judges/{judge}/{generator}/{suite}/{problem}/{sample}.json
    substitutes = results/llm-judges/substitutes.json      whom to ask besides, where judges disagree
    labels      = results/llm-judges/labels.json           one label of each candidate
    queue       = results/llm-judges/queue.csv             what a person should look at

``snakemake llm_judges`` asks for it. ``rule all`` does where judges are configured, for then the leaderboard has audited
columns. Who is asked follows from what was measured and from what others answered, so two rules are checkpoints.

Answers are paid for. They lie in judgements/{judge}/responses/, which no rule owns, and are replayed: any judgement may
be made again for nothing. ``ancient``: a new choice alone asks nobody again about what has not changed.
"""

from kbverified.llm_judges import case as llm_case
from kbverified.llm_judges import plan as llm_plan

LLM_FOLDER = llm_plan.FOLDER.as_posix()
LLM_CHOSEN = f"{LLM_FOLDER}/chosen.json"
LLM_SETTINGS = SETTINGS.llm_judges.model_dump(mode="json")
LLM_JUDGES = {judge.name: judge for judge in SETTINGS.llm_judges.judges}
# What the leaderboard and the paper are told besides, where judges are configured.
LLM_LABELS = [f"{LLM_FOLDER}/labels.json"] if LLM_JUDGES else []


wildcard_constraints:
    judge="|".join(map(re.escape, LLM_JUDGES)) or "(?!)",


checkpoint llm_judges_chosen:
    input:
        kernels=lambda wildcards: llm_plan.kernel_paths(SETTINGS.llm_judges, selected().candidates),
    output:
        chosen=LLM_CHOSEN,
    log:
        "logs/llm-judges/chosen.log",
    benchmark:
        "benchmarks/out/llm-judges/chosen.tsv"
    resources:
        mem_mb=4000,
        runtime=30,
    params:
        step="chosen",
        code=code("llm-labels"),
        settings=LLM_SETTINGS,
        told={"models": {name: row.model for name, row in SPECS.items()}},
    script:
        "../scripts/llm_judges.py"


rule llm_judge:
    input:
        source="generations/{generator}/{suite}/{problem}/{sample}.py",
        reference="problems/{suite}/{problem}.py",
        chosen=ancient(LLM_CHOSEN),
        template=llm_case.TEMPLATE.as_posix(),
    output:
        judgement=f"{LLM_FOLDER}/{{judge}}/{{generator}}/{{suite}}/{{problem}}/{{sample}}.json",
    log:
        "logs/llm-judges/{judge}/{generator}/{suite}/{problem}/{sample}.log",
    benchmark:
        "benchmarks/out/llm-judges/{judge}/{generator}/{suite}/{problem}/{sample}.tsv"
    retries: 0
    threads: asking_threads
    resources:
        api_calls=1,
        mem_mb=1000,
        runtime=lambda wildcards: asking_min(LLM_JUDGES[wildcards.judge].timeout_s, SETTINGS.llm_judges.attempts),
    params:
        code=code("llm-judge"),
        # Beside the source: what is asked about it, since the file that says so is ancient.
        question=lambda wildcards: f"{source_sha256(wildcards)} {llm_plan.question_of(Path(LLM_CHOSEN), wildcards)}",
        judge=lambda wildcards: LLM_JUDGES[wildcards.judge].model_dump_json(),
        attempts=SETTINGS.llm_judges.attempts,
        most=SETTINGS.llm_judges.max_source_characters,
        own="--own-models" if SETTINGS.llm_judges.own_models else "",
    shell:
        "kbverified llm-judge --judge {params.judge:q} --chosen {input.chosen} --template {input.template}"
        " --candidate {wildcards.generator}/{wildcards.suite}/{wildcards.problem}/{wildcards.sample}"
        " --attempts {params.attempts} --max-source-characters {params.most} {params.own}"
        " --out {output.judgement} > {log} 2>&1"


checkpoint llm_judges_substitutes:
    input:
        chosen=LLM_CHOSEN,
        judgements=lambda wildcards: llm_plan.panel_paths(checkpoints.llm_judges_chosen.get().output.chosen),
    output:
        substitutes=f"{LLM_FOLDER}/substitutes.json",
    log:
        "logs/llm-judges/substitutes.log",
    benchmark:
        "benchmarks/out/llm-judges/substitutes.tsv"
    resources:
        mem_mb=2000,
        runtime=30,
    params:
        step="substitutes",
        code=code("llm-labels"),
        settings=LLM_SETTINGS,
    script:
        "../scripts/llm_judges.py"


rule llm_judges_labels:
    input:
        chosen=LLM_CHOSEN,
        kernels=lambda wildcards: llm_plan.kernel_paths(SETTINGS.llm_judges, selected().candidates),
        judgements=lambda wildcards: llm_plan.panel_paths(checkpoints.llm_judges_chosen.get().output.chosen),
        besides=lambda wildcards: llm_plan.substitute_paths(checkpoints.llm_judges_substitutes.get().output.substitutes),
        review=lambda wildcards: [path for path in [SETTINGS.llm_judges.review] if os.path.exists(path)],
    output:
        labels=f"{LLM_FOLDER}/labels.json",
        queue=f"{LLM_FOLDER}/queue.csv",
    log:
        "logs/llm-judges/labels.log",
    benchmark:
        "benchmarks/out/llm-judges/labels.tsv"
    resources:
        mem_mb=4000,
        runtime=30,
    params:
        step="labels",
        code=code("llm-labels"),
        settings=LLM_SETTINGS,
        review=lambda wildcards: sha256(SETTINGS.llm_judges.review),
    script:
        "../scripts/llm_judges.py"
