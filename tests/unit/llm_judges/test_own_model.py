"""Who is whose model: names as vendors, routers and files write them."""

from __future__ import annotations

import pytest

from kbverified.llm_judges.own_model import normal_name, of_family, same_model, why_own


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("gpt-5.5", "openai/GPT-5.5"),
        ("gpt-5.5", "gpt-5.5-2026-01-31"),
        ("anthropic/claude-opus-4.5", "Claude-Opus-4-5-20251101"),
        ("us.anthropic.claude-opus-4-5", "claude_opus_4_5"),
        ("deepseek/deepseek-r2:free", "DeepSeek-R2"),
        ("accounts/x/models/qwen3-coder", "Qwen/Qwen3-Coder"),
        ("gemini-3-pro-latest", "models/gemini-3-pro"),
        ("gpt-4-0613", "gpt-4"),
        ("mistral-small-2501", "mistralai/Mistral-Small"),
        ("Qwen/Qwen3-30B-A3B-Instruct-2507", "qwen3-30b-a3b-instruct"),
        ("llama-4.gguf", "meta-llama/Llama-4"),
    ],
)
def test_one_model_by_two_names(a: str, b: str) -> None:
    assert same_model(a, b) and same_model(b, a), (normal_name(a), normal_name(b))


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("gpt-5.5", "gpt-5.5-mini"),
        ("gpt-5", "gpt-5.5"),
        ("qwen3-32b", "qwen3-235b"),
        ("a-2500", "a"),
        ("", " "),
        ("/", ""),
    ],
)
def test_two_models(a: str, b: str) -> None:
    assert not same_model(a, b)


def test_families_end_where_a_word_does() -> None:
    assert of_family("openai/gpt-5.5-mini", "GPT") and of_family("qwen3-coder", "qwen") and of_family("gpt", "gpt")
    assert not of_family("gptoss-20b", "gpt") and not of_family("my-gpt-5", "gpt") and not of_family("gpt-5", "")


def test_why_a_judge_is_kept_out() -> None:
    assert why_own(["judge-a"], None, ["gpt-5.5", None], None) is None
    assert "gpt-5.5" in (why_own(["alias", "GPT-5.5-2026-01-31"], None, ["gpt-5.5"], None) or "")
    assert "family gpt" in (why_own(["gpt-6"], "gpt", ["openai/gpt-5.5"], None) or "")
    assert "family gpt" in (why_own(["gpt-6"], "gpt", ["my-run"], "GPT") or "")
    assert why_own(["gpt-6"], "gpt", ["my-run"], "claude") is None
    assert why_own(["gpt-6"], None, ["gpt-5.5"], "gpt") is None
