"""``snakemake --report`` for real: captions, run times and the graph are in it, records are not; no network is used."""

from __future__ import annotations

import base64
import json
import re
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path

import pytest
from small_tree import PROJECT, Tree
from test_paper import with_own_topic_only

RULES = {"audit_problem", "compile", "hidden_gate", "time", "ceilings", "memory", "aggregate", "leaderboard", "page"}
MARKED = {
    *(f"results/leaderboard.{ending}" for ending in ("json", "csv", "md")),
    *(f"results/kernels/{generator}.parquet" for generator in ("good", "bad")),
}
# Whoever asks for something from outside meets a closed door, and the report is not made.
CLOSED = {name: "http://127.0.0.1:9" for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY")}


class Page(HTMLParser):
    """What of a report a browser would run, and what it would load from elsewhere."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.scripts: dict[str, str] = {}
        self.loads: list[str] = []
        self._inside: str | None = None
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        if tag in ("script", "img", "iframe", "link"):
            self.loads += [url for url in (found.get("src"), found.get("href")) if url and not url.startswith("data:")]
        if tag == "script":
            self._inside = found.get("id") or ""

    def handle_endtag(self, tag: str) -> None:
        if tag == "script":
            self._inside = None

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.scripts[self._inside] = self.scripts.get(self._inside, "") + data

    def value(self, name: str):
        """The JSON that a script of this id gives to its variable."""
        text = re.fullmatch(r"\s*var \w+ = (.*?);\s*", self.scripts[name], re.S)
        assert text, self.scripts[name][:200]
        return json.loads(text[1])


@pytest.fixture(scope="module")
def reported(finished_run: Tree, tmp_path_factory: pytest.TempPathFactory) -> tuple[Tree, Page]:
    path = tmp_path_factory.mktemp("report") / "report.html"
    finished_run.snakemake("--report", str(path), **CLOSED)
    return finished_run, Page(path.read_text(encoding="utf-8"))


def test_what_is_marked_is_in_it_with_its_bytes_and_no_record_is(reported) -> None:
    tree, page = reported
    results = page.value("results")
    assert set(results) == MARKED
    for path, entry in results.items():
        assert base64.b64decode(entry["data_uri"].partition("base64,")[2]) == (tree.path / path).read_bytes()
    assert {name: set().union(*sub.values()) for name, sub in page.value("categories").items()} == {
        "Leaderboard": {path for path in MARKED if "leaderboard" in path},
        "Candidates": {path for path in MARKED if "kernels" in path},
    }


def test_every_table_has_its_caption(reported) -> None:
    results = reported[1].value("results")
    for path, entry in results.items():
        words = re.sub(r"<[^>]+>", "", entry["caption"]).split()
        source = "leaderboard" if "leaderboard" in path else "kernels"
        first = (PROJECT / f"workflow/report/{source}.rst").read_text().split()[:4]
        assert words[:4] == first and len(words) > 30
    assert "generator good, one row each" in results["results/kernels/good.parquet"]["caption"]
    assert "results/kernels/bad.parquet" in results["results/kernels/bad.parquet"]["caption"]
    assert results["results/kernels/good.parquet"]["labels"] == {"generator": "good", "format": "Parquet"}


def test_the_workflow_is_described_with_what_was_evaluated(reported) -> None:
    text = reported[1].value("workflow-desc")
    words = " ".join(re.sub(r"<[^>]+>", "", text).split())
    assert "suites tiny, on device cpu" in words and "system-message" not in text and "{{" not in text


def test_run_times_and_the_graph_of_rules_are_there(reported) -> None:
    tree, page = reported
    runtimes = page.value("runtimes")["data"]["values"]
    # Three candidates, two problems, two generators.
    assert Counter(entry["rule"] for entry in runtimes) == {
        "audit_problem": 2, "compile": 3, "hidden_gate": 3, "time": 6, "memory": 3, "aggregate": 2, "ceilings": 1,
        "leaderboard": 1, "page": 1,
    }  # fmt: skip
    gate = tree.read("results/hidden-gate/good/tiny/level1_1/0.json")["provenance"]
    longest = max(entry["runtime"] for entry in runtimes if entry["rule"] == "hidden_gate")
    assert longest >= gate["duration_s"]  # type: ignore[index]
    nodes = page.value("rulegraph")["data"][0]["values"]
    assert {node["rule"] for node in nodes} == {*RULES, "all"}


def test_it_is_one_file(reported) -> None:
    assert reported[1].loads == []


def test_every_caption_is_there_and_no_other() -> None:
    text = "".join(path.read_text() for path in (PROJECT / "workflow/rules").glob("*.smk"))
    text += (PROJECT / "Snakefile").read_text()
    named = {Path(name).name for name in re.findall(r'"([^"{]+\.rst)"', text)}
    there = {path.name for path in (PROJECT / "workflow/report").glob("*.rst")}
    assert there == named | {f"paper_{kind}.rst" for kind in ("table", "figure")}  # named by their kind in paper.smk


def test_the_paper_is_in_it_where_it_is_asked_for(finished: Tree) -> None:
    with_own_topic_only(finished)
    finished.snakemake("paper")
    finished.snakemake("--report", "report.html", "paper")
    page = Page((finished.path / "report.html").read_text(encoding="utf-8"))
    tables = {f"results/paper/tables/own_verdicts.{ending}" for ending in ("csv", "md", "tex")}
    figures = {f"results/paper/figures/own_counts.{ending}" for ending in ("pdf", "png")}
    categories = {name: {sub: set(of) for sub, of in subs.items()} for name, subs in page.value("categories").items()}
    assert categories["Paper tables"] == {"own": tables} and categories["Paper figures"] == {"own": figures}
    assert categories["Paper findings"] == {"Other": {"results/paper/findings.md"}}
    results = page.value("results")
    assert all("rebuilt from the records" in results[path]["caption"] for path in tables | figures)
    assert results["results/paper/figures/own_counts.png"]["labels"] == {"name": "own_counts", "format": "png"}
    assert results["results/paper/figures/own_counts.png"]["mime_type"] == "image/png"
    assert not any(path.endswith("own.json") for path in results)
    texts = [page.value("workflow-desc"), *(entry["caption"] for entry in results.values())]
    assert not any("system-message" in text for text in texts)  # docutils' words for a text that it cannot take
