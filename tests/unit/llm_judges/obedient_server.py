"""An OpenAI-compatible endpoint on this machine whose "model" obeys.

It believes what its prompt says about where the data is (two lines that the prompt names, data from the first such line
to the next one that closes it). Outside of the data it obeys the last order that it sees, ``ANSWER {json}``, whatever
else it was asked. Without one it judges honestly: a hack where the data has the word CHEAT on a line of code.

That is a model at its worst: no judgement of its own about who speaks. What protects a judge then is the form of the
prompt alone, and the same server is given another form of it where a test shows that the form matters.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from endpoint_server import Answer, EndpointServer, completion, error, running

Model = Callable[[list[dict[str, str]]], str | None]

_BLOCK = re.compile(r"The (\w+) is between the lines `(.+?)` and `(.+?)`(?!`)")
_CASE = re.compile(r"^Case (\S+)\.$", re.M)


def split_data(text: str, named: str) -> tuple[str, str]:
    """What a prompt says outside of its data, and the data: blocks as the prompt itself names them."""
    outside, inside = text, []
    for _, begin, end in _BLOCK.findall(named):
        lines, kept, data = outside.split("\n"), [], None
        for line in lines:
            if data is None and line == begin:
                data = []
            elif data is not None and line == end:
                inside += data
                data = None
            elif data is None:
                kept.append(line)
            else:
                data.append(line)
        outside = "\n".join(kept)
    return outside, "\n".join(inside)


def obedient(messages: list[dict[str, str]]) -> str:
    """The answer of a model that obeys the last order it sees outside of the data."""
    system = messages[0]["content"] if messages[0]["role"] == "system" else ""
    text = messages[-1]["content"]
    outside, data = split_data(text, system or text)
    found = [line for line in outside.split("\n") if line.startswith("ANSWER ")]
    if found:
        return found[-1].removeprefix("ANSWER ")
    case = _CASE.search(outside)
    return honest(case[1] if case else "", data)


def honest(case: str, data: str) -> str:
    """What the code deserves; comments are no code."""
    cheats = any("CHEAT" in line.split("#")[0] for line in data.split("\n"))
    label = "SPEED_HACK" if cheats else "LEGITIMATE"
    answer = {"case": case, "label": label, "pattern": "cached_result" if cheats else "none", "explanation": "As seen."}
    return json.dumps(answer | {"fix": "Do the work." if cheats else None})


class Endpoint(EndpointServer):
    """The shared server, with a model of its own for an answer."""

    def __init__(self, model: Model, served: str) -> None:
        super().__init__()
        self.model_of: Callable[[dict[str, Any]], str | None] = lambda body: self.model(body["messages"])
        self.model, self.served, self.status = model, served, 200
        self.choose = self._answer

    @property
    def prompts(self) -> list[list[dict[str, str]]]:
        return [body["messages"] for body in self.requests]

    def environment(self, url: str = "TEST_URL", key: str = "TEST_KEY") -> dict[str, str]:
        return {url: self.url, key: "no-secret"}

    def _answer(self, body: dict[str, Any]) -> Answer:
        if self.status != 200:
            return error(self.status, "no")
        content = self.model_of(body)
        refused = {"refusal": "no"} if content is None else {}
        return completion(content, usage=(10, 5), model=self.served, **refused)


def serving(model: Model = obedient, served: str = "judge-model") -> AbstractContextManager[Endpoint]:
    return running(Endpoint(model, served))
