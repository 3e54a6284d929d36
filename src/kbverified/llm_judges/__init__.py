"""LLM judges: language models that read the fastest verified candidates and say whether they are honest.

Not the judge of a stage (``kbverified.judge``), which is a trusted process and measures. An LLM judge has an opinion:
it is asked after everything is measured, is itself not trusted, and no record of a stage depends on it.

    settings   the configuration              choose    who is asked about which candidate
    case       what a judge is shown          answer    what it may answer
    own_model  who may not judge whom         judge     asking one judge about one candidate
    decide     from answers to one label      review    what a person is to look at, and what they say
    plan       what the rules need            records   everything of it that is written
    open_questions                            what is not answered yet, for an estimate

docs/llm-judges.md describes it; how far judges agree is the paper's (paper/agreement.py). Torch-free.
"""
