"""Problems that state their sizes (4096 and 513) in odd places: what must come out clean, and what must be refused."""

from __future__ import annotations

HEAD = "import torch\nimport torch.nn as nn\n"
DATACLASS = "import dataclasses\n@dataclasses.dataclass\nclass Sizes:\n"
NO_ARGUMENTS = "def get_init_inputs():\n    return []\n"
INPUTS = "def get_inputs():\n    return [torch.rand(4096, 513)]\n" + NO_ARGUMENTS
BY_NAME = INPUTS.replace("4096", "n")
ONE_ARGUMENT = INPUTS.replace("return []", "return [4096]")
IN_BLOCK = f"{HEAD}if True:\n    class Model(nn.Module):\n        def forward(self, x):\n            return x\n{INPUTS}"


def of(what: str) -> str:
    """The inputs with a size that is read from somewhere."""
    return INPUTS.replace("4096", what)


def problem(body: str = "    pass", before: str = "", inputs: str = INPUTS, bases: str = "nn.Module") -> str:
    """A module with this class body; a forward where it has none."""
    own = "" if "def forward" in body else "    def forward(self, x):\n        return x * 2\n"
    return f"{HEAD}{before}\nclass Model({bases}):\n{body}\n{own}\n{inputs}"


def forward(*lines: str, arguments: str = "x", before: str = "", inputs: str = INPUTS, first: str = "") -> str:
    """A module whose forward consists of these lines."""
    body = "".join(f"        {line}\n" for line in lines)
    return problem(f"{first}    def forward(self, {arguments}):\n{body}", before, inputs)


def constructor(arguments: str) -> str:
    return f"    def __init__(self, {arguments}):\n        super().__init__()\n"


CLEAN = {
    "a docstring": forward('"4096 rows"', "return x", first='    "for (4096, 513)"\n'),
    "a text that is no docstring": forward("y = x", "'4096 rows'", "return y"),
    "a comment": forward("return x  # (4096, 513)"),
    "a default that is given": problem(constructor("rows=4096"), inputs=ONE_ARGUMENT),
    "a default of an inherited constructor": problem(
        before=f"class Base(nn.Module):\n{constructor('rows=4096')}", inputs=ONE_ARGUMENT, bases="Base"
    ),
    "a default of forward": forward("return x", arguments="x=torch.zeros(4096)"),
    "a default of a helper that every call overrides": forward(
        "return scaled(x, x.size(0))", before="def scaled(x, rows=4096):\n    return x / rows\n"
    ),
    "a default of a helper, by keyword": forward(
        "return scaled(x, rows=len(x))", before="def scaled(x, by=1, rows=4096):\n    return x / rows * by\n"
    ),
    "an annotation": forward("return x", arguments="x: 'Tensor[4096, 513]'"),
    "an annotated variable": forward("y: 'rows 4096' = x", "return y"),
    "an assertion": forward("assert x.size(0) == 4096, '4096 rows'", "return x"),
    "an assertion alone in a block": forward("if x.dim():", "    assert len(x) == 4096", "return x"),
    "a number that nobody reads": forward("rows = 4096", "return x"),
    "a method that nobody calls": problem("    def rows(self):\n        return 4096"),
    "extra_repr": problem("    def extra_repr(self):\n        return 'rows=4096'"),
    "a class attribute that only inputs read": problem("    rows = 4096", inputs=of("Model.rows")),
    "a class of constants": problem(before="class Sizes:\n    n = 4096\n", inputs=of("Sizes.n")),
    "a helper of the inputs": problem(before="def rows():\n    return 4096\n", inputs=of("rows()")),
    "a helper of a helper": problem(
        before="def more():\n    return 4096\ndef rows():\n    return more()\n", inputs=of("rows()")
    ),
    "a class attribute that a local shares its name with": forward(
        "n = len(x)", "return x / n", first="    n = 4096\n"
    ),
    "an if-block": problem(before="if True:\n    n = 4096\nelse:\n    n = 513\n", inputs=BY_NAME),
    "a try-block": problem(before="try:\n    n = 4096\nexcept Exception:\n    n = 513\n", inputs=BY_NAME),
    "a tuple": problem(before="(n, m), *rest = (4096, 513), 513, 4096\n", inputs=BY_NAME),
    "a walrus": problem(before="if (n := 4096) > 513:\n    pass\n", inputs=BY_NAME),
    "a loop": problem(before="for n in (513, 4096):\n    pass\n", inputs=BY_NAME),
    "a global statement": problem(inputs=BY_NAME.replace("    return [t", "    global n\n    n = 4096\n    return [t")),
    "exec": problem(before="exec('n = 4096')\n", inputs=BY_NAME),
    "a dictionary": problem(before="sizes = {'n': 4096}\n", inputs=of("sizes['n']")),
    "a computed constant": problem(before="n = 1 << 12\n", inputs=BY_NAME),
    "a constant with an annotation": problem(before="n: int = 4096\n", inputs=BY_NAME),
    "a lambda": problem(inputs="get_inputs = lambda: [torch.rand(4096, 513)]\n" + NO_ARGUMENTS),
    "a main block": problem(before="if __name__ == '__main__':\n    print(4096)\n"),
    "a name of the inputs": problem(before="rows_4096 = 4096\n", inputs=of("rows_4096")),
    "one line for all": problem(before="n = 4096; m = 513\n", inputs=BY_NAME),
    "a local of a constant's name": forward("n = x.size(0)", "return x / n", before="n = 4096\n", inputs=BY_NAME),
    "a deleted constant": problem(before="n = m = 4096\ndel m\n", inputs=BY_NAME),
    "a form feed and a tab": problem(before="\x0cn\t=\t4096\n", inputs=BY_NAME),
    "an alias without a number": forward(
        "return double(x)", before="def same(f):\n    return f\ndouble = same(torch.relu)\n"
    ),
    "infinity": problem(before="n = 1e999\n"),
    "hexadecimal": problem(before="n = 0x10_00\n", inputs=BY_NAME),
}

