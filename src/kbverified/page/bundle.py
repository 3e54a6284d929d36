"""Our JavaScript modules as one script: each becomes a function whose result is what it exports.

The modules in ``assets/`` are plain ES modules, which a browser does not import from a page opened from disk. They keep
to a form that needs no parser: ``import { a, b } from "./other.js";`` at the head, one line each, and ``export`` before
``function``, ``class`` or ``const`` at the beginning of a line. Anything else is an error here.
"""

from __future__ import annotations

import re
from pathlib import Path

_IMPORT = re.compile(r'^import \{ ([\w, ]+) \} from "\./([\w-]+)\.js";$', re.M)
_EXPORT = re.compile(r"^export (?=(?:async function|function|class|const) (\w+))", re.M)
_ODD = re.compile(r"^\s*(?:import|export)\b.*$", re.M)


class BundleError(ValueError):
    """A module that is not in the form which this bundler knows. The message names file and line."""


def bundle(folder: Path, entry: str) -> str:
    """The script that runs module ``entry`` and all that it imports, in one strict scope. Raises BundleError."""
    parts: dict[str, str] = {}
    _add(folder, entry, parts, ())
    modules = "\n".join(parts.values())
    return f'"use strict";\n(() => {{\n{modules}\n}})();\n'


def _add(folder: Path, name: str, parts: dict[str, str], above: tuple[str, ...]) -> None:
    if name in above:
        raise BundleError(f"{folder / name}.js: imports itself by way of {' -> '.join((*above, name))}")
    if name in parts:
        return
    path = folder / f"{name}.js"
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise BundleError(f"{path}: no such module, imported by {above[-1] if above else 'nobody'}") from None
    imports = [(match[2], match[1]) for match in _IMPORT.finditer(text)]
    for other, _ in imports:
        _add(folder, other, parts, (*above, name))
    exported = [match[1] for match in _EXPORT.finditer(text)]
    body = _EXPORT.sub("", _IMPORT.sub("", text))
    if odd := _ODD.search(body):
        raise BundleError(f"{path}: {odd[0].strip()[:80]!r} is in no form that page/bundle.py knows")
    taken = "".join(f"const {{ {names} }} = {_variable(other)};\n" for other, names in imports)
    parts[name] = (
        f"const {_variable(name)} = (() => {{\n{taken}{body.strip()}\nreturn {{ {', '.join(exported)} }};\n}})();"
    )


def _variable(name: str) -> str:
    return "module_" + name.replace("-", "_")
