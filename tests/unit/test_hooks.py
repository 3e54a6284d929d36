"""Build requests: what makes two of them the same, where they are built, and what becomes of failures."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from extension_samples import BROKEN, source
from torch.utils import cpp_extension

from kbverified.compilation.hooks import DONE, BuildFailed, Hooks, module_name, request_key

RUN = """
import json, sys
from pathlib import Path
from kbverified.compilation.hooks import BuildFailed, Hooks
directory, writable, sources, name = sys.argv[1:]
reports = []
Hooks(Path(directory), writable == "writable", None, reports.append).install()
from torch.utils import cpp_extension
try:
    answer = cpp_extension.load_inline(name, Path(sources).read_text(), no_implicit_headers=True).answer()
except BuildFailed as failure:
    answer = str(failure)
print(json.dumps([answer, reports]))
"""


ORIGINALS = (cpp_extension.load, cpp_extension.load_inline)


@pytest.fixture(autouse=True)
def restored(monkeypatch, tmp_path):
    """Hooks replace torch's own functions: put them back after each test. Ninja lies beside the interpreter."""
    monkeypatch.setattr(cpp_extension, "load", cpp_extension.load)
    monkeypatch.setattr(cpp_extension, "load_inline", cpp_extension.load_inline)
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
    monkeypatch.setenv("TMPDIR", str(tmp_path / "private"))


def install(directory: Path, writable: bool = True) -> SimpleNamespace:
    """Hooks as a process of its own would have them: over torch's functions, not over earlier hooks."""
    cpp_extension.load, cpp_extension.load_inline = ORIGINALS
    reports: list[dict] = []
    hooks = Hooks(directory, writable, None, reports.append)
    hooks.install()
    return SimpleNamespace(hooks=hooks, reports=reports)


def inline(name: str, text: str, **options):
    return cpp_extension.load_inline(name, text, no_implicit_headers=True, **options)


def elsewhere(directory: Path, text: str, name: str = "other", writable: str = "writable"):
    """The same request in a process of its own; (answer, reports)."""
    file = directory.parent / "source.cpp"
    file.write_text(text)
    command = [sys.executable, "-c", RUN, str(directory), writable, str(file), name]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


# --- identity -------------------------------------------------------------------------------------------------------

SAME = {"name": "a", "cpp_sources": ["x"], "functions": ["f"], "extra_cflags": ["-O3"]}


@pytest.mark.parametrize(
    "change", [{"name": "b_12345"}, {"build_directory": "/somewhere"}, {"verbose": True}], ids=lambda c: next(iter(c))
)
def test_name_folder_and_noise_are_no_part_of_a_request(change):
    assert request_key("load_inline", {**SAME, **change}) == request_key("load_inline", SAME)


@pytest.mark.parametrize(
    "change",
    [
        {"cpp_sources": ["y"]},
        {"cpp_sources": ["x", ""]},
        {"cuda_sources": ["x"]},
        {"functions": ["g"]},
        {"extra_cflags": ["-O2"]},
        {"extra_cflags": []},
        {"extra_ldflags": ["-lm"]},
        {"extra_cuda_cflags": ["-O3"]},
        {"with_cuda": True},
        {"is_python_module": False},
    ],
    ids=str,
)
def test_sources_and_flags_are(change):
    assert request_key("load_inline", {**SAME, **change}) != request_key("load_inline", SAME)


def test_load_is_identified_by_its_files_bytes(tmp_path):
    for name, text in (("a.cpp", "one"), ("b.cpp", "one"), ("c.cpp", "two")):
        (tmp_path / name).write_text(text)
    a, b, c = (request_key("load", {"sources": [str(tmp_path / f"{n}.cpp")]}) for n in "abc")
    assert a == b != c
    assert request_key("load", {"sources": str(tmp_path / "a.cpp")}) == a  # one path instead of a list
    (tmp_path / "a.cpp").write_text("edited")
    assert request_key("load", {"sources": [str(tmp_path / "a.cpp")]}) != a


def test_load_and_load_inline_do_not_meet(tmp_path):
    (tmp_path / "a.cpp").write_text("x")
    assert request_key("load", {"sources": [str(tmp_path / "a.cpp")]}) != request_key("load_inline", {"sources": ["x"]})


def test_operators_are_registered_under_the_name_that_was_asked_for():
    one, two = ({**SAME, "name": name, "is_python_module": False} for name in "ab")
    assert request_key("load_inline", one) != request_key("load_inline", two)
    assert module_name("a", "k" * 32, one) == "a"


@pytest.mark.parametrize(
    ("text", "fixed"),
    [
        ("PYBIND11_MODULE(mine, m) {}", True),
        ("PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {}", False),
        ("PYBIND11_MODULE( TORCH_EXTENSION_NAME , m) {}", False),
        ("int f();", False),
    ],
)
def test_a_module_keeps_a_name_that_its_source_fixes(text, fixed):
    assert module_name("mine", "0123456789abcdef0", {"cpp_sources": [text]}) == (
        "mine" if fixed else "kbv_0123456789abcdef"
    )


def test_odd_text_has_a_key():
    assert len(request_key("load_inline", {**SAME, "cpp_sources": "\ud800 \0"})) == 32


# --- building -------------------------------------------------------------------------------------------------------