REFUSED = {
    "no get_init_inputs": (problem(inputs=INPUTS.replace(NO_ARGUMENTS, "")), "no `get_init_inputs`"),
    "a syntax error": (problem("    def ("), "syntax error"),
    "Model reads a constant": (
        forward("return x[:n]", before="n = 4096\n"),
        "odd.py:7: Model, or what it calls, reads the module's n,",
    ),
    "a default reads a constant": (forward("return x", arguments="x, rows=n", before="n = 4096\n"), "the module's n"),
    "a helper reads a constant": (
        forward("return cut(x)", before="n = 4096\ndef cut(x):\n    return x[:n]\n"),
        "the module's n",
    ),
    "a constant of exec": (forward("return x[:n]", before="exec('n = 4096')\n"), "the module's n"),
    "a constant of an if-block": (forward("return x[:n]", before="if True:\n    n = 4096\n"), "the module's n"),
    "a constant that is a call": (
        forward("return x[:n]", before="from math import prod\nn = prod([2] * 12)\n"),
        "the module's n",
    ),
    "a function with a constant in it": (
        forward("return cut(x)", before="from functools import partial\ncut = partial(torch.narrow, length=4096)\n"),
        "the module's cut",
    ),
    "a global statement": (forward("global n", "n = 4096", "return x"), "binds the module's n"),
    "a helper that both use": (
        forward("return x[:rows()]", before="def rows():\n    return 4096\n", inputs=of("rows()")),
        "Model and the inputs share rows, which holds 4096",
    ),
    "a class attribute that both use": (
        forward("return x[:self.rows]", first="    rows = 4096\n", inputs=of("Model.rows")),
        "attribute rows, which the inputs are made from",
    ),
    "nested too deeply": (problem(before=f"n = {'-' * 3000}4096\n"), "it is nested too deeply to be read"),
    "a name": (forward("return rows_4096", arguments="rows_4096"), "the name rows_4096 tells 4096"),
    "an attribute's name": (
        forward("self.cache4096 = x", "return self.cache4096"),
        "the name cache4096 tells 4096",
    ),
    "an attribute's name, of another object": (
        forward("x.rows_4096 = x", "return x"),
        "the name rows_4096 tells 4096",
    ),
    "a buffer's name": (
        problem("    def __init__(self):\n        super().__init__()\n        self.register_buffer('b4096', None)"),
        "a text that tells 4096: 'b4096'",
    ),
    "a name with a mark between thousands": (forward("return rows_4_096", arguments="rows_4_096"), "tells 4096"),
    "a class's name": (
        problem(before="class Mul4096(nn.Module):\n    pass\n", bases="Mul4096"),
        "the name Mul4096 tells 4096",
    ),
    "the name of an argument's type": (
        problem(constructor("how"), "class Rows4096:\n    pass\n", ONE_ARGUMENT.replace("[4096]", "[[Rows4096()]]")),
        "an argument's name or type (how: list of Rows4096) tells 4096",
    ),
    "a field of a dataclass that nobody reads": (
        forward("return x * Sizes().k", before=f"{DATACLASS}    n: int = 4096\n    k: int = 3\n"),
        "a field of Sizes tells 4096",
    ),
    "an argument that becomes a field": (
        forward("return x * Sizes(4096, k=3).k", before=f"{DATACLASS}    n: int\n    k: int\n"),
        "a field of Sizes tells 4096",
    ),
    "a field whose annotation tells a value": (
        forward("return x * Sizes(3).k", before=f"{DATACLASS}    k: 'up to 4096'\n"),
        "a field of Sizes has an annotation with a value",
    ),
    "a field of a named tuple": (
        forward(
            "return x * Sizes().k",
            before="from typing import NamedTuple\nclass Sizes(NamedTuple):\n    n: int = 4096\n    k: int = 3\n",
        ),
        "a field of Sizes tells 4096",
    ),
    "a member of an enumeration": (
        forward(
            "n = len(x)",
            "return x * Sizes.k / n",
            before="import enum\nclass Sizes(enum.IntEnum):\n    n = 4096\n    k = 3\n",
        ),
        "a field of Sizes tells 4096",
    ),
    "a lambda for forward": (
        f"{HEAD}class Model(nn.Module):\n    forward = lambda self, x, n=4096: x * 2\n{INPUTS}",
        "Model's forward is no method that a class defines by that name",
    ),
    "a function for a constructor": (
        problem("    __init__ = made", before="def made(self, n=4096):\n    nn.Module.__init__(self)\n"),
        "Model's __init__ is no method that a class defines by that name",
    ),
    "a text": (
        forward("if x.dim() > 2:", "    raise ValueError('4096 rows')", "return x"),
        "a text that tells 4096",
    ),
    "a star import": (problem(before="from math import *\n"), "a star import"),
    "a default that binds a name": (forward("return x", arguments="x, y=(n := 4096)"), "a default value binds a name"),
    "an assertion that binds a name": (forward("assert (n := 4096)", "return x[:n]"), "an assertion binds a name"),
    "Model in a block": (IN_BLOCK, "Model is bound by more"),
    "Model bound twice": (problem() + "Model = type('Model', (Model,), {'n': 4096})\n", "Model is bound by more"),
    "Model is a function": (f"{HEAD}def Model():\n    return None\n{INPUTS}", "Model is no class with a forward"),
    "inputs that need values": (problem(inputs=of("int(torch.rand(1))")), "get_inputs raises"),
    "too many inputs": (problem(inputs=INPUTS.replace("513)]", "513), 7]")), "takes 1 arguments and is given 2"),
    "a statement in a class": (problem("    if True:\n        rows = 4096"), "a statement of kind If"),
}
