"""Whether two names are one model's: endpoints write the same model in their own ways.

Names are compared after case, vendor (``openai/``), routing (``:free``) and the date of a release are gone, so that
``openai/GPT-5.5`` and ``gpt-5.5-2026-01-31`` are one model. ``gpt-5.5-mini`` is another one.
"""

from __future__ import annotations

import re

# A day, a month and day (0613), a year and month (2501).
_DATE = r"20\d{2}-?\d{2}-?\d{2}|(?:0[1-9]|1[0-2])[0-3]\d|2\d(?:0[1-9]|1[0-2])"
_RELEASE = re.compile(rf"-({_DATE}|latest|preview-\d{{2}}-\d{{2,4}})$")


def normal_name(name: str) -> str:
    """A model's name without what differs from endpoint to endpoint; words joined by single hyphens."""
    text = name.strip().casefold().rstrip("/").rsplit("/", 1)[-1]
    text = re.sub(r"^ft:([^:]+)(:.*)?$", r"\1", text)  # a tuned model is judged as the one that it was
    text = re.sub(r"-v\d+:\d+$", "", text)  # Amazon's version of a version
    text = re.sub(r":(?!\d+(\.\d+)?[bm])[^:]*$", "", text).split("@", 1)[0]  # routing; qwen3:32b says a size
    # Some vendors are written with a dot: us.anthropic.claude-..., and quantised files end in .gguf.
    text = text.removesuffix(".gguf")
    text = re.sub(r"^(?:[a-z]+\.)+(?=[a-z])", "", text)
    text = re.sub(r"[^a-z0-9]+", "-", text).strip("-")
    return _RELEASE.sub("", text)


def same_model(a: str, b: str) -> bool:
    """False where nothing is left of either name."""
    return normal_name(a) == normal_name(b) != ""
