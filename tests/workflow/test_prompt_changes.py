"""A changed prompt asks nothing by itself; of samples that are deleted, those whose prompt changed are asked again."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest
from endpoint_server import EndpointServer, completion, serve
from small_tree import CONFIG, HONEST, Tree

SAMPLES = [f"generations/paid/tiny/{problem}/0.py" for problem in ("level1_1", "level1_2")]
TABLE = "generator\torigin\tmodel\tbase_url_env\tapi_key_env\npaid\tapi\tsome-model\tTEST_URL\tTEST_KEY\n"
HARDWARE = "hardware: {name: Some 'card', memory_gib: 80}\n"


@pytest.fixture
def endpoint() -> Iterator[EndpointServer]:
    with serve(completion(f"```python\n{HONEST}```\n")) as server:
        yield server


def asked(endpoint: EndpointServer) -> list[str]:
    """The prompts, of one message each."""
    messages = [body["messages"] for body in endpoint.requests]
    return [content["content"] for (content,) in messages]


def test_only_what_changed_is_asked_again(fresh: Tree, endpoint: EndpointServer) -> None:
    environment = {"TEST_URL": endpoint.url, "TEST_KEY": "no-secret"}
    environment["CUDA_VISIBLE_DEVICES"] = ""
    fresh.write("config/generators.tsv", TABLE)
    fresh.write("config/config.yaml", CONFIG + HARDWARE)
    fresh.snakemake(*SAMPLES, **environment)
    assert len(asked(endpoint)) == 2
    assert all("torch.rand(64, 64)" in text and "Some 'card'" in text for text in asked(endpoint))

    # A list, a template: the samples that are there stay, and are named.
    fresh.write("config/config.yaml", CONFIG + HARDWARE + "prompts: {input_blind: [level1_1]}\n")
    assert "Nothing to be done" in fresh.snakemake(*SAMPLES, **environment).stdout
    words = [sys.executable, "-m", "kbverified", "prompt", "--generator", "paid", "--stale"]
    stale = subprocess.run(
        words, cwd=fresh.path, env=fresh.environment(**environment), capture_output=True, text=True, check=True
    )
    assert stale.stdout.split() == SAMPLES[:1]

    # Both are deleted: the one whose prompt is as before comes from the store.
    for sample in SAMPLES:
        (fresh.path / sample).unlink()
    fresh.snakemake(*SAMPLES, **environment)
    assert len(asked(endpoint)) == 3
    assert "torch.rand" not in asked(endpoint)[2].split("## The module")[1]
    made_from = [fresh.read(sample.replace(".py", ".json"))["prompt"] for sample in SAMPLES]
    assert [facts["variant"] for facts in made_from] == ["input-blind", "standard"]
    assert made_from[0]["hardware"]["memory_gib"] == 80 and made_from[0]["hardware_from"] == "config"
