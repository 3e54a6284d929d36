"""Samples of an API generator are paid for: whatever Snakemake does, none is lost and none is paid for twice."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from endpoint_server import EndpointServer, completion, error, serve
from small_tree import HONEST, Tree

SAMPLE = "generations/paid/tiny/level1_1/0.py"
METADATA = "generations/paid/tiny/level1_1/0.json"
HEADER = "generator\torigin\tmodel\tbase_url_env\tapi_key_env\n"
ROW = "paid\tapi\tsome-model\tTEST_URL\tTEST_KEY\n"
KEY = "sk-secret-of-the-tests"


@pytest.fixture
def endpoint() -> Iterator[EndpointServer]:
    with serve(completion(f"Here it is:\n```python\n{HONEST}```\n")) as server:
        yield server


def environment(server: EndpointServer) -> dict[str, str]:
    return {"TEST_URL": server.url, "TEST_KEY": KEY}


def test_a_paid_or_edited_sample_is_never_lost(fresh: Tree, endpoint: EndpointServer) -> None:
    fresh.write("config/generators.tsv", HEADER + ROW)

    def generate(*arguments: str, check: bool = True) -> str:
        return fresh.snakemake(SAMPLE, *arguments, check=check, **environment(endpoint)).stdout

    generate()
    assert "1.0002" in (fresh.path / SAMPLE).read_text()
    assert len(endpoint.requests) == 1

    # Made again by force: the stored answer is replayed, nothing is paid.
    generate("--forcerun", "generate")
    assert len(endpoint.requests) == 1

    # Edited by hand: kept, also by force and where the problem has changed since.
    edited = (fresh.path / SAMPLE).read_text() + "# mine\n"
    fresh.write(SAMPLE, edited)
    fresh.replace("problems/tiny/level1_1.py", "torch.rand", "torch.randn")
    generate("--forcerun", "generate")
    assert (fresh.path / SAMPLE).read_text() == edited

    # The rule itself fails: what was there is there.
    endpoint.answers = [error(401, "no")]
    fresh.write("config/generators.tsv", HEADER + ROW.replace("some-model", "other-model"))
    fresh.replace("workflow/rules/generate.smk", "kbverified generate", "false; kbverified generate")
    assert "Restored previous version" in generate("--forcerun", "generate", check=False)
    assert (fresh.path / SAMPLE).read_text() == edited

    # The one switch that would delete outputs outright is refused.
    refused = generate("--delete-all-output", check=False)
    assert "would delete generated candidates" in refused
    assert (fresh.path / SAMPLE).read_text() == edited


def test_a_deleted_sample_comes_back_from_the_store(fresh: Tree, endpoint: EndpointServer) -> None:
    fresh.write("config/generators.tsv", HEADER + ROW)
    fresh.snakemake(SAMPLE, **environment(endpoint))
    before = (fresh.path / SAMPLE).read_text()
    (fresh.path / SAMPLE).unlink()
    endpoint.answers = [error(401, "no")]
    fresh.snakemake(SAMPLE, **environment(endpoint))
    assert (fresh.path / SAMPLE).read_text() == before
    assert len(endpoint.requests) == 1

    # Closed: what lies there is all there will be, and sample 0 of the other problem is not planned any more.
    assert fresh.planned()["generate"] == 1
    fresh.write("config/generators.tsv", HEADER.replace("model", "closed\tmodel") + ROW.replace("some", "true\tsome"))
    planned = fresh.planned()
    assert "generate" not in planned and planned["compile"] == 1


def test_a_refused_request_leaves_no_sample_and_says_why(fresh: Tree, endpoint: EndpointServer) -> None:
    fresh.write("config/generators.tsv", HEADER + ROW)
    endpoint.answers = [error(401, "no")]
    done = fresh.snakemake(SAMPLE, check=False, **environment(endpoint))
    assert done.returncode != 0
    assert "401" in done.stdout
    assert not (fresh.path / SAMPLE).exists() and not (fresh.path / METADATA).exists()


def test_a_whole_run_plans_generation_first(fresh: Tree) -> None:
    fresh.write("config/generators.tsv", HEADER + ROW)
    planned = fresh.planned()
    assert (planned["generate"], planned["compile"], planned["audit_problem"]) == (2, 2, 2)


LIMITED = """
- generator: paid
  origin: api
  model: some-model
  base_url: {url}
  api_key_env: TEST_KEY
  samples: 3
  max_tokens: 1000
  extra_body: {{seed: 7}}
  concurrency: 2
  budget_usd: 3.4
  usd_per_million_prompt_tokens: 0
  usd_per_million_completion_tokens: 1000
"""


def test_a_budget_and_limits_hold_between_jobs(fresh: Tree, endpoint: EndpointServer) -> None:
    """1.5 USD an answer and 1 USD at most for the next: of six samples two are bought, whatever order they come in."""
    fresh.replace("config/config.yaml", "generators.tsv", "generators.yaml")
    fresh.write("config/generators.yaml", LIMITED.format(url=endpoint.url))
    endpoint.answers = [completion(f"```python\n{HONEST}```\n", usage=(100, 1500), wait_s=0.5)]
    samples = [f"generations/paid/tiny/level1_{n}/{sample}.py" for n in (1, 2) for sample in range(3)]
    done = fresh.snakemake(*samples, "--resources", "api_calls=6", check=False, **environment(endpoint))
    assert done.returncode != 0
    assert len(endpoint.requests) == 2 and endpoint.at_once_max <= 2
    assert all(request["seed"] == 7 for request in endpoint.requests)
    assert sum((fresh.path / sample).exists() for sample in samples) == 2
    assert done.stdout.count("not asked: budget_usd is 3.4") == 4  # and no job is tried again
    assert "2 answers 3.0000 USD" in done.stdout

    # With more of it, only the others are asked for.
    fresh.replace("config/generators.yaml", "3.4", "34.0")
    fresh.snakemake(*samples, "--resources", "api_calls=6", **environment(endpoint))
    assert len(endpoint.requests) == 6 and endpoint.at_once_max <= 2
    written = [path for path in fresh.path.rglob("*") if path.is_file() and not path.is_symlink()]
    assert not [path for path in written if KEY.encode() in path.read_bytes()]
