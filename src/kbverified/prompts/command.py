"""``kbverified prompt``: the exact messages that a generator sends, which samples answer others, what a device is."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kbverified import prompts
from kbverified.keys import CandidateKey, ProblemKey

_EPILOG = """\
examples:
  kbverified prompt --generator my-model --suite kernelbench --problem level1_90
  kbverified prompt --generator my-model --stale                    # samples that answer another prompt than today's
  kbverified prompt --generator my-model --stale | xargs -d '\\n' rm  # the next run asks for these again, and pays
  kbverified prompt --hardware                                      # the section hardware: for config/config.yaml
"""


def add_parser(subparsers: Any) -> None:
    """Add ``prompt`` to the command line."""
    parser = subparsers.add_parser(
        "prompt",
        help="print the exact messages that an API generator sends for a problem",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--generator", help="a row of the generators table with origin api")
    parser.add_argument("--suite")
    parser.add_argument("--problem", help="as level1_19")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--json", action="store_true", help="messages, sha256 and what they were made from, as JSON")
    what.add_argument("--stale", action="store_true", help="list samples whose prompt is not what it would be now")
    what.add_argument(
        "--hardware", action="store_true", help="print this machine's device as config/config.yaml has it"
    )
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="for --hardware")
    parser.add_argument(
        "--configfile", type=Path, action="append", default=[], help="as Snakemake's: overrides config/config.yaml"
    )
    parser.add_argument("--root", type=Path, default=Path("."))
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """0: printed. Raises ValueError, FileNotFoundError for bad input."""
    from kbverified.cli import reader_may_leave

    with reader_may_leave():
        if arguments.hardware:
            _print_hardware(arguments.device)
            return 0
        if arguments.generator is None:
            raise ValueError("--generator is needed, or --hardware")
        asked = _Asked(arguments)
        if arguments.stale:
            for path in asked.stale():
                print(path)
            return 0
        if arguments.suite is None or arguments.problem is None:
            raise ValueError("--suite and --problem are needed: a prompt is about one problem")
        _print_prompt(asked.prompt(ProblemKey(arguments.suite, arguments.problem)), arguments.json)
    return 0


class _Asked:
    """What one generator asks under the configuration of a project."""

    def __init__(self, arguments: argparse.Namespace):
        from kbverified.config_files import project_settings
        from kbverified.generators import read_generators

        self.root: Path = arguments.root
        self._settings = project_settings(self.root, arguments.configfile)
        table = self.root / self._settings.generators_tsv
        specs = {spec.generator: spec for spec in read_generators(table)}
        if arguments.generator not in specs:
            raise ValueError(f"{table}: no generator {arguments.generator!r}; there are {', '.join(specs)}")
        self._spec = specs[arguments.generator]
        if self._spec.origin != "api":
            raise ValueError(f"{table}: generator {arguments.generator}: origin {self._spec.origin}, only api is asked")
        self._only = (arguments.suite, arguments.problem)

    def prompt(self, key: ProblemKey) -> prompts.Prompt:
        told = prompts.from_settings(self._settings, key.suite, key.problem, self._spec.prompt)
        return prompts.for_generator(self._spec, key.source_path(self.root), told, self.root)

    def stale(self) -> Iterator[Path]:
        """Sources that were generated for another prompt than today's and not edited since."""
        from kbverified.records.files import read
        from kbverified.records.generation import Generation
        from kbverified.run_import import is_of

        today: dict[tuple[str, str], str] = {}
        folder = self.root / "generations" / self._spec.generator
        for metadata in sorted(folder.glob("*/*/*.json")):
            suite, problem = metadata.parts[-3:-1]
            if any(only not in (None, name) for only, name in zip(self._only, (suite, problem))):
                continue
            generation = read(metadata, Generation)
            source = CandidateKey(self._spec.generator, suite, problem, int(metadata.stem)).source_path(self.root)
            if generation.origin != "api" or not source.is_file():
                continue
            if not is_of(source, generation):
                continue
            if (suite, problem) not in today:
                today[suite, problem] = self.prompt(ProblemKey(suite, problem)).sha256
            if generation.prompt_sha256 != today[suite, problem]:
                yield source


def _print_prompt(prompt: prompts.Prompt, as_json: bool) -> None:
    if as_json:
        made_from = prompt.facts.model_dump(mode="json")
        print(json.dumps({"sha256": prompt.sha256, "facts": made_from, "messages": prompt.messages}, indent=1))
        return
    for message in prompt.messages:
        if len(prompt.messages) > 1:
            print(f"--- {message['role']} ---")
        print(message["content"])
    facts = prompt.facts
    hardware = f"{facts.hardware.name} (from the {facts.hardware_from})" if facts.hardware else "none"
    print(f"\n{facts.variant}; hardware: {hardware}; sha256 {prompt.sha256}", file=sys.stderr)
    if facts.numbers_in_code:
        numbers = ", ".join(map(str, facts.numbers_in_code))
        print(f"hidden, but in Model's own computation as well: {numbers}", file=sys.stderr)


def _print_hardware(device: str) -> None:
    import yaml

    from kbverified.devices.facts import device_facts

    facts = device_facts(device)
    if facts is None:
        raise ValueError("this machine has no GPU that this process may use; --device cpu describes its processor")
    print(yaml.safe_dump({"hardware": facts.model_dump(exclude_none=True)}, sort_keys=False), end="")
