"""The configuration: what is accepted, what an error says, and that the schemas are those of the models."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
import yaml
from pydantic import BaseModel

from kbverified import config, config_files, device_choice, protocol
from kbverified.config import ConfigError, schema_texts
from kbverified.config_files import load_settings, read_settings
from kbverified.device_choice import resolve_device, why_no_gpu
from kbverified.generators import COLUMNS
from kbverified.keys import EVERY_STAGE

PROJECT = Path(__file__).resolve().parents[2]
NO_GPU = "no NVIDIA driver is installed"


def test_the_schemas_are_those_of_the_models() -> None:
    folder = PROJECT / config.SCHEMA_FOLDER
    on_disk = {path.name: path.read_text(encoding="utf-8") for path in folder.iterdir()}
    assert on_disk == schema_texts(), "run: python -m kbverified.config"


@pytest.mark.parametrize("name", ["config.yaml", "kernelbench.yaml"])
def test_the_files_of_config_fit_model_and_schema(name: str) -> None:
    load_settings(PROJECT / "config" / name)
    content = yaml.safe_load((PROJECT / "config" / name).read_text())
    jsonschema.validate(content, json.loads(schema_texts()["config.schema.json"]))


def test_the_schema_refuses_an_unknown_key() -> None:
    schema = json.loads(schema_texts()["config.schema.json"])
    with pytest.raises(jsonschema.ValidationError, match="levls"):
        jsonschema.validate({"selection": {"levls": [1]}}, schema)


def test_the_default_tau_is_the_protocols() -> None:
    assert read_settings({}).tau.model_dump() == protocol.TAU


def test_a_number_that_yaml_reads_as_text_is_a_number() -> None:
    assert yaml.safe_load("1e-4") == "1e-4"
    assert read_settings({"tau": {"fp32": "1e-4"}}).tau.fp32 == 1e-4


def test_every_stage_has_a_timeout() -> None:
    timeouts = read_settings({"timeouts_s": {"hidden-gate": 7}}).timeouts_s
    assert timeouts.of("hidden-gate") == 7
    assert all(timeouts.of(stage) > 0 for stage in (*EVERY_STAGE, "audit-problem"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("selection: {levls: [1]}", "selection.levls: unknown key (value [1]); did you mean levels?"),
        ("timeouts_s: {hidden_gat: 3}", "did you mean hidden-gate?"),
        ("qqqqqq: 1", "qqqqqq: unknown key (value 1); known keys: selection, generators_tsv,"),
        ("selection: {suites: []}", "selection.suites: Tuple should have at least 1 item"),
        ("selection: {suites: [../x]}", "'../x' is no suite name"),
        ("selection: {problems: [level1]}", "'level1' is no problem: write level1_19 or suite/level1_19"),
        ("compile: {arch: hopper}", "compile.arch: String should match pattern"),
        ("device: gpu", "device: Input should be 'auto', 'cuda' or 'cpu' (value 'gpu')"),
        ("tau: {fp32: .nan}", "tau.fp32: Input should be a finite number (value nan)"),
        ("[1, 2]", "a mapping of keys is needed"),
        ("baselines: [ieee, eager]", "baselines.1: Input should be 'ieee' or 'compile' (value 'eager')"),
        ("baselines: [ieee, ieee]", "baselines: Value error, each baseline is named once"),
        (
            "headline_arm: compile",
            "headline_arm: Value error, the compile arm needs the baseline of its name: add compile",
        ),
        ("{baselines: [compile], headline_arm: ieee}", "headline_arm: Value error, the ieee arm needs the baseline"),
        ("paper: {taus: []}", "paper.taus: Tuple should have at least 1 item"),
        ("paper: {taus: [1.0e-3, .nan]}", "paper.taus.1: Input should be a finite number (value nan)"),
        ("paper: {taus: [.inf]}", "paper.taus.0: Input should be a finite number (value inf)"),
        ("tau: {fp32: .inf}", "tau.fp32: Input should be a finite number (value inf)"),
        ("paper: {taus: [1.0e-3, 0.001]}", "paper.taus: Value error, each tolerance is named once"),
        ("paper: {tau: [1.0e-3]}", "paper.tau: unknown key (value [0.001]); did you mean taus?"),
        ("a: [", "not valid YAML"),
    ],
)
def test_an_error_names_file_key_and_value(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_settings(path)
    assert str(path) in str(caught.value)
    assert message in str(caught.value)


def test_a_configured_baseline_can_be_the_headline() -> None:
    settings = read_settings({"baselines": ["compile"], "headline_arm": "compile"})
    assert (settings.baselines, settings.headline_arm) == (("compile",), "compile")
    assert read_settings({}).baselines == ()


def test_baselines_of_several_files_are_those_of_the_last_that_names_them(tmp_path: Path) -> None:
    texts = ("baselines: [ieee]", "device: cpu", "code: {}\nbaselines: [compile]", "baselines: []")
    paths = [tmp_path / f"{i}.yaml" for i in range(len(texts))]
    for path, text in zip(paths, texts):
        path.write_text(text)
    found = [config_files.baselines_of(*paths[: n + 1]) for n in range(len(paths))]
    assert found == [("ieee",), ("ieee",), ("compile",), ()]
    paths[1].write_text("baselines: ieee")
    with pytest.raises(ConfigError, match=r"1\.yaml: baselines: Input should be a valid tuple"):
        config_files.baselines_of(*paths[:2])


def test_an_error_names_the_file_that_sets_the_key(tmp_path: Path) -> None:
    first, second = tmp_path / "first.yaml", tmp_path / "second.yaml"
    first.write_text("gate_mode: wrong\ndevice: wrong\n")
    second.write_text("device: worse\n")
    merged = {"gate_mode": "wrong", "device": "worse", "sandbox": "never"}
    with pytest.raises(ConfigError) as caught:
        read_settings(merged, [str(first), str(second)])
    lines = str(caught.value).splitlines()
    assert [line.split(": ")[:2] for line in lines] == [
        [str(second), "device"],
        ["--config", "sandbox"],
        [str(first), "gate_mode"],
    ]


def test_settings_are_frozen() -> None:
    with pytest.raises(ValueError, match="frozen"):
        read_settings({}).device = "cpu"  # type: ignore[misc]


# --- device -------------------------------------------------------------------------------------------------
def test_hidden_gpus_are_no_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert "CUDA_VISIBLE_DEVICES" in str(why_no_gpu())
    assert resolve_device("auto") == "cpu"
    with pytest.raises(ConfigError, match="cuda is asked for, but CUDA_VISIBLE_DEVICES=''"):
        resolve_device("cuda")


def test_cuda_without_a_check_and_cpu_ask_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_choice, "why_no_gpu", lambda: pytest.fail("asked"))
    assert resolve_device("cuda", check=False) == "cuda"
    assert resolve_device("cpu") == "cpu"


def test_auto_takes_the_gpu_that_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_choice, "why_no_gpu", lambda: None)
    assert resolve_device("auto") == "cuda"
    monkeypatch.setattr(device_choice, "why_no_gpu", lambda: NO_GPU)
    assert resolve_device("auto") == "cpu"


# --- the page -----------------------------------------------------------------------------------------------
def leaves(model: type[BaseModel], prefix: str = "") -> list[str]:
    names = []
    for name, field in model.model_fields.items():
        key = prefix + (field.alias or name)
        inner = field.annotation
        is_section = isinstance(inner, type) and issubclass(inner, BaseModel)
        names += leaves(inner, key + ".") if is_section else [key]
    return names


def test_the_page_explains_every_key_and_column() -> None:
    page = (PROJECT / "config" / "README.md").read_text(encoding="utf-8")
    keys = leaves(config.Settings)
    assert "timeouts_s.hidden-gate" in keys and "device" in keys
    for key in keys:
        section, _, last = key.rpartition(".")
        assert f"`{key}`" in page or (section and f"`.{last}`" in page), f"config/README.md says nothing on {key}"
    for column in COLUMNS:
        assert f"`{column}`" in page, f"config/README.md says nothing on column {column}"
