"""An input-blind prompt tells none of a problem's numbers.

Nothing of the reduction is used to say what must be hidden: a problem's constants are found token by token, and the
same problem with other constants must give the same prompt, byte for byte.
"""

from __future__ import annotations

import inspect
import io
import itertools
import os
import re
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from odd_problems import CLEAN, HEAD, REFUSED, problem

from kbverified import problems, prompts
from kbverified.prompts.hidden import InputBlindError

ROOT = Path(__file__).parents[2]
BUNDLED = sorted((ROOT / "problems/bundled").glob("*.py"))
NEVER = {"83_Conv3d_GroupNorm_Min_Clamp_Dropout", "33_VanillaRNN", "41_GRUBidirectional"}
"""KernelBench's three whose Model reads a constant of its module."""
TRIVIAL = {0.0, 1.0, 2.0}
BLIND = prompts.Request(variant="input-blind")
HEADING = "## The module\n"


def kernelbench() -> list[Path]:
    folder = os.environ.get("KBV_KERNELBENCH")
    if not folder:
        pytest.skip("KBV_KERNELBENCH does not name a folder with KernelBench's level1, level2 and level3")
    found = sorted(path for level in (1, 2, 3) for path in Path(folder).glob(f"level{level}/*.py"))
    assert len(found) == 250, f"{folder} has {len(found)} problems"
    return found


def parts(path: Path, request: prompts.Request = BLIND) -> tuple[str, str, str]:
    """(what is said before the module, the code, what is said after it) of a rendered prompt."""
    (message,) = prompts.build(path, request, ROOT).messages
    frame, module = message["content"].split(HEADING)
    code, after = re.fullmatch(r"\n```python\n(.*)\n```\n(.*)", module, re.S).groups()
    return frame, code, after


# --- what must be hidden, by tokens ---------------------------------------------------------------------------


def tokens(text: str) -> list[tokenize.TokenInfo]:
    return list(tokenize.generate_tokens(io.StringIO(text + "\n").readline))


def statements(text: str) -> Iterator[list[tokenize.TokenInfo]]:
    """Top-level statements: whatever begins in the first column."""
    layout = (tokenize.NEWLINE, tokenize.NL, tokenize.INDENT, tokenize.DEDENT, tokenize.COMMENT, tokenize.ENDMARKER)
    current: list[tokenize.TokenInfo] = []
    for before, token in itertools.pairwise([None, *tokens(text)]):
        ended = before is None or before.type in layout
        if ended and token.start[1] == 0 and token.type not in layout and token.string not in tuple(")]}"):
            yield current
            current = []
        current.append(token)
    yield current


def numbers(found: list[tokenize.TokenInfo]) -> Counter[float]:
    return Counter(float(eval(token.string)) for token in found if token.type == tokenize.NUMBER)


def is_code(statement: list[tokenize.TokenInfo]) -> bool:
    """Classes and functions, but not those that make the inputs."""
    words = [token.string for token in statement if token.type in (tokenize.NAME, tokenize.OP)]
    inputs = words[:2] in (["def", "get_inputs"], ["def", "get_init_inputs"])
    return words[:1] in (["class"], ["@"], ["def"]) and not inputs


def constants(text: str) -> set[float]:
    """Numbers of the module's own statements and of the input functions, but for 0, 1 and 2."""
    return {n for s in statements(text) if not is_code(s) for n in numbers(s)} - TRIVIAL


def said(text: str) -> set[float]:
    """Every run of digits in a text, inside of words too, but for the names of dtypes."""
    text = re.sub(r"\b(?:float|int|uint|bfloat)\d+\b", "", text)
    return {float(n) for n in re.findall(r"\d+(?:\.\d+)?(?:e-?\d+)?", text)}


