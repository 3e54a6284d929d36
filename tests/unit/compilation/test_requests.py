"""Which sources ask for extensions only while they are imported: those alone are spared the call on fake tensors."""

from __future__ import annotations

import pytest

from kbverified.compilation.requests import only_at_import

HEAD = "import torch\nfrom torch.utils.cpp_extension import load_inline\n"
MODEL = "class ModelNew(torch.nn.Module):\n    def forward(self, x):\n        return mine.f(x)\n"
LATER = "class ModelNew(torch.nn.Module):\n    def forward(self, x):\n        return {}\n"


@pytest.mark.parametrize(
    "source",
    [
        HEAD + 'mine = load_inline(name="mine", cpp_sources="void load(); int compile();")\n' + MODEL,
        HEAD + 'if torch.cuda.is_available():\n    mine = load_inline("mine", "")\n' + MODEL,
        HEAD + 'try:\n    mine = load_inline("mine", "")\nexcept Exception:\n    mine = None\n' + MODEL,
        HEAD + 'many = [load_inline(name, "") for name in "ab"]\n' + MODEL,
        HEAD + "class ModelNew:\n    mine = load_inline('mine', '')\n",
        'from torch.utils import cpp_extension\nmine = cpp_extension.load("mine", [])\n',
        'import torch.utils.cpp_extension as builder\nmine = builder.load_inline("mine", "")\n',
        HEAD + 'mine = load_inline("mine", "")\nModelNew = torch.compile(object)\n',
    ],
)
def test_requests_of_the_import_alone(source):
    assert only_at_import(source)


@pytest.mark.parametrize(
    "source",
    [
        HEAD + LATER.format('load_inline("mine", "")'),
        HEAD + "def build():\n    return load_inline('mine', '')\nmine = build()\n",
        HEAD + "build = load_inline\n" + LATER.format("build('mine', '')"),
        HEAD + "build = lambda: load_inline('mine', '')\n",
        HEAD + "import functools\nbuild = functools.partial(load_inline, 'mine')\n",
        HEAD + "builds = (load_inline(name, '') for name in 'ab')\n",
        "from torch.utils.cpp_extension import load_inline as build\n" + LATER.format("build('mine', '')"),
        "from torch.utils.cpp_extension import *\n" + LATER.format("load_inline('mine', '')"),
        "import torch\n" + LATER.format("torch.utils.cpp_extension.load('mine', [])"),
        "from torch.utils import cpp_extension\n" + LATER.format("getattr(cpp_extension, 'lo' + 'ad')('mine', [])"),
        "import importlib\n" + LATER.format("importlib.import_module('torch.utils.cpp_' + 'extension')"),
        LATER.format("__import__('torch.utils.cpp_' + 'extension')"),
        LATER.format("exec('import torch.utils.cpp_' + 'extension')"),
        LATER.format("vars(torch.utils)['cpp_extension']"),
        LATER.format("torch.utils.cpp_extension._jit_compile()"),
        "from torch.utils.cpp_extension import CUDAExtension\n",
        "def broken(:\n",
    ],
)
def test_what_may_ask_later(source):
    assert not only_at_import(source)
