"""Prompts: what goes into them, that it is recorded, and what a change of it changes."""

from __future__ import annotations

import argparse
import ctypes
import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, ClassVar

import pytest
from small_problem import problem_text

from kbverified import prompts
from kbverified.config import ConfigError
from kbverified.config_files import read_settings
from kbverified.devices import facts
from kbverified.generators import GeneratorSpec
from kbverified.lease import Gpu
from kbverified.prompts import Request, command
from kbverified.records.files import write
from kbverified.records.generation import Generation, Hardware
from kbverified.strict_templates import TemplateError

ROOT = Path(__file__).parents[2]
TEMPLATES = ROOT / "workflow/prompts"
H200 = Hardware(name="NVIDIA H200", compute_capability="9.0", multiprocessors=132, memory_gib=140, bandwidth_gb_s=4917)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with templates, a table and two problems of its own."""
    shutil.copytree(TEMPLATES, tmp_path / "workflow/prompts")
    for name, function in (("level1_1", "tanh"), ("level1_2", "sigmoid")):
        path = tmp_path / "problems/tiny" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(problem_text(function))
    (tmp_path / "config").mkdir()
    (tmp_path / "config/config.yaml").write_text("prompts: {input_blind: none}\n")
    header = "generator\torigin\tmodel\tbase_url_env\tapi_key_env\tdevices\n"
    (tmp_path / "config/generators.tsv").write_text(header + "paid\tapi\tm\tURL\tKEY\tcpu\nold\timport\n")
    return tmp_path


def built(project: Path, **request: Any) -> prompts.Prompt:
    return prompts.build(project / "problems/tiny/level1_1.py", Request(**request), project)


def content(prompt: prompts.Prompt) -> str:
    (message,) = prompt.messages
    assert message["role"] == "user"
    return message["content"]


# --- what goes in ---------------------------------------------------------------------------------------------


def test_the_standard_prompt_holds_the_problem_as_it_is(project: Path) -> None:
    text = content(built(project))
    assert problem_text("tanh").strip("\n") in text
    assert text.count("## The module") == 1


def test_what_went_in_is_known_by_its_sha256(project: Path) -> None:
    prompt = built(project, hardware=H200, hardware_from="config", dtype="bf16")
    recorded = prompt.facts.templates
    assert set(recorded) == {
        "base.jinja", "standard.jinja", "parts/hardware.jinja", "parts/target.jinja", "parts/bf16.jinja",
        "examples/reference.py", "examples/cuda.py",
    }  # fmt: skip
    for name, digest in recorded.items():
        assert digest == hashlib.sha256((TEMPLATES / name).read_bytes()).hexdigest()
    sent = json.dumps(prompt.messages, sort_keys=True).encode()
    assert prompt.sha256 == hashlib.sha256(sent).hexdigest()
    assert (prompt.facts.hardware, prompt.facts.hardware_from) == (H200, "config")


@pytest.mark.parametrize(
    ("request_", "example"),
    [
        ({}, "cuda"), ({"target": "cuda"}, "cuda"), ({"target": "triton"}, "triton"),
        ({"target": "cute-dsl"}, "cute_dsl"), ({"device": "cpu"}, "cpp"), ({"device": "cpu", "target": "cpp"}, "cpp"),
    ],
)  # fmt: skip
def test_each_language_has_its_example(project: Path, request_: dict[str, str], example: str) -> None:
    text = content(built(project, **request_))
    for name in ("cuda", "triton", "cute_dsl", "cpp"):
        answer = (TEMPLATES / f"examples/{name}.py").read_text().strip("\n")
        assert (answer in text) == (name == example)
    on_cpu = request_.get("device") == "cpu"
    assert ("On a CPU" in text, "NVIDIA GPU" in text) == (on_cpu, not on_cpu)


def test_without_a_language_a_gpus_prompt_leaves_the_choice(project: Path) -> None:
    assert "or in Triton" in content(built(project))
    assert "or in Triton" not in content(built(project, target="cuda"))
    assert built(project).facts.targets == ("cuda", "triton")


def test_bf16_is_said_where_it_is_asked_for(project: Path) -> None:
    assert "bfloat16" not in content(built(project))
    assert "The run is in bfloat16" in content(built(project, dtype="bf16"))


def test_figures_that_are_not_known_are_not_told(project: Path) -> None:
    text = content(built(project, hardware=H200))
    for words in ("NVIDIA H200", "capability 9.0", "132 streaming", "140 GiB", "4917 GB/s"):
        assert words in text
    text = content(built(project, hardware=Hardware(name="Some card", multiprocessors=3)))
    assert "Some card" in text and "3 streaming" in text
    assert "None" not in text and "capability" not in text and "GiB" not in text
    assert "streaming multiprocessors" not in content(built(project))


def test_a_problem_is_text_and_no_template(project: Path) -> None:
    path = project / "problems/tiny/level1_1.py"
    odd = '"""```python\n{{ 7 * 7 }} {% if %} {# gone? #}\n````"""\n' + problem_text("tanh")
    path.write_text(odd)
    text = content(built(project))
    assert f"`````python\n{odd.strip()}\n`````\n" in text


# --- templates that cannot be used ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("standard.jinja", "{{ refrence }}", r"standard\.jinja: 'refrence' is undefined"),
        ("standard.jinja", "one\n{% if %}", r"standard\.jinja:2: "),
        ("parts/target.jinja", "{% nonsense %}", r"parts/target\.jinja:1: "),
        ("parts/target.jinja", "{{ hardware.speed }}", "has no attribute 'speed'"),
        ("parts/target.jinja", None, r"parts/target\.jinja: there is no such template"),
        ("examples/cuda.py", None, r"examples/cuda\.py: there is no such template"),
        ("base.jinja", b"\xff", r"base\.jinja: not UTF-8 at byte 0"),
    ],
)
def test_errors_of_templates_name_the_file(project: Path, name: str, text: str | bytes | None, words: str) -> None:
    path = project / "workflow/prompts" / name
    if text is None:
        path.unlink()
    else:
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(TemplateError, match=words):
        built(project, hardware=H200)


def test_a_project_without_templates_uses_the_repositorys(project: Path) -> None:
    before = built(project).sha256
    shutil.rmtree(project / "workflow")
    assert built(project).sha256 == before


def test_a_changed_template_changes_the_prompts_that_it_is_in(project: Path) -> None:
    requests: list[dict[str, Any]] = [{}, {"target": "triton"}, {"variant": "input-blind"}, {"dtype": "bf16"}]
    before = [built(project, **request).sha256 for request in requests]
    assert len(set(before)) == 4

    def changed(name: str, old: str) -> list[bool]:
        path = project / "workflow/prompts" / name
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, old.upper()))
        after = [built(project, **request).sha256 for request in requests]
        path.write_text(text)
        return [a != b for a, b in zip(after, before)]

    assert changed("parts/bf16.jinja", "bfloat16") == [False, False, False, True]
    assert changed("examples/triton.py", "inside") == [False, True, False, False]
    assert changed("parts/target.jinja", "In Python") == [True, True, True, True]
    assert changed("input_blind.jinja", "are not told") == [False, False, True, False]


# --- the table and the configuration --------------------------------------------------------------------------

API = {"generator": "g", "origin": "api", "model": "m", "base_url_env": "URL", "api_key_env": "KEY"}


@pytest.mark.parametrize(
    ("target", "devices", "fits"),
    [
        ("cpp", "cpu", True), ("cpp", "cuda", False), ("cpp", "any", False), ("cuda", "any", True),
        ("triton", "cuda", True), ("triton", "cpu", False), ("cute-dsl", "cuda", True),
    ],
)  # fmt: skip
def test_a_language_goes_with_devices(target: str, devices: str, fits: bool) -> None:
    row = {**API, "target": target, "devices": devices}
    if fits:
        assert GeneratorSpec.model_validate(row).target == target
    else:
        with pytest.raises(ValueError, match=f"target {target} does not go with devices {devices}"):
            GeneratorSpec.model_validate(row)


def test_prompt_and_target_are_for_api_only() -> None:
    with pytest.raises(ValueError, match="prompt, target only go with origin api"):
        GeneratorSpec.model_validate({"generator": "g", "origin": "import", "prompt": "standard", "target": "cuda"})


def test_which_problems_are_asked_blind() -> None:
    def blind(config: dict[str, Any], *names: str, always: bool = False) -> list[bool]:
        settings = read_settings({"prompts": config}).prompts
        return [settings.is_blind(*name.split("/"), always=always) for name in names]

    names = ("kernelbench/level1_90", "other/level1_90", "kernelbench/level1_91", "kernelbench/level3_33")
    assert blind({}, *names) == [True, True, False, False]
    assert blind({}, "s/level1_100", "s/level3_35", "s/level3_47", "s/level3_3") == [True, True, True, False]
    assert blind({"input_blind": ["kernelbench/level1_90"]}, *names) == [True, False, False, False]
    assert blind({"input_blind": "all"}, *names) == [True, True, True, False]
    assert blind({"input_blind": "none"}, *names) == [False] * 4
    assert blind({"input_blind": "none"}, *names, always=True) == [True, True, True, False]
    assert blind({"input_blind": "all", "never_blind": []}, *names) == [True] * 4


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"prompts": {"input_blind": ["level1"]}}, "'level1' is no problem: write level1_19 or suite/level1_19"),
        ({"prompts": {"input_blind": "some"}}, "prompts.input_blind"),
        ({"prompts": {"blind": "all"}}, "did you mean"),
        ({"prompts": {"input_blind": ["level3_33"]}}, "level3_33 is named in input_blind and in never_blind"),
        ({"hardware": {"memory_gib": 80}}, "figures of a device need its name"),
        ({"hardware": {"name": "H", "compute_capability": "sm_90"}}, "hardware.compute_capability"),
        ({"hardware": {"name": "two\nlines"}}, "hardware.name"),
        ({"hardware": {"name": "H", "memory_gib": 0}}, "hardware.memory_gib"),
        ({"hardware": {"name": "H", "memory_gb": 1}}, "did you mean memory_gib?"),
    ],
)
def test_a_mistaken_configuration_is_refused(config: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_settings(config)
    assert words in str(caught.value)


# --- hardware -------------------------------------------------------------------------------------------------


class Driver:
    """A CUDA driver with one GPU, by the names that libcuda exports."""

    attributes: ClassVar = {16: 132, 36: 3_201_000, 37: 6144, 75: 9, 76: 0}

    def cuInit(self, flags: int) -> int:
        return 0

    def cuDeviceGet(self, device: Any, ordinal: int) -> int:
        return 0

    def cuDeviceGetName(self, name: Any, size: int, device: Any) -> int:
        name.value = b"NVIDIA H200"
        return 0

    def cuDeviceTotalMem_v2(self, memory: Any, device: Any) -> int:
        ctypes.cast(memory, ctypes.POINTER(ctypes.c_size_t))[0] = 143_771 << 20
        return 0

    def cuDeviceGetAttribute(self, value: Any, number: int, device: Any) -> int:
        if number not in self.attributes:
            return 1
        ctypes.cast(value, ctypes.POINTER(ctypes.c_int))[0] = self.attributes[number]
        return 0


def test_facts_are_what_the_driver_says(monkeypatch: pytest.MonkeyPatch) -> None:
    # 3201 MHz x 2 x 6144 bits / 8 = 4917 GB/s.
    assert facts.cuda_facts(Driver()) == H200
    monkeypatch.setattr(Driver, "attributes", {75: 9, 76: 0})
    assert facts.cuda_facts(Driver()) == Hardware(name="NVIDIA H200", compute_capability="9.0", memory_gib=140)
    monkeypatch.setattr(Driver, "cuInit", lambda self, flags: 100)
    with pytest.raises(RuntimeError, match="cuInit gave 100"):
        facts.cuda_facts(Driver())


def test_the_device_goes_before_the_configuration(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = GeneratorSpec.model_validate(API)
    problem = project / "problems/tiny/level1_1.py"
    told = prompts.Told("standard", Hardware(name="from the configuration"))

    def facts_with(told: prompts.Told | None) -> tuple[str | None, str | None]:
        made = prompts.for_generator(spec, problem, told, project).facts
        return made.hardware.name if made.hardware else None, made.hardware_from

    monkeypatch.setattr(facts, "device_facts", lambda kind: None)
    assert facts_with(None) == (None, None)
    assert facts_with(told) == ("from the configuration", "config")
    monkeypatch.setattr(facts, "device_facts", lambda kind: H200)
    assert facts_with(told) == ("NVIDIA H200", "device")


def test_a_gpu_that_cannot_be_asked_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(facts, "visible_gpus", lambda: [])
    assert facts.device_facts("cuda") is None
    monkeypatch.setattr(facts, "visible_gpus", lambda: [Gpu("GPU-1", "NVIDIA H200", "580", 1, "9.0")])
    facts._asked.cache_clear()
    failed = subprocess.CompletedProcess([], 1, "", "OSError: libcuda.so.1")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: failed)
    with pytest.raises(RuntimeError, match=r"does not say what the GPU is: OSError: libcuda\.so\.1"):
        facts.device_facts("cuda")


def test_a_cpus_facts_are_its_own() -> None:
    found = facts.device_facts("cpu")
    assert found is not None and found.multiprocessors is None
    assert found.cores == int(subprocess.check_output(["nproc", "--all"])) and found.memory_gib


def test_hardware_on_the_command_line_is_checked() -> None:
    parser = argparse.ArgumentParser()
    prompts.add_arguments(parser)
    assert prompts.told(parser.parse_args([])) == prompts.Told()
    words = ["--prompt", "input-blind", "--hardware", H200.model_dump_json(exclude_none=True)]
    assert prompts.told(parser.parse_args(words)) == prompts.Told("input-blind", H200)
    with pytest.raises(ValueError, match=r"--hardware .*name"):
        prompts.told(parser.parse_args(["--hardware", "{}"]))


# --- the command ----------------------------------------------------------------------------------------------


def run(project: Path, *words: str) -> int:
    parser = argparse.ArgumentParser()
    command.add_parser(parser.add_subparsers())
    return command.run(parser.parse_args(["prompt", "--root", str(project), *words]))


ASK = ("--generator", "paid", "--suite", "tiny", "--problem", "level1_1")


def test_the_command_prints_what_is_sent(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec = GeneratorSpec.model_validate({**API, "devices": "cpu"})
    sent = prompts.for_generator(spec, project / "problems/tiny/level1_1.py", None, project)
    assert run(project, *ASK) == 0
    printed = capsys.readouterr()
    assert printed.out == content(sent) + "\n" and sent.sha256 in printed.err
    run(project, *ASK, "--json")
    document = json.loads(capsys.readouterr().out)
    assert (document["messages"], document["sha256"]) == (sent.messages, sent.sha256)

    more = project / "more.yaml"
    more.write_text("prompts: {input_blind: [level1_1]}\n")
    run(project, *ASK, "--configfile", str(more))
    assert "rand" not in capsys.readouterr().out.split("## The module")[1]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "--generator is needed"),
        (("--generator", "paid"), "--suite and --problem are needed"),
        (("--generator", "nobody"), "no generator 'nobody'; there are paid, old"),
        (("--generator", "old"), "origin import, only api is asked"),
    ],
)
def test_the_command_says_what_is_missing(project: Path, words: tuple[str, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        run(project, *words)


def test_stale_samples_are_those_that_answer_another_prompt(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec = GeneratorSpec.model_validate({**API, "devices": "cpu"})
    for name in ("level1_1", "level1_2"):
        prompt = prompts.for_generator(spec, project / f"problems/tiny/{name}.py", None, project)
        for sample, text in enumerate((b"as generated", b"as generated", b"edited since")):
            source = project / f"generations/paid/tiny/{name}/{sample}.py"
            source.parent.mkdir(parents=True, exist_ok=True)
            source.write_bytes(text)
            generation = Generation(
                origin="api", source="m", candidate_sha256=hashlib.sha256(b"as generated").hexdigest(),
                extraction="verbatim", model="m", prompt_sha256="0" * 64 if sample == 1 else prompt.sha256,
            )  # fmt: skip
            write(source.with_suffix(".json"), generation)

    def stale(*words: str) -> list[str]:
        run(project, "--generator", "paid", "--stale", *words)
        return [str(Path(p).relative_to(project / "generations/paid/tiny")) for p in capsys.readouterr().out.split()]

    assert stale() == ["level1_1/1.py", "level1_2/1.py"]
    assert stale("--problem", "level1_2") == ["level1_2/1.py"]
    (project / "config/config.yaml").write_text("prompts: {input_blind: [level1_2]}\n")
    assert stale() == ["level1_1/1.py", "level1_2/0.py", "level1_2/1.py"]


def test_the_command_line_lists_it() -> None:
    words = [sys.executable, "-m", "kbverified", "prompt", "--help"]
    assert "--stale" in subprocess.run(words, capture_output=True, text=True, check=True).stdout