def check(path: Path) -> set[float]:
    """Assert that nothing is told; returns the constants that Model's own computation holds as well."""
    text = path.read_text(encoding="utf-8")
    hidden = constants(text)
    _, code, after = parts(path)
    assert not said(re.sub("`.*?`", "", after)), after
    assert not {n for n in said(after) if n >= 10}, after

    left = tokens(code)
    assert not [t for t in left if t.type == tokenize.COMMENT]
    texts = " ".join(t.string for t in left if t.type == tokenize.STRING)
    assert not said(texts) & hidden, texts
    names = " ".join(t.string for t in left if t.type == tokenize.NAME)
    assert not {n for n in said(names) & hidden if n >= 10}, names

    # What is left stands in the code of classes and functions, at most as often as there.
    own = sum((numbers(s) for s in statements(text) if is_code(s)), Counter())
    for number, count in numbers(left).items():
        if number in hidden:
            assert count <= own[number], f"{number} stands {count} times, in the code of Model {own[number]} times"

    # No value for an argument that is given anyway.
    model = problems.load(path)
    given = len(model.get_init_inputs())
    names_given = [*inspect.signature(model.Model.__init__).parameters][1 : 1 + given]
    head = re.search(r"class Model\b.*?def __init__\((.*?)\):", code, re.S)
    if head and given:
        assert not re.search(rf"\b(?:{'|'.join(names_given)})(?:: [^,=]+)? ?=", head[1]), head[1]
    return {n for n in numbers(left) if n in hidden}


# --- real problems --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", BUNDLED, ids=lambda path: path.stem)
def test_no_constant_of_a_bundled_problem_is_told(path: Path) -> None:
    # A 3x3 window that the network itself names, where an image has three channels.
    assert check(path) == ({3.0} if path.stem == "level3_2" else set())


def test_no_constant_of_kernelbench_is_told() -> None:
    stay = {path.stem: found for path in kernelbench() if path.stem not in NEVER and (found := check(path))}
    assert not {"90_cumprod", "100_HingeLoss", "35_LSTM", "47_NetVladNoGhostClusters"} & set(stay)
    # Axes, windows and widths that Model itself spells out.
    assert len(stay) == 34 and max(max(found) for found in stay.values()) == 512


def test_what_cannot_be_hidden_in_kernelbench_is_refused() -> None:
    refused = {}
    for path in kernelbench():
        try:
            prompts.build(path, BLIND, ROOT)
        except InputBlindError as error:
            refused[path.stem] = str(error)
    assert set(refused) == NEVER
    assert all("reads the module's" in words for words in refused.values())


def test_what_is_said_around_the_module_is_the_same_for_all(tmp_path: Path) -> None:
    bare = tmp_path / "bare.py"
    bare.write_text(problem())
    frame, *_ = parts(bare)
    assert all(parts(path)[0] == frame for path in BUNDLED[::4])


def with_other_constants(path: Path, folder: Path) -> Path:
    """The problem with three times every constant, each number that was equal to another still equal to it."""
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines(keepends=True)
    for statement in reversed(list(statements(text))):
        for token in reversed(statement):
            if not is_code(statement) and token.type == tokenize.NUMBER and float(eval(token.string)) not in TRIVIAL:
                (row, start), (_, end) = token.start, token.end
                line = lines[row - 1]
                lines[row - 1] = f"{line[:start]}{3 * eval(token.string)}{line[end:]}"
    other = folder / path.name
    other.write_text("".join(lines), encoding="utf-8")
    assert other.read_text() != text
    return other


def same_with_other_constants(path: Path, folder: Path) -> bool:
    other = with_other_constants(path, folder)
    return prompts.build(path, BLIND, ROOT).messages == prompts.build(other, BLIND, ROOT).messages


@pytest.mark.parametrize("path", BUNDLED, ids=lambda path: path.stem)
def test_other_constants_make_the_same_prompt(path: Path, tmp_path: Path) -> None:
    assert same_with_other_constants(path, tmp_path)


def test_other_constants_of_kernelbench_make_the_same_prompts(tmp_path: Path) -> None:
    different = [p.stem for p in kernelbench() if p.stem not in NEVER and not same_with_other_constants(p, tmp_path)]
    assert different == []


