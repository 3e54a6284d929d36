"""Configuration files: read and merged as Snakemake does it, and their errors with file, key and value. Torch-free."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

import yaml
from pydantic import BaseModel, ValidationError

from kbverified.config import ConfigError, Settings


def read_settings(config: Mapping[str, Any], files: Sequence[str] = ()) -> Settings:
    """Validate a configuration that was merged from files (later ones win) and perhaps a command line.

    Raises ConfigError with file, key and value, and with the nearest known keys where a key is unknown.
    """
    try:
        return Settings.model_validate(dict(config))
    except ValidationError as error:
        problems = [_explain(dict(item), files) for item in error.errors()]
        raise ConfigError("\n".join(problems)) from None


def load_settings(path: Path) -> Settings:
    """Read one configuration file. Raises ConfigError, FileNotFoundError."""
    return read_settings(_mapping(path), [str(path)])


def _mapping(path: Path) -> dict[str, Any]:
    """A file's content. Raises ConfigError where that is no mapping, FileNotFoundError."""
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    except yaml.YAMLError as error:
        raise ConfigError(f"{path}: not valid YAML: {error}") from None
    if not isinstance(content, dict):
        raise ConfigError(f"{path}: a mapping of keys is needed, this is {type(content).__name__}")
    return content


def project_settings(root: Path, more: Sequence[Path]) -> Settings:
    """Settings as Snakemake has them in a project: its config/config.yaml, and each further file over it. Raises as
    ``merged_settings``."""
    return merged_settings([root / "config/config.yaml", *more])


def merged_settings(paths: Sequence[Path]) -> Settings:
    """Read several configuration files, of which later ones override single keys, as Snakemake merges them.

    Raises ConfigError, FileNotFoundError.
    """
    merged: dict[str, Any] = {}
    for path in paths:
        _merge(merged, _mapping(path))
    return read_settings(merged, [str(path) for path in paths])


def _merge(into: dict[str, Any], more: Mapping[str, Any]) -> None:
    for key, value in more.items():
        if isinstance(value, dict) and isinstance(into.get(key), dict):
            _merge(into[key], value)
        else:
            into[key] = value


def baselines_of(*paths: Path) -> tuple[str, ...]:
    """The optional baselines under some configuration files, of which later ones win; no other key is looked at.

    Raises ConfigError, FileNotFoundError.
    """
    found: tuple[str, ...] = ()
    for path in paths:
        content = _mapping(path)
        if "baselines" in content:
            found = read_settings({"baselines": content["baselines"]}, [str(path)]).baselines
    return found


def _explain(item: dict[str, Any], files: Sequence[str]) -> str:
    """One line for one error of pydantic's."""
    keys = [str(part) for part in item["loc"] if not str(part).startswith(("tuple[", "literal["))]
    value = repr(item.get("input"))
    value = value if len(value) <= 80 else value[:77] + "..."
    if keys[:2] == ["llm_judges", "judges"] and len(keys) > 2:
        value = "not shown"  # a mistaken one may be an API key
    head = f"{_file_of(keys, item.get('input'), files)}: {'.'.join(keys)}: "
    if item["type"] == "extra_forbidden":
        known = _known_keys(keys[:-1])
        near = difflib.get_close_matches(keys[-1], known, n=2)
        hint = f"did you mean {' or '.join(near)}?" if near else f"known keys: {', '.join(known)}"
        return f"{head}unknown key (value {value}); {hint}"
    return f"{head}{item['msg']} (value {value})"


def _known_keys(path: Sequence[str]) -> list[str]:
    model: type[BaseModel] = Settings
    for key in path:
        if key.isdigit():  # an item of a list of sections
            continue
        annotation = model.model_fields[key].annotation
        sections = [a for a in (annotation, *get_args(annotation)) if isinstance(a, type) and issubclass(a, BaseModel)]
        if not sections:
            return []
        model = sections[0]
    return [field.alias or name for name, field in model.model_fields.items()]


def _file_of(keys: Sequence[str], value: Any, files: Sequence[str]) -> str:
    """The last file that gives a key this value; the command line where none does."""
    for name in reversed(files):
        try:
            node: Any = yaml.safe_load(Path(name).read_text(encoding="utf-8"))
        except (OSError, yaml.YAMLError):
            continue
        depth = 0
        while depth < len(keys) and isinstance(node, dict) and keys[depth] in node:
            node = node[keys[depth]]
            depth += 1
        # An error inside a list names an index as well: the list is what the file sets.
        if repr(node) == repr(value) if depth == len(keys) else isinstance(node, list) and depth:
            return name
    return "--config" if files else "config"
