"""
This part of the workflow asks LLM judges what they think of the fastest verified candidates.

REQUIRED INPUTS:

    kernels   = results/kernels/{generator}.parquet        of every selected generator
    source    = generations/{generator}/{suite}/{problem}/{sample}.py
    reference = problems/{suite}/{problem}.py
    template  = workflow/prompts/llm_judge.md.j2
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
LLM_SETTINGS = SETTINGS.llm_judges.model_dump(mode="json")


wildcard_constraints:
    judge="|".join(map(re.escape, LLM_JUDGES)) or "(?!)",


def llm_kernels(wildcards):
    if not LLM_JUDGES:
        raise WorkflowError("no LLM judge is configured: name two at least under llm_judges (docs/llm-judges.md)")
    return [f"results/kernels/{name}.parquet" for name in selected().candidates]


def llm_chosen():
    return Path(checkpoints.llm_judges_chosen.get().output.chosen)


def llm_panel(wildcards):
    return llm_plan.panel_paths(llm_chosen())


def llm_all_judgements(wildcards):
    besides = llm_plan.substitute_paths(Path(checkpoints.llm_judges_substitutes.get().output.substitutes))
    return [*llm_panel(wildcards), *besides]


def llm_question(wildcards):
    """What a judge is asked about a candidate, beside its source: a param, since the file that says it is ancient."""
    tail = f"{wildcards.generator}/{wildcards.suite}/{wildcards.problem}/{wildcards.sample}"
    path = Path(f"{LLM_FOLDER}/chosen.json")
    return f"{source_sha256(wildcards)} {llm_plan.question_of(path, tail) if path.exists() else 'not there yet'}"


checkpoint llm_judges_chosen:
    input:
        kernels=llm_kernels,
    output:
        chosen=f"{LLM_FOLDER}/chosen.json",
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
        chosen=ancient(f"{LLM_FOLDER}/chosen.json"),
        template=llm_case.TEMPLATE.as_posix(),
    output:
        judgement=f"{LLM_FOLDER}/{{judge}}/{{generator}}/{{suite}}/{{problem}}/{{sample}}.json",
    log:
        "logs/llm-judges/{judge}/{generator}/{suite}/{problem}/{sample}.log",
    benchmark:
        "benchmarks/out/llm-judges/{judge}/{generator}/{suite}/{problem}/{sample}.tsv"
    resources:
        api_calls=1,
        mem_mb=1000,
        runtime=30,
    params:
        code=code("llm-judge"),
        question=llm_question,
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
        chosen=f"{LLM_FOLDER}/chosen.json",
        judgements=llm_panel,
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
        chosen=f"{LLM_FOLDER}/chosen.json",
        kernels=llm_kernels,
        judgements=llm_all_judgements,
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


rule llm_judges:
    input:
        labels=f"{LLM_FOLDER}/labels.json",
        queue=f"{LLM_FOLDER}/queue.csv",
