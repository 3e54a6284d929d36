"""Samples of an API generator are paid for: whatever Snakemake does, none is lost and none is paid for twice."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from small_tree import HONEST, Tree

SAMPLE = "generations/paid/tiny/level1_1/0.py"
METADATA = "generations/paid/tiny/level1_1/0.json"
ROW = "paid\tapi\tsome-model\tTEST_URL\tTEST_KEY\n"


class Endpoint(HTTPServer):
    """An OpenAI-compatible endpoint on this machine that counts what it is asked."""

    requests = 0
    failing = False

    def environment(self) -> dict[str, str]:
        return {"TEST_URL": f"http://127.0.0.1:{self.server_port}/v1", "TEST_KEY": "no-secret"}


class Handler(BaseHTTPRequestHandler):
    server: Endpoint

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.server.requests += 1
        message = {"role": "assistant", "content": f"Here it is:\n```python\n{HONEST}```\n"}
        answer = {
            "id": "1", "object": "chat.completion", "created": 1, "model": "some-model",
            "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
            "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
        }  # fmt: skip
        body = json.dumps({"error": {"message": "no"}} if self.server.failing else answer).encode()
        self.send_response(401 if self.server.failing else 200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    server = Endpoint(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def test_a_paid_or_edited_sample_is_never_lost(fresh: Tree, endpoint: Endpoint) -> None:
    header = "generator\torigin\tmodel\tbase_url_env\tapi_key_env\n"
    fresh.write("config/generators.tsv", header + ROW)

    def generate(*arguments: str, check: bool = True) -> str:
        return fresh.snakemake(SAMPLE, *arguments, check=check, **endpoint.environment()).stdout

    generate()
    assert "1.0002" in (fresh.path / SAMPLE).read_text()
    assert endpoint.requests == 1

    # Made again by force: the stored answer is replayed, nothing is paid.
    generate("--forcerun", "generate")
    assert endpoint.requests == 1

    # Edited by hand: kept, also by force and where the problem has changed since.
    edited = (fresh.path / SAMPLE).read_text() + "# mine\n"
    fresh.write(SAMPLE, edited)
    fresh.replace("problems/tiny/level1_1.py", "torch.rand", "torch.randn")
    generate("--forcerun", "generate")
    assert (fresh.path / SAMPLE).read_text() == edited

    # The rule itself fails: what was there is there.
    endpoint.failing = True
    fresh.write("config/generators.tsv", header + ROW.replace("some-model", "other-model"))
    fresh.replace("workflow/rules/generate.smk", "kbverified generate", "false; kbverified generate")
    assert "Restored previous version" in generate("--forcerun", "generate", check=False)
    assert (fresh.path / SAMPLE).read_text() == edited

    # The one switch that would delete outputs outright is refused.
    refused = generate("--delete-all-output", check=False)
    assert "would delete generated candidates" in refused
    assert (fresh.path / SAMPLE).read_text() == edited


def test_a_deleted_sample_comes_back_from_the_store(fresh: Tree, endpoint: Endpoint) -> None:
    fresh.write("config/generators.tsv", "generator\torigin\tmodel\tbase_url_env\tapi_key_env\n" + ROW)
    fresh.snakemake(SAMPLE, **endpoint.environment())
    before = (fresh.path / SAMPLE).read_text()
    (fresh.path / SAMPLE).unlink()
    endpoint.failing = True
    fresh.snakemake(SAMPLE, **endpoint.environment())
    assert (fresh.path / SAMPLE).read_text() == before
    assert endpoint.requests == 1


def test_a_refused_request_leaves_no_sample_and_says_why(fresh: Tree, endpoint: Endpoint) -> None:
    fresh.write("config/generators.tsv", "generator\torigin\tmodel\tbase_url_env\tapi_key_env\n" + ROW)
    endpoint.failing = True
    done = fresh.snakemake(SAMPLE, check=False, **endpoint.environment())
    assert done.returncode != 0
    assert "401" in done.stdout
    assert not (fresh.path / SAMPLE).exists() and not (fresh.path / METADATA).exists()


def test_a_whole_run_plans_generation_first(fresh: Tree) -> None:
    fresh.write("config/generators.tsv", "generator\torigin\tmodel\tbase_url_env\tapi_key_env\n" + ROW)
    planned = fresh.planned()
    assert (planned["generate"], planned["compile"], planned["audit_problem"]) == (2, 2, 2)
