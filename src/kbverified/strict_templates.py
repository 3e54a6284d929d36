"""Text made from templates: every variable has to be there, and what goes wrong names file and line."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import jinja2


class TemplateError(ValueError):
    """A template that cannot be used. The message names file, line and what is wrong."""


def environment(**options: Any) -> jinja2.Environment:
    """Nothing that is put in is a template itself, nothing is HTML, and every variable has to be there."""
    import jinja2

    return jinja2.Environment(undefined=jinja2.StrictUndefined, autoescape=False, **options)


@contextlib.contextmanager
def explained(folder: Path, name: str, variables: Iterable[str]) -> Iterator[None]:
    """Raises TemplateError for jinja's errors about a template of a folder, or one that it includes."""
    import jinja2

    try:
        yield
    except jinja2.TemplateSyntaxError as error:
        raise TemplateError(f"{folder / (error.name or name)}:{error.lineno}: {error.message}") from None
    except jinja2.TemplateError as error:
        raise TemplateError(f"{folder / name}: {error.message}. Variables: {', '.join(variables)}.") from None
