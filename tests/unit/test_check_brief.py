"""A failure's text for its author: compilers' errors and own lines are kept, paths of copies are his file's name."""

from __future__ import annotations

from kbverified.check.brief import brief

COPY = "/tmp/kbverified-check-a8/generations/check/file/level0_0/0.py"
BUILD = (
    "/home/me/.cache/kbverified/build/candidates/6a/c6606b6d98719cfd617965a77642f654/136ef3b2f9215c4a58c977cd45a04ec9"
)

TRACEBACK = f"""Traceback (most recent call last):
  File "/src/kbverified/bootstrap/state.py", line 49, in _guard
    return action()
           ^^^^^^^^
  File "/site-packages/torch/nn/modules/module.py", line 1789, in _call_impl
    return forward_call(*args, **kwargs)
  File "{COPY}", line 4, in forward
    return undefined_name(x)
           ^^^^^^^^^^^^^^
NameError: name 'undefined_name' is not defined
(failed: d1_original, d2_scale_3)"""

BUILDING = f"""s/3.11.7/include/python3.11 -fPIC -std=c++20 -c {BUILD}/main.cpp -o main.o
{BUILD}/main.cpp: In function 'at::Tensor f(at::Tensor)':
{BUILD}/main.cpp:3:45: error: 'class at::Tensor' has no member named 'clamp_mon'
    3 | torch::Tensor f(torch::Tensor x) {{ return x.clamp_mon(0); }}
      |                                             ^~~~~~~~~
      |                                             clamp_min
ninja: build stopped: subcommand failed.
Traceback (most recent call last):
  File "{COPY}", line 3, in <module>
    m = load_inline("mine", "...", functions=["f"])
kbverified.compilation.hooks.BuildFailed: building extension 'mine' failed: Error building extension 'kbv_1': [1/2] c++
FAILED: [code=1] main.o
{BUILD}/main.cpp:3:45: error: 'class at::Tensor' has no member named 'clamp_mon'
    3 | torch::Tensor f(torch::Tensor x) {{ return x.clamp_mon(0); }}
"""


def test_a_traceback_is_the_author_s_own_lines_and_the_exception():
    assert brief(TRACEBACK, "kernel.py")[:-1] == [
        '  File "kernel.py", line 4, in forward',
        "    return undefined_name(x)",
        "           ^^^^^^^^^^^^^^",
        "NameError: name 'undefined_name' is not defined",
    ]


def test_a_compiler_s_error_is_shown_once_with_what_it_points_at():
    shown = brief(BUILDING, "kernel.py")
    assert shown[0] == "main.cpp:3:45: error: 'class at::Tensor' has no member named 'clamp_mon'"
    assert "x.clamp_mon(0)" in shown[1] and "clamp_min" in shown[3]
    assert len(shown) == 5 and "of 14 lines" in shown[4]


def test_nvcc_s_errors_are_found_too():
    text = "\n".join(["nvcc -c cuda.cu"] * 8 + [f'{BUILD}/cuda.cu(12): error: identifier "foo" is undefined'])
    assert brief(text, "kernel.py")[0] == 'cuda.cu(12): error: identifier "foo" is undefined'


def test_a_short_text_stays_whole_and_a_strange_one_shows_its_ends():
    assert brief("d4_negate: needs tau 1, has 0.001", "kernel.py") == ["d4_negate: needs tau 1, has 0.001"]
    assert brief("", "kernel.py") == []
    shown = brief("\n".join(f"line {i}" for i in range(40)), "kernel.py")
    assert shown[0] == "line 0" and "line 39" in shown and len(shown) == 8


def test_only_the_copy_of_the_candidate_is_renamed():
    assert brief(f'File "{COPY}", line 1 of /other/0.py', "k.py") == ['File "k.py", line 1 of /other/0.py']
