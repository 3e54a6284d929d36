"""What a model is asked with, and within which limits: the columns that every use of an endpoint shares.

A generator's row and an LLM judge's settings both are such settings. Torch-free, and no client is imported.
"""

from __future__ import annotations

import json
import os
from typing import Annotated, Any
from urllib.parse import parse_qsl, urlsplit

from pydantic import BeforeValidator, ConfigDict, Field, JsonValue, field_validator, model_validator

from kbverified.records.base import Record
from kbverified.redaction import KEY_MIN_CHARACTERS, Secrets, url_without_secrets

VARIABLE_PATTERN = r"^[A-Za-z_][A-Za-z0-9_]*$"
TIMEOUT_S = 1800.0  # reasoning models answer after many minutes
RETRIES = 6

Settings = dict[str, JsonValue]
"""What is sent beside model and messages, by the API's own names."""

# Sent by themselves or decided by the client: an extra body may not say them otherwise.
_NOT_EXTRA = (
    "model",
    "messages",
    "stream",
    "stream_options",
    "n",
    "response_format",
    "max_completion_tokens",
    "best_of",
)


class EndpointFault(RuntimeError):
    """No answer, and no fault of the question: missing key, endpoint down, refused login. Try again later."""


def _parsed(value: Any) -> Any:
    """An object as a table's cell writes it."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError as error:
        raise ValueError(f"no JSON object: {error}") from None


class EndpointSettings(Record):
    """Everything about one model at one endpoint but the question. None: not sent, or no limit."""

    # A mistaken cell may hold an API key: it is never repeated in an error.
    model_config = ConfigDict(hide_input_in_errors=True)

    model: str | None = None
    """The model's name at the endpoint."""
    base_url: str | None = None
    """Address up to and with ``/v1``; it may be in the repository, so it holds no password."""
    base_url_env: str | None = Field(default=None, pattern=VARIABLE_PATTERN)
    """Or the name of the environment variable that holds it; there it may have a query, which goes with every
    request."""
    api_key_env: str | None = Field(default=None, pattern=VARIABLE_PATTERN)
    """Name of the environment variable that holds the key. None: the server wants none."""
    temperature: float | None = Field(default=None, ge=0)
    top_p: float | None = Field(default=None, gt=0, le=1)
    reasoning_effort: str | None = Field(default=None, pattern=r"^[a-z][a-z0-9_-]*$")
    """``low``, ``medium``, ``high`` and what else the endpoint knows."""
    max_tokens: int | None = Field(default=None, ge=1)
    """Largest number of completion tokens, reasoning included."""
    extra_body: Annotated[dict[str, JsonValue] | None, BeforeValidator(_parsed)] = None
    """More of the request's body, as this server understands it; in a table's cell as JSON."""
    stream: bool = False
    """Ask for the answer in pieces: a connection that carries something is less often cut by what is in between."""
    concurrency: int | None = Field(default=None, ge=1)
    """Requests at the same time, of all processes together."""
    requests_per_minute: int | None = Field(default=None, ge=1)
    tokens_per_minute: int | None = Field(default=None, ge=1)
    """Prompt and completion; until it is known what an answer takes, max_tokens counts."""
    budget_tokens: int | None = Field(default=None, ge=0)
    """Prompt and completion tokens that may ever be spent, over all runs."""
    budget_usd: float | None = Field(default=None, ge=0)
    usd_per_million_prompt_tokens: float | None = Field(default=None, ge=0)
    usd_per_million_completion_tokens: float | None = Field(default=None, ge=0)
    timeout_s: float = Field(default=TIMEOUT_S, gt=0)
    """For one request, from its first byte to the answer's last."""
    retries: int = Field(default=RETRIES, ge=0)
    """How often a request is sent again after a fault that passes."""

    @field_validator("base_url")
    @classmethod
    def _address_without_secrets(cls, url: str | None) -> str | None:
        if url is not None:
            _check_url(url, "it")
            if url_without_secrets(url) != url:
                raise ValueError("it holds a password or a query. Put it into a variable and name that in base_url_env")
        return url

    @field_validator("extra_body")
    @classmethod
    def _extra_is_extra(cls, extra: dict[str, JsonValue] | None) -> dict[str, JsonValue] | None:
        taken = [name for name in extra or {} if name in _NOT_EXTRA or name in _SENT]
        if taken:
            raise ValueError(f"{', '.join(taken)}: has a column of its own, or is the client's to decide")
        return extra or None

    @model_validator(mode="after")
    def _limits_can_be_kept(self) -> EndpointSettings:
        if self.base_url is not None and self.base_url_env is not None:
            raise ValueError("base_url and base_url_env: give one of them")
        budgets = [name for name in ("budget_tokens", "budget_usd") if getattr(self, name) is not None]
        if budgets and self.max_tokens is None:
            raise ValueError(f"{budgets[0]} needs max_tokens: without it nobody can say what an answer may take")
        if self.budget_usd is not None and None in self.prices:
            raise ValueError("budget_usd needs usd_per_million_prompt_tokens and usd_per_million_completion_tokens")
        return self

    @property
    def settings(self) -> Settings:
        """What is sent beside model and messages: it decides what is asked, so it is part of an answer's key."""
        given: Settings = {name: getattr(self, name) for name in (*_SENT, "extra_body")}
        return {name: value for name, value in given.items() if value is not None}

    @property
    def prices(self) -> tuple[float | None, float | None]:
        """US dollars per million prompt and completion tokens."""
        return self.usd_per_million_prompt_tokens, self.usd_per_million_completion_tokens

    def usd(self, prompt_tokens: int, completion_tokens: int) -> float | None:
        """What so many tokens cost; None where a price is not known."""
        prompt_price, completion_price = self.prices
        if prompt_price is None or completion_price is None:
            return None
        return (prompt_tokens * prompt_price + completion_tokens * completion_price) / 1e6