def test_one_request_is_built_once_in_a_process_and_found_by_the_next(tmp_path):
    made = install(tmp_path / "build")
    first = inline("first", source(41))
    assert first.answer() == 41
    assert inline("second_name", source(41)) is first
    (report,) = made.reports
    assert (report["name"], report["ok"], report["cached"]) == ("first", True, False) and report["seconds"] > 0
    assert not list((tmp_path / "build").rglob("*.o"))

    answer, (seen,) = elsewhere(tmp_path / "build", source(41))
    assert answer == 41
    assert (seen["name"], seen["ok"], seen["cached"], seen["key"]) == ("other", True, True, report["key"])


def test_requests_of_one_name_get_a_module_each(tmp_path):
    install(tmp_path / "build")
    one, two = inline("same", source(1)), inline("same", source(2))
    assert (one.answer(), two.answer()) == (1, 2)
    assert one.__spec__.name != two.__spec__.name
    assert len(list((tmp_path / "build").iterdir())) == 2


def test_the_callers_list_is_left_as_it_was(tmp_path):
    """torch's own load_inline puts a header into it; the next call with it would then be another request."""
    made = install(tmp_path / "build")

    def load_inline(name, cpp_sources, build_directory=None, verbose=True):
        cpp_sources.insert(0, "#include <torch/extension.h>")
        (Path(build_directory) / f"{name}.so").write_text("a library")
        return object()

    sources = ["int f();"]
    first = made.hooks.request(load_inline, "a", sources, (), {})
    assert sources == ["int f();"]
    assert made.hooks.request(load_inline, "b", sources, (), {}) is first
    assert len(made.reports) == 1


def test_load_builds_from_files(tmp_path):
    install(tmp_path / "build")
    file = tmp_path / "mine.cpp"
    file.write_text(source(17))
    assert cpp_extension.load("mine", [str(file)]).answer() == 17
    file.write_text(source(18))
    assert cpp_extension.load("mine", [str(file)]).answer() == 18


def test_a_sealed_directory_is_read_and_never_written(tmp_path):
    install(tmp_path / "build")
    inline("a", source(6))
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "build").rglob("*")}
    sealed = install(tmp_path / "build", writable=False)
    assert inline("a", source(6)).answer() == 6
    assert inline("b", source(7)).answer() == 7  # built for this process alone
    assert [(r["cached"], r["ok"]) for r in sealed.reports] == [(True, True), (False, True)]
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "build").rglob("*")} == before
    assert len(list((tmp_path / "private" / "kbv-build").iterdir())) == 1


# --- failures -------------------------------------------------------------------------------------------------------


def test_a_failing_build_is_raised_with_the_compilers_words_and_remembered(tmp_path):
    made = install(tmp_path / "build")
    with pytest.raises(BuildFailed, match="undeclared_thing") as first:
        inline("bad", BROKEN)
    assert "building extension 'bad' failed" in str(first.value)
    assert "error:" in str(first.value)  # as the compiler puts it
    (report,) = made.reports
    assert (report["ok"], report["cached"]) == (False, False) and "undeclared_thing" in report["log"]
    assert made.hooks.failures == [first.value]

    # In another process nothing is compiled: no compiler is there to ask.
    answer, (seen,) = elsewhere(tmp_path / "build", BROKEN)
    assert "undeclared_thing" in answer
    assert (seen["ok"], seen["cached"], seen["seconds"]) == (False, True, None)


def test_a_remembered_failure_needs_no_compiler(tmp_path, monkeypatch):
    install(tmp_path / "build")
    with pytest.raises(BuildFailed):
        inline("bad", BROKEN)
    monkeypatch.setenv("CXX", "/bin/false")
    again = install(tmp_path / "build", writable=False)
    with pytest.raises(BuildFailed, match="undeclared_thing"):
        inline("bad", BROKEN)
    assert again.reports[0]["cached"] is True


def test_a_machine_that_cannot_build_is_not_remembered(tmp_path, monkeypatch):
    install(tmp_path / "build")
    with monkeypatch.context() as broken:
        broken.setenv("PATH", str(tmp_path))  # no ninja, no compiler
        with pytest.raises(BuildFailed):
            inline("good", source(3))
    assert not list((tmp_path / "build").rglob(DONE))
    answer, (seen,) = elsewhere(tmp_path / "build", source(3))
    assert (answer, seen["cached"]) == (3, False)


def test_a_candidate_may_catch_the_failure_and_go_on(tmp_path):
    made = install(tmp_path / "build")
    try:
        inline("bad", BROKEN)
    except RuntimeError:
        assert inline("good", source(4)).answer() == 4
    assert [r["ok"] for r in made.reports] == [False, True]


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"module": 3}', '{"module": ["x"]}', '{"failed": null}'])
def test_a_broken_note_means_build_again(tmp_path, text):
    made = install(tmp_path / "build")
    key = request_key("load_inline", {"cpp_sources": source(9), "no_implicit_headers": True})
    (tmp_path / "build" / key).mkdir(parents=True)
    (tmp_path / "build" / key / DONE).write_text(text)
    assert inline("a", source(9)).answer() == 9
    assert made.reports == [{**made.reports[0], "key": key, "cached": False}]


def test_a_bad_call_is_the_candidates_own_type_error(tmp_path):
    install(tmp_path / "build")
    with pytest.raises(TypeError):
        cpp_extension.load_inline()
    with pytest.raises(TypeError, match="no_such_option"):
        inline("a", source(1), no_such_option=True)