def test_the_standard_prompt_does_tell(tmp_path: Path) -> None:
    """Without it the tests above could pass on anything."""
    (message,) = prompts.build(BUNDLED[0], prompts.Request(), ROOT).messages
    assert constants(BUNDLED[0].read_text()) <= said(message["content"])


# --- odd problems ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", CLEAN.values(), ids=CLEAN)
def test_an_odd_problem_tells_nothing(text: str, tmp_path: Path) -> None:
    path = tmp_path / "odd.py"
    path.write_text(text)
    _, code, after = parts(path)
    assert not {4096.0, 513.0, 12.0} & said(code + after), code + after
    assert "class Model(" in code and "def forward" in code
    compile(code, "code", "exec")


@pytest.mark.parametrize(("text", "words"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_hidden_is_refused_in_words(text: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "odd.py"
    path.write_text(text)
    with pytest.raises(problems.ProblemError, match=re.escape(words)) as caught:
        prompts.build(path, BLIND, ROOT)
    assert str(path) in str(caught.value)


# --- what is said instead -------------------------------------------------------------------------------------


def test_inputs_are_described_by_rank_dtype_and_equal_sizes(tmp_path: Path) -> None:
    path = tmp_path / "p.py"
    path.write_text(
        HEAD
        + """
class Model(nn.Module):
    def __init__(self, width, shape, rates, mode, flag, nothing, eps=1e-5):
        super().__init__()
    def forward(self, x, y, index, mask, factor, transposed=None):
        return x

def get_inputs():
    return [torch.rand(7, 9, 9), torch.rand(9), torch.randint(0, 5, ()), torch.ones(7, 1) > 0, 2.5, torch.rand(9, 7).T]

def get_init_inputs():
    return [9, (3, 9), [0.5, 4], "relu", True, None]
"""
    )
    _, code, after = parts(path, prompts.Request(variant="input-blind", dtype="bf16"))
    assert re.findall(r"^- (.*)$", after, re.M) == [
        "`width`: int",
        "`shape`: tuple of int",
        "`rates`: list of float or int",
        "`mode`: str",
        "`flag`: bool",
        "`nothing`: None",
        "`x`: bfloat16 tensor of shape (a, b, b)",
        "`y`: bfloat16 tensor of shape (b,)",
        "`index`: int64 tensor without dimensions",
        "`mask`: bool tensor of shape (a, c)",
        "`factor`: float",
        "`transposed`: bfloat16 tensor of shape (a, b), not contiguous",
    ]
    assert "def __init__(self, width, shape, rates, mode, flag, nothing, eps=1e-05)" in code


def test_fields_that_tell_nothing_stay_all_of_them(tmp_path: Path) -> None:
    """Without one of them a constructor takes others, and a loop goes through fewer."""
    path = tmp_path / "fields.py"
    path.write_text(
        HEAD
        + """import enum
from dataclasses import dataclass

@dataclass
class Sizes:
    first: int
    second: int = 7

class Scale(enum.IntEnum):
    ONE = 5
    OTHER = 6

class Model(nn.Module):
    def forward(self, x):
        for scale in Scale:
            x = x * scale * Sizes(8).second
        return x

def get_inputs():
    return [torch.rand(4096, 513)]

def get_init_inputs():
    return []
"""
    )
    left: dict[str, object] = {}
    exec(parts(path)[1], left)
    assert left["Model"]()(1) == 5 * 7 * 6 * 7


def test_what_model_needs_stays(tmp_path: Path) -> None:
    """What is left is a whole program, with the same weights from the same seed and the same result."""
    import torch

    path = ROOT / "problems/bundled/level3_2.py"
    code = parts(path)[1]
    left: dict[str, object] = {}
    exec(code, left)
    reference = problems.load(path)
    results = []
    for model in (reference.Model, left["Model"]):
        torch.manual_seed(1)
        made = model(*reference.get_init_inputs())
        torch.manual_seed(2)
        with torch.no_grad():
            results.append(made(*[x[:2] for x in reference.get_inputs()]))
    assert torch.equal(*results)
