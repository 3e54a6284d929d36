"""Templates under ``workflow/prompts/``: rendered strictly, and each file that went in known by its sha256."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from kbverified.strict_templates import TemplateError, environment, explained

_FOLDER = Path("workflow/prompts")
_OWN = Path(__file__).resolve().parents[3]


class Templates:
    """The templates of a project; one object for one prompt."""

    def __init__(self, root: Path):
        self.folder = next((f for f in (root / _FOLDER, _OWN / _FOLDER) if f.is_dir()), root / _FOLDER)
        self._sha256: dict[str, str] = {}

    @property
    def sha256(self) -> dict[str, str]:
        """Sha256 (hex) of every file that was read, by its path below the folder."""
        return dict(sorted(self._sha256.items()))

    def text(self, name: str) -> str:
        """A file's text without what precedes and follows it. Raises TemplateError."""
        path = self.folder / name
        try:
            data = path.read_bytes()
            text = data.decode()
        except FileNotFoundError:
            raise TemplateError(
                f"{path}: there is no such template. `git checkout {_FOLDER}` brings it back."
            ) from None
        except UnicodeDecodeError as error:
            raise TemplateError(f"{path}: not UTF-8 at byte {error.start}. Convert the file to UTF-8.") from None
        self._sha256[name] = hashlib.sha256(data).hexdigest()
        return text.replace("\r\n", "\n").strip("\n")

    def render(self, name: str, variables: dict[str, Any]) -> str:
        """The text that a template makes of these variables, which are text to it and never templates.

        Raises TemplateError: no such file, a syntax error, a variable that is not there.
        """
        import jinja2

        made = environment(loader=jinja2.FunctionLoader(self.text), trim_blocks=True, lstrip_blocks=True)
        with explained(self.folder, name, variables):
            return made.get_template(name).render(variables)
