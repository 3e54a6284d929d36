"""Answers as models give them, and worse, to source; and what classify says of sources that try to break it."""

from __future__ import annotations

import itertools
import random
import subprocess
import time
from pathlib import Path

import pytest

from kbverified import parse_check, source_check
from kbverified.extraction import classify, extract
from kbverified.protocol import CANDIDATE_SIZE_LIMIT_BYTES

MODEL = "import torch.nn as nn\n\nclass ModelNew(nn.Module):\n    pass\n"
OTHER = "import torch.nn as nn\n\nclass ModelNew(nn.Module):\n    other = 1\n"
BROKEN = "import torch.nn as nn\n\nclass ModelNew(nn.Module):\n    def forward(self, x:\n"


def fenced(code: str, tag: str = "python", fence: str = "```") -> str:
    return f"{fence}{tag}\n{code}{fence}\n"


@pytest.mark.parametrize("tag", ["python", "py", "Python", "python3", "", "python title=model.py", "{.python}"])
def test_one_fenced_block(tag: str) -> None:
    found = extract(f"Here you are:\n\n{fenced(MODEL, tag)}\nGood luck!")
    assert (found.code, found.how, found.detail) == (MODEL, "fence", None)


@pytest.mark.parametrize("fence", ["~~~", "````", "```````"])
def test_other_fences(fence: str) -> None:
    inner = MODEL + '    """\n```\nexample\n```\n    """\n'
    assert extract("Text.\n" + fenced(inner, fence=fence)).code == inner


@pytest.mark.parametrize("text", [MODEL, "\ufeff" + MODEL, MODEL.replace("\n", "\r\n"), "x = 1\n", "def f(): pass\n"])
def test_a_program_is_taken_verbatim(text: str) -> None:
    assert (extract(text).code, extract(text).how) == (text, "verbatim")


def test_a_fence_inside_a_docstring_cuts_nothing() -> None:
    program = f'"""Use it so:\n\n```python\n{OTHER}```\n"""\n{MODEL}'
    assert extract(program).code == program
    broken = f'"""Use it so:\n\n```python\nModelNew()\n```\n"""\n{BROKEN}'
    assert extract(broken).code == broken


@pytest.mark.parametrize(
    "text", [None, "", " \n\t", "None", "none\n", "null", "'None'", "```python\n```", "```\n\n```"]
)
def test_nothing_is_no_code(text: str | None) -> None:
    found = extract(text)
    assert (found.code, found.how) == ("", "none")
    assert found.detail


@pytest.mark.parametrize(
    "text",
    [
        "I'm sorry, but I can't help with that.",
        "Sorry",
        "I cannot write ModelNew for you.",
        "```python\nNone\n```",
        "<think>\n" + fenced(MODEL) + "</think>\nI give up.",
        fenced("__global__ void k() {}\n", "cuda"),
    ],
)
def test_refusals_are_no_code_and_say_so(text: str) -> None:
    found = extract(text)
    assert (found.code, found.how) == ("", "none")
    assert found.detail


def test_truncated_answers() -> None:
    found = extract(f"Sure:\n```python\n{BROKEN}")
    assert (found.code, found.how) == (BROKEN, "fence")
    assert "cut off" in str(found.detail)
    early = extract("```python\nimport torch\n\nsource = '''\n")
    assert early.code == "import torch\n\nsource = '''\n"
    assert "no block defines ModelNew; the fence is not closed" in str(early.detail)
    unfenced = "import torch\n\nsource = '''\n__global__ void k("
    assert (extract(unfenced).code, extract(unfenced).how) == (unfenced, "verbatim")


def test_the_last_complete_block_wins() -> None:
    assert extract(fenced(MODEL) + "Better:\n" + fenced(OTHER)).code == OTHER
    assert extract(fenced(MODEL) + "Better:\n" + fenced(BROKEN)).code == MODEL
    assert extract(fenced(BROKEN) + fenced(BROKEN + "# 2\n")).code == BROKEN + "# 2\n"
    assert extract(fenced(MODEL) + "Run it:\n" + fenced("pip install torch\n", "bash")).code == MODEL
    assert extract(fenced(MODEL) + "Test it:\n" + fenced("print(ModelNew())\n")).code == MODEL


def test_thinking_aloud_is_not_the_answer() -> None:
    assert extract(f"<think>\n{fenced(OTHER)}</think>\n{fenced(MODEL)}").code == MODEL
    assert extract(f"{fenced(OTHER)}</think>\n{fenced(BROKEN)}").code == BROKEN


