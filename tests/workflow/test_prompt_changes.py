"""A changed prompt asks nothing by itself; of samples that are deleted, those whose prompt changed are asked again."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from small_tree import CONFIG, HONEST, Tree

SAMPLES = [f"generations/paid/tiny/{problem}/0.py" for problem in ("level1_1", "level1_2")]
TABLE = "generator\torigin\tmodel\tbase_url_env\tapi_key_env\npaid\tapi\tsome-model\tTEST_URL\tTEST_KEY\n"
HARDWARE = "hardware: {name: Some 'card', memory_gib: 80}\n"


class Endpoint(HTTPServer):
    """An OpenAI-compatible endpoint on this machine that remembers what it is asked."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: list[str] = []


class Handler(BaseHTTPRequestHandler):
    server: Endpoint

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        (message,) = request["messages"]
        self.server.asked.append(message["content"])
        answer = {"role": "assistant", "content": f"```python\n{HONEST}```\n"}
        body = json.dumps({
            "id": "1", "object": "chat.completion", "created": 1, "model": "some-model",
            "choices": [{"index": 0, "finish_reason": "stop", "message": answer}],
        }).encode()  # fmt: skip
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    server = Endpoint()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def test_only_what_changed_is_asked_again(fresh: Tree, endpoint: Endpoint) -> None:
    environment = {"TEST_URL": f"http://127.0.0.1:{endpoint.server_port}/v1", "TEST_KEY": "no-secret"}
    environment["CUDA_VISIBLE_DEVICES"] = ""
    fresh.write("config/generators.tsv", TABLE)
    fresh.write("config/config.yaml", CONFIG + HARDWARE)
    fresh.snakemake(*SAMPLES, **environment)
    assert len(endpoint.asked) == 2
    assert all("torch.rand(64, 64)" in text and "Some 'card'" in text for text in endpoint.asked)

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
    assert len(endpoint.asked) == 3
    assert "torch.rand" not in endpoint.asked[2].split("## The module")[1]
    made_from = [fresh.read(sample.replace(".py", ".json"))["prompt"] for sample in SAMPLES]
    assert [facts["variant"] for facts in made_from] == ["input-blind", "standard"]
    assert made_from[0]["hardware"]["memory_gib"] == 80 and made_from[0]["hardware_from"] == "config"