_SENT = ("temperature", "top_p", "reasoning_effort", "max_tokens")


class ClientSettings(EndpointSettings):
    """Settings with which one can ask: a model and an address."""

    model: str

    @model_validator(mode="after")
    def _has_an_address(self) -> ClientSettings:
        if self.base_url is None and self.base_url_env is None:
            raise ValueError("give base_url or base_url_env")
        return self


def address_and_secrets(client: EndpointSettings, asking: str) -> tuple[str, str | None, Secrets]:
    """Base URL, API key and all that may never be written, from the environment variables that settings name.

    Raises EndpointFault, which names the variable and never its value.
    """
    url = client.base_url or _variable(client.base_url_env, "base URL", asking)
    try:
        _check_url(url, f"{client.base_url_env} (base URL)")
    except ValueError as error:
        raise EndpointFault(f"{asking}: environment variable {error}") from None
    if client.api_key_env is None:
        return url, None, Secrets.of(url, None)
    key = _variable(client.api_key_env, "API key", asking)
    if len(key) < KEY_MIN_CHARACTERS or not key.isascii() or not key.isprintable() or " " in key:
        raise EndpointFault(
            f"{asking}: environment variable {client.api_key_env} (API key) has {len(key)} characters, not all of them "
            f"of those that keys are made of, or fewer than {KEY_MIN_CHARACTERS}: too few to be told from an answer's "
            "text, in which a key is blanked. A server that wants no key: leave api_key_env empty."
        )
    return url, key, Secrets.of(url, key)


def _variable(name: str | None, what: str, asking: str) -> str:
    value = os.environ.get(name or "", "").strip()
    if not value:
        raise EndpointFault(
            f"{asking}: environment variable {name} ({what}) is not set. Set it and run again: export {name}=..."
        )
    return value


def _check_url(url: str, what: str) -> None:
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        usable = False
    if not usable or not url.isprintable() or " " in url:
        raise ValueError(f"{what} is no address. Write it as https://host/v1")
    named = [name for name, _ in parse_qsl(parts.query, keep_blank_values=True)]
    if parts.fragment or len(set(named)) < len(named):
        odd = "a fragment (#...)" if parts.fragment else "a query that gives one name twice"
        raise ValueError(
            f"{what} is {url_without_secrets(url)} and {odd}, which cannot be sent. Write it as https://host/v1 or "
            "https://host/v1?name=value"
        )