def test_a_program_told_in_pieces_is_put_together() -> None:
    first = "import torch.nn as nn\nsource = 'int f();'\n"
    second = "class ModelNew(nn.Module):\n    code = source\n"
    found = extract(f"First:\n{fenced(first)}Then:\n{fenced(second)}And run:\n{fenced('ModelNew()')}")
    assert found.code == f"{first}\n{second}"
    assert classify(found.code.encode()) is None


def test_a_block_that_stands_alone_gets_nothing_before_it() -> None:
    usage = "x = 1\nprint(x)\n"
    model = MODEL + "    def forward(self, x):\n        return x\n"
    assert extract(fenced(usage) + fenced(model)).code == model


def test_blocks_in_a_list_are_unindented() -> None:
    block = "".join(f"   {line}\n" for line in fenced(MODEL).splitlines())
    assert extract(f"1. The code:\n\n{block}").code == MODEL


def test_no_block_defines_the_model() -> None:
    found = extract(fenced("class Other: pass\n") + fenced("x = 1\n"))
    assert (found.code, found.how) == ("class Other: pass\n\nx = 1\n", "fence")
    assert "ModelNew" in str(found.detail)


def test_extract_never_raises_and_never_invents() -> None:
    """Random soup of everything that means something here: the code is always made of lines of the answer."""
    pieces = [
        "```",
        "```python",
        "~~~",
        "````py",
        "class ModelNew: pass",
        "None",
        "</think>",
        "\x00",
        "\ud800",
        "x=(",
        "",
    ]
    pieces += ["    ```", "import torch", "é", "'''", "\u2028", "\r", "`" * 200, "from m import ModelNew", "sorry"]
    choose = random.Random(20261129)
    hows = set()
    for _ in range(1500):
        text = choose.choice(["\n", "\r\n"]).join(choose.choices(pieces, k=choose.randint(0, 9)))
        found = extract(text)
        hows.add(found.how)
        assert (found.code == "") == (found.how == "none"), text
        given = {line.strip() for line in text.split("\n")} | {""}
        assert {line.strip() for line in found.code.split("\n")} <= given, text
    assert hows == {"verbatim", "fence", "none"}


@pytest.mark.parametrize(
    "text", ["`" * 300_000, "```\n" * 100_000, "(" * 300_000, "a\n" * 400_000, " " * 400_000 + "x"]
)
def test_extract_stays_quick_on_large_answers(text: str) -> None:
    before = time.process_time()
    extract(text)
    assert time.process_time() - before < 5


@pytest.mark.parametrize(
    "source",
    [
        MODEL.encode(),
        b"\xef\xbb\xbf" + MODEL.encode(),
        MODEL.replace("\n", "\r\n").encode(),
        b"from other import ModelNew\n",
        b"import other as ModelNew\n",
        b"ModelNew = object\n",
        b"if True:\n    class ModelNew: pass\n",
        b"try:\n    import triton\nexcept ImportError:\n    ModelNew = None\n",
        b"exec('class Model' + 'New: pass')\n",
        b"globals()['ModelNew'] = object\n",
        b"from other import *\n",
        b"def f():\n    global ModelNew\n    ModelNew = object\nf()\n",
    ],
)
def test_nothing_to_object_to(source: bytes) -> None:
    assert classify(source) is None


@pytest.mark.parametrize("declared", [b"utf-8", b"UTF8", b"ascii", b"latin-1"])
def test_a_declared_encoding_that_changes_nothing(declared: bytes) -> None:
    assert classify(b"# -*- coding: " + declared + b" -*-\n" + MODEL.encode()) is None


