"""
This part of the workflow turns the tables of a run into what a paper shows: tables, figures, findings.

REQUIRED INPUTS:

    kernels     = results/kernels/{generator}.parquet               of every selected generator
    audits      = results/problems/{suite}/{problem}.json           of every selected problem
    leaderboard = results/leaderboard.json
    labels      = results/llm-judges/labels.json                    where LLM judges are configured
    published   = the file that the configuration names under paper, if any

OUTPUTS:

    tables   = results/paper/tables/{name}.csv, .md, .tex
    figures  = results/paper/figures/{name}.pdf, .png
    findings = results/paper/findings.md, from results/paper/findings/{topic}.json

One job per topic (kbverified.paper.build.TOPICS), which says by itself what it writes: a new topic is no change here.
Editing a topic's module makes that topic's files again, and findings.md. The same tables give the same bytes.
``snakemake paper`` asks for all of it; ``rule all`` does not.
"""

from kbverified.paper import build as paper

PAPER = "results/paper"
PAPER_FILES = [f"{PAPER}/{path}" for topic in paper.TOPICS for path in topic.paths()] + [f"{PAPER}/findings.md"]
PAPER_INPUTS = {
    "kernels": lambda wildcards: [f"results/kernels/{name}.parquet" for name in selected().candidates],
    "audits": lambda wildcards: audits(),
    "leaderboard": LEADERBOARD[0],
    "labels": LLM_LABELS,
    "published": [SETTINGS.paper.published] if SETTINGS.paper.published else [],
}
# What load is told beside the paths. The digests below are made for jobs that are planned, half a second for all.
PAPER_TOLD = SETTINGS.paper.model_dump(exclude={"published"})

if unknown := sorted({*SETTINGS.paper.names, *SETTINGS.paper.references} - SPECS.keys()):
    raise WorkflowError(f"paper: {GENERATORS_TSV} has no row for generator {unknown[0]!r}; it has {', '.join(SPECS)}")


# How Snakemake's own report shows a topic's files, by their folder; what only findings.md reads is not in it.
PAPER_REPORT = {
    kind: {"caption": f"../report/paper_{kind.removesuffix('s')}.rst", "category": f"Paper {kind}"}
    for kind in ("tables", "figures")
}


for topic in paper.TOPICS:

    rule:
        name:
            f"paper_{topic.name}"
        input:
            **PAPER_INPUTS,
        output:
            files=[
                (
                    report(
                        f"{PAPER}/{path}",
                        subcategory=topic.name,
                        labels=dict(zip(("name", "format"), Path(path).name.split("."))),
                        **PAPER_REPORT[Path(path).parts[0]],
                    )
                    if Path(path).parts[0] in PAPER_REPORT
                    else f"{PAPER}/{path}"
                )
                for path in topic.paths()
            ],
        log:
            f"logs/paper/{topic.name}.log",
        benchmark:
            f"benchmarks/out/paper/{topic.name}.tsv"
        localrule: True
        resources:
            mem_mb=3000,
            runtime=30,
        params:
            topic=topic.name,
            code=lambda wildcards, topic=topic.name: code("paper", f"paper.topics.{topic}"),
            settings=AGGREGATION,
            told=PAPER_TOLD,
        script:
            "../scripts/paper.py"


rule paper_findings:
    input:
        **PAPER_INPUTS,
        findings=[f"{PAPER}/findings/{topic.name}.json" for topic in paper.TOPICS],
    output:
        text=report(f"{PAPER}/findings.md", caption="../report/paper_findings.rst", category="Paper findings"),
    log:
        "logs/paper/findings.log",
    benchmark:
        "benchmarks/out/paper/findings.tsv"
    localrule: True
    resources:
        mem_mb=3000,
        runtime=30,
    params:
        topic=None,
        code=lambda wildcards: code("paper"),
        settings=AGGREGATION,
        told=PAPER_TOLD,
    script:
        "../scripts/paper.py"
