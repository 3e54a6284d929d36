"""One request to an OpenAI-compatible endpoint: what to send, and what its failures mean."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from kbverified.prompts import sha256
from kbverified.response_store import Settings, StoredResponse

REQUEST_TIMEOUT_S = 1800.0  # reasoning models answer after many minutes
MAX_RETRIES = 4  # by the client itself, with growing pauses: connection, 408, 409, 429, 5xx


class EndpointFault(RuntimeError):
    """No answer, and no fault of the candidate: missing key, endpoint down, refused login. Try again later."""


class RequestRejected(ValueError):
    """The endpoint does not accept this request, and will not the next time: wrong model name or settings."""


def from_environment(base_url_env: str, api_key_env: str, generator: str) -> tuple[str, str]:
    """Base URL and API key from the environment variables that the generator names. Raises EndpointFault."""
    for name, what in ((base_url_env, "base URL"), (api_key_env, "API key")):
        if not os.environ.get(name):
            raise EndpointFault(
                f"generator {generator}: environment variable {name} ({what}) is not set. "
                f"Set it and run again: export {name}=..."
            )
    return os.environ[base_url_env], os.environ[api_key_env]


def make_client(base_url: str, api_key: str) -> Any:
    """An ``openai.OpenAI`` client that retries by itself."""
    import openai

    return openai.OpenAI(base_url=base_url, api_key=api_key, max_retries=MAX_RETRIES, timeout=REQUEST_TIMEOUT_S)


def ask(client: Any, candidate: str, model: str, messages: list[dict[str, str]], settings: Settings) -> StoredResponse:
    """Send one request and return the answer. ``settings`` holds what is set of temperature and max_tokens.

    Raises EndpointFault or RequestRejected; an empty answer or a refusal is an answer.
    """
    import openai

    try:
        try:
            completion = _create(client, model, messages, settings)
        except openai.BadRequestError as error:
            # Newer models know the limit under another name only, and say so.
            if "max_tokens" not in settings or "max_completion_tokens" not in str(error):
                raise
            renamed = {k: v for k, v in settings.items() if k != "max_tokens"}
            completion = _create(client, model, messages, {**renamed, "max_completion_tokens": settings["max_tokens"]})
    except (openai.AuthenticationError, openai.PermissionDeniedError) as error:
        raise EndpointFault(f"{candidate}: the endpoint refuses the API key: {_words(error, client)}") from None
    except (openai.BadRequestError, openai.NotFoundError, openai.UnprocessableEntityError) as error:
        raise RequestRejected(f"{candidate}: model {model!r}, settings {settings}: {_words(error, client)}") from None
    except openai.OpenAIError as error:
        raise EndpointFault(f"{candidate}: no answer after {MAX_RETRIES} retries: {_words(error, client)}") from None
    return _stored(completion, candidate, model, messages, settings)


def _create(client: Any, model: str, messages: list[dict[str, str]], settings: Mapping[str, Any]) -> Any:
    return client.chat.completions.create(model=model, messages=messages, **settings)


def _words(error: Exception, client: Any) -> str:
    """The error in one line, without the key: some servers repeat it in their answer."""
    cause = f" ({error.__cause__})" if error.__cause__ else ""
    line = " ".join(f"{type(error).__name__}: {error}{cause}".split())
    key = getattr(client, "api_key", None)
    return (line.replace(key, "[API key]") if key else line)[:500]


def _stored(
    completion: Any, candidate: str, model: str, messages: list[dict[str, str]], settings: Settings
) -> StoredResponse:
    # A web page instead of JSON arrives as a string; some servers report errors in a body with status 200.
    choices = getattr(completion, "choices", None)
    if not choices or getattr(choices[0], "message", None) is None:
        raise EndpointFault(
            f"{candidate}: the answer is no chat completion: {str(completion)[:200]!r}. Does the base URL end in /v1?"
        )
    message, usage = choices[0].message, completion.usage
    return StoredResponse(
        candidate=candidate,
        prompt_sha256=sha256(messages),
        messages=tuple(messages),
        model=model,
        settings=settings,
        received_at=datetime.now(UTC).isoformat(timespec="seconds"),
        content=message.content if isinstance(message.content, str) else None,
        refusal=message.refusal if isinstance(message.refusal, str) else None,
        finish_reason=choices[0].finish_reason,
        served_model=completion.model,
        prompt_tokens=usage.prompt_tokens if usage else None,
        completion_tokens=usage.completion_tokens if usage else None,
        raw=completion.model_dump(mode="json"),
    )