@pytest.mark.parametrize(
    ("source", "verdict", "words"),
    [
        (b"", "no_code", "empty"),
        (b" \n\t\r\n", "no_code", "empty"),
        (b"None\n", "no_code", "None"),
        ("# caf\xe9\n".encode("latin-1") + MODEL.encode(), "unreadable_source", "byte 5"),
        (MODEL.encode("utf-16"), "unreadable_source", "NUL"),
        (MODEL.encode() + b"\0", "unreadable_source", "NUL"),
        (b"\xed\xa0\x80 = 1\n", "unreadable_source", "UTF-8"),
        # What Python would run has to be what readers are shown (PEP 263).
        (b"# coding: utf-7\n# +AAo-import os\n" + MODEL.encode(), "unreadable_source", "utf-7"),
        (b"\r# coding: utf-7\n# +AAo-import os\n" + MODEL.encode(), "unreadable_source", "utf-7"),
        (b"#\n# vim: fileencoding=unicode_escape\n" + MODEL.encode(), "unreadable_source", "unicode"),
        ("# coding: latin-1\n# caf\xe9\n".encode() + MODEL.encode(), "unreadable_source", "iso-8859-1"),
        (b"# coding: nonsense\n" + MODEL.encode(), "syntax_error", "nonsense"),
        (b"#" * (CANDIDATE_SIZE_LIMIT_BYTES + 1), "unreadable_source", "limit"),
        (b"#" * (10 << 20), "unreadable_source", "limit"),
        (BROKEN.encode(), "syntax_error", "line 4"),
        (MODEL.encode() + b"return 1\n", "syntax_error", "outside function"),
        (MODEL.encode() + b"x = " + b"9" * 10_000, "syntax_error", "line 5"),
        (b"# just a comment\n", "no_model_new", "ModelNew"),
        (b"class Model: pass\n", "no_model_new", "ModelNew"),
        (b"def f():\n    class ModelNew: pass\n", "no_model_new", "ModelNew"),
        (b"'class ModelNew: pass'\n", "no_model_new", "ModelNew"),
        (b"ModelNew\n", "no_model_new", "ModelNew"),
    ],
)
def test_failures_that_show_in_the_source(source: bytes, verdict: str, words: str) -> None:
    found = classify(source)
    assert found is not None
    assert found.verdict == verdict
    assert words in found.detail


def test_nothing_of_a_source_is_run(tmp_path) -> None:
    mark = tmp_path / "mark"
    source = f"open({str(mark)!r}, 'w')\nclass ModelNew: pass\n".encode()
    assert classify(source) is None
    assert not mark.exists()


DEEP = {
    "parentheses": b"(" * 100_000,
    "unary": b"-" * 1_000_000 + b"1",
    "attributes": b"a" + b".b" * 300_000,
    "calls": b"f" + b"()" * 300_000,
    "sums": b"a" + b"+a" * 300_000,
    "lambdas": b"lambda:" * 300_000 + b"1",
    "conditionals": b"1 if 1 else " * 200_000 + b"1",
    "branches": b"if a: pass\n" + b"elif a: pass\n" * 50_000,
    "indentation": b"".join(b" " * i + b"if 1:\n" for i in range(200)),
}


@pytest.mark.parametrize("name", DEEP)
def test_deep_nesting_is_a_verdict(name: str) -> None:
    found = classify(DEEP[name])
    assert found is not None
    assert found.verdict == "syntax_error"


@pytest.mark.parametrize("work", ["while True: pass", "bytearray(MEMORY_LIMIT_BYTES)"])
def test_the_parsing_process_is_limited(work: str, monkeypatch, tmp_path) -> None:
    """Which text is slow or huge to parse differs between Python releases, so a parser that is stands in for it.

    (3 MB of one f-string keep 3.11 busy for over five minutes; 4 MB of one-letter lines make 2.5 GB of tree.)
    """
    text = Path(parse_check.__file__).read_text()
    for usual, small in {"CPU_LIMIT_S = 20\n": "CPU_LIMIT_S = 1\n", "_BYTES = 2 << 30\n": "_BYTES = 1 << 28\n"}.items():
        assert usual in text
        text = text.replace(usual, small)
    script = tmp_path / "parse_check.py"
    script.write_text(text.replace("def main()", f"def examine(text):\n    {work}\n\n\ndef main()"))
    monkeypatch.setattr(parse_check, "__file__", str(script))
    found = classify(MODEL.encode())
    assert found is not None
    assert found.verdict == "syntax_error"
    assert "cannot parse it within" in found.detail


def test_a_killed_check_is_a_fault_and_no_verdict(monkeypatch) -> None:
    killed = subprocess.CompletedProcess([], -9, b"", b"")
    monkeypatch.setattr(source_check.subprocess, "run", lambda *_, **__: killed)
    with pytest.raises(OSError, match="killed"):
        classify(MODEL.encode())


def test_random_bytes_always_get_an_answer() -> None:
    choose = random.Random(7)
    alphabet = [
        b"class ModelNew",
        b":",
        b"\n",
        b"    ",
        b"pass",
        b"\xff",
        b"\0",
        b"'''",
        b"(",
        b"\\",
        b"\xc3\xa9",
        b"\r",
    ]
    for length in itertools.islice(itertools.cycle(range(1, 9)), 24):
        found = classify(b"".join(choose.choices(alphabet, k=length)))
        assert found is None or found.detail
