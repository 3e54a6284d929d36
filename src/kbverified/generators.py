"""Generators: the table that lists them, and one way to candidates for all three origins.

Bundled and imported candidates are files that lie there. An API generator's are asked for, sample by sample: the
answer goes to the response store first, then source and metadata are written from the store, so that nothing that
was paid for is paid for twice.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import ConfigDict, Field, ValidationError, model_validator

from kbverified import prompts, response_store
from kbverified.exit_codes import EXIT_BAD_INPUT, EXIT_INFRASTRUCTURE
from kbverified.extraction import extract
from kbverified.file_plan import commit, compare
from kbverified.keys import NAME_PATTERN, SAMPLE_PATTERN, CandidateKey, ProblemKey
from kbverified.records import Dtype, Generation, PromptFacts, PromptTarget, PromptVariant, Record, RecordError, read
from kbverified.run_import import candidate_files

_VARIABLE = r"^[A-Za-z_][A-Za-z0-9_]*$"
_API_ONLY = ("base_url_env", "api_key_env", "temperature", "max_tokens", "samples", "prompt", "target")


class GeneratorError(ValueError):
    """A generators table or a call that cannot be. The message names file, row, column and value."""


class GeneratorSpec(Record):
    """One row of ``config/generators.tsv``; an empty cell is the default."""

    # A mistaken cell may hold an API key: it is never repeated in an error.
    model_config = ConfigDict(hide_input_in_errors=True)

    generator: str = Field(pattern=f"^{NAME_PATTERN}$")
    origin: Literal["bundled", "import", "api"]
    """How its candidates come: they are in the repository, were imported, or are asked for."""
    dtype: Dtype = "fp32"
    """The dtype of inputs and weights in which the candidates are evaluated."""
    devices: Literal["any", "cuda", "cpu"] = "any"
    """Device for which the candidates are written; an API generator's prompt says so (any: cuda)."""
    model: str | None = None
    """For api: the model's name at the endpoint."""
    base_url_env: str | None = Field(default=None, pattern=_VARIABLE)
    """For api: name of the environment variable that holds the base URL."""
    api_key_env: str | None = Field(default=None, pattern=_VARIABLE)
    """For api: name of the environment variable that holds the key."""
    temperature: float | None = Field(default=None, ge=0)
    max_tokens: int | None = Field(default=None, ge=1)
    samples: int | None = Field(default=None, ge=1)
    """For api: samples per problem; 1 where not said. Other origins have what lies there."""
    prompt: PromptVariant | None = None
    """For api: ``input-blind`` for every problem; where not said, for those that ``prompts.input_blind`` names."""
    target: PromptTarget | None = None
    """For api: the language to write kernels in; where not said, CUDA C++ or Triton, and C++ for devices cpu."""
    note: str = ""

    @model_validator(mode="after")
    def _origin_decides(self) -> GeneratorSpec:
        if self.origin == "api":
            missing = [name for name in ("model", "base_url_env", "api_key_env") if getattr(self, name) is None]
            if missing:
                raise ValueError(f"origin api needs {', '.join(missing)}")
        elif given := [name for name in _API_ONLY if getattr(self, name) is not None]:
            raise ValueError(f"{', '.join(given)} only go with origin api")
        return self

    @model_validator(mode="after")
    def _target_fits_devices(self) -> GeneratorSpec:
        if self.target is not None and (self.target == "cpp") != (self.devices == "cpu"):
            fits = "cpp" if self.devices == "cpu" else "cuda, triton or cute-dsl"
            raise ValueError(f"target {self.target} does not go with devices {self.devices}: {fits} does")
        return self

    @property
    def settings(self) -> response_store.Settings:
        """What is sent beside model and prompt."""
        given = {"temperature": self.temperature, "max_tokens": self.max_tokens}
        return {name: value for name, value in given.items() if value is not None}


COLUMNS = tuple(GeneratorSpec.model_fields)


def read_generators(path: Path) -> list[GeneratorSpec]:
    """Rows of the table, in its order: tabs between cells, a header, ``#`` starts a comment line.

    Raises GeneratorError with file, row, column and value; FileNotFoundError.
    """
    try:
        lines = path.read_bytes().decode("utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise GeneratorError(f"{path}: not UTF-8 at byte {error.start}. Convert the file to UTF-8.") from None
    table = [
        (number, [cell.strip() for cell in line.split("\t")])
        for number, line in enumerate(lines, start=1)
        if line.strip() and not line.startswith("#")
    ]
    if not table:
        raise GeneratorError(f"{path}: no header. Its columns are {', '.join(COLUMNS)}, with tabs between.")
    header = _header(path, *table[0])
    specs: dict[str, GeneratorSpec] = {}
    for number, cells in table[1:]:
        spec = _row(f"{path}: row {number}", header, cells)
        if spec.generator in specs:
            raise GeneratorError(f"{path}: row {number}: column generator: {spec.generator!r} is there twice")
        specs[spec.generator] = spec
    return list(specs.values())


def _header(path: Path, number: int, header: list[str]) -> list[str]:
    for column in header:
        if column not in COLUMNS:
            raise GeneratorError(
                f"{path}: row {number}: unknown column {column!r}. Columns are {', '.join(COLUMNS)}, with tabs between."
            )
        if header.count(column) > 1:
            raise GeneratorError(f"{path}: row {number}: column {column} is there twice")
    if missing := [column for column in ("generator", "origin") if column not in header]:
        raise GeneratorError(f"{path}: row {number}: no column {', '.join(missing)}")
    return header


def _row(where: str, header: list[str], cells: list[str]) -> GeneratorSpec:
    if len(cells) > len(header):
        raise GeneratorError(f"{where}: {len(cells)} cells under {len(header)} columns. Is there a tab too many?")
    given = {column: cell for column, cell in zip(header, cells) if cell}
    try:
        return GeneratorSpec.model_validate(given)
    except ValidationError as error:
        first = error.errors()[0]
        if not first["loc"]:
            raise GeneratorError(f"{where}: {first['msg']}") from None
        column = str(first["loc"][0])
        secret = column == "api_key_env"
        value = "not shown" if secret else repr(given.get(column, ""))
        hint = " It names an environment variable; the key itself never stands in this file." if secret else ""
        raise GeneratorError(f"{where}: column {column}: {first['msg']} (value {value}).{hint}") from None


def discover_candidates(root: Path, spec: GeneratorSpec, suite: str, problems: Iterable[str]) -> list[CandidateKey]:
    """Candidates of a generator for problems (``level1_19``) of a suite, in their order, samples ascending.

    For origin api all that are to be; otherwise the files that are there. Raises GeneratorError for a sample whose
    name is not its number (``00.py`` beside ``0.py`` would be one sample twice), or that is no file.
    """
    keys: list[CandidateKey] = []
    for problem in problems:
        if spec.origin == "api":
            numbers = list(range(spec.samples or 1))
        else:
            numbers = _sample_numbers(root / "generations" / spec.generator / suite / problem)
        keys.extend(CandidateKey(spec.generator, suite, problem, number) for number in numbers)
    return keys


def _sample_numbers(folder: Path) -> list[int]:
    if not folder.is_dir():
        return []
    numbers = []
    for name in os.listdir(folder):
        stem, ending = os.path.splitext(name)
        if ending != ".py" or name.startswith("."):
            continue
        if not re.fullmatch(SAMPLE_PATTERN, stem) or stem != str(int(stem)):
            raise GeneratorError(f"{folder / name}: a sample is named by its number, as 0.py. Rename the file.")
        if not (folder / name).is_file():  # a pipe, for one, would never end being read
            raise GeneratorError(
                f"{folder / name}: no file that can be read (a folder, pipe or broken link). Remove it."
            )
        numbers.append(int(stem))
    return sorted(numbers)


@dataclass(frozen=True)
class Outcome:
    """What ``generate`` did about one candidate."""

    key: CandidateKey
    did: Literal["asked", "replayed", "unchanged", "kept"]
    sentence: str


def generate(
    spec: GeneratorSpec,
    problem_path: Path,
    key: CandidateKey,
    root: Path,
    client: Any = None,
    told: prompts.Told | None = None,
) -> Outcome:
    """Make one sample of an API generator: from the store where the answer is there, else by asking.

    A source is kept where it was edited or put there by hand, and where it answers another prompt or settings: only
    who deletes a sample asks, and pays, for another. ``client`` stands in
    for the ``openai.OpenAI`` made from the environment. Raises GeneratorError, endpoint.RequestRejected (bad input);
    endpoint.EndpointFault, OSError (try again).
    """
    from kbverified import endpoint

    if spec.origin != "api":
        raise GeneratorError(f"generator {spec.generator}: origin {spec.origin}, only api is generated")
    assert spec.model and spec.base_url_env and spec.api_key_env  # by _origin_decides
    prompt = prompts.for_generator(spec, problem_path, told, root)
    messages, prompt_sha256 = prompt.messages, prompt.sha256
    if kept := _keep(key, root, (spec.model, spec.settings, prompt_sha256)):
        return kept
    asked = response_store.response_key(key, prompt_sha256, spec.model, spec.settings)
    path = response_store.response_path(root, spec.generator, asked)
    response, did = response_store.load(path), "replayed"
    if response is None:
        if client is None:
            url, api_key = endpoint.from_environment(spec.base_url_env, spec.api_key_env, spec.generator)
            client = endpoint.make_client(url, api_key)
        response_store.require_room(path)
        answer = endpoint.ask(client, key.tail, spec.model, messages, spec.settings)
        response, did = response_store.append(path, answer), "asked"
    files = _files(key, root, response, path, prompt.facts)
    if compare(files).unchanged == tuple(files):
        return Outcome(key, "unchanged", f"{key}: there already, as stored")
    commit(files, root / "generations")
    code = files[key.source_path(root)]
    return Outcome(key, did, f"{key}: {did}, {len(code)} bytes of code")  # type: ignore[arg-type]


def _files(
    key: CandidateKey, root: Path, response: response_store.StoredResponse, path: Path, facts: PromptFacts
) -> dict[Path, bytes]:
    found = extract(response.content)
    detail = found.detail
    if response.refusal and found.how == "none":
        detail = f"refused: {response.refusal[:200]}"
    elif response.finish_reason not in (None, "stop"):
        detail = "; ".join(filter(None, (f"finish_reason {response.finish_reason}", detail)))
    data = found.code.encode()
    generation = Generation(
        origin="api",
        source=response.served_model or response.model,
        candidate_sha256=hashlib.sha256(data).hexdigest(),
        extraction=found.how,
        detail=detail,
        model=response.model,
        settings=response.settings,
        prompt_sha256=response.prompt_sha256,
        prompt=facts,
        response_path=path.relative_to(root).as_posix(),
        prompt_tokens=response.prompt_tokens,
        completion_tokens=response.completion_tokens,
    )
    return candidate_files(key, root, data, generation)


def _keep(key: CandidateKey, root: Path, asked: tuple[object, ...]) -> Outcome | None:
    """Leave alone what a person wrote and what answers another question. None: there is nothing to keep.

    A source without metadata gets some, which says so ever after.
    """
    source, metadata = key.source_path(root), key.metadata_path(root)
    if not source.exists():
        return None
    data = source.read_bytes()
    digest = hashlib.sha256(data).hexdigest()
    try:
        generation = read(metadata, Generation)
    except FileNotFoundError:
        placed = Generation(origin="import", source="placed by hand", candidate_sha256=digest, extraction="verbatim")
        commit({metadata: candidate_files(key, root, data, placed)[metadata]}, root / "generations")
        return Outcome(
            key, "kept", f"{source}: kept, it was placed by hand. To ask the model, delete it and its .json."
        )
    except RecordError as error:
        return Outcome(key, "kept", f"{source}: kept, its metadata cannot be read: {error}")
    if generation.origin != "api":
        return Outcome(key, "kept", f"{source}: kept, its origin is {generation.origin}")
    if generation.candidate_sha256 != digest:
        why = "it was edited since it was generated"
    elif (generation.model, generation.settings, generation.prompt_sha256) != asked:
        why = "it answers another prompt, model or settings than those asked for now"
    else:
        return None
    return Outcome(key, "kept", f"{source}: kept, {why}. To have it made again, delete it.")


def add_parser(subparsers: Any) -> None:
    """Add ``generate`` to the command line."""
    parser = subparsers.add_parser("generate", help="ask a model for one sample, or replay a stored answer")
    parser.add_argument(
        "--generators-tsv", "--generators", dest="generators", type=Path, default=Path("config/generators.tsv")
    )
    parser.add_argument("--generator", required=True)
    parser.add_argument("--suite", required=True)
    parser.add_argument("--problem", required=True, help="as level1_19")
    parser.add_argument("--sample", type=int, required=True)
    parser.add_argument("--root", type=Path, default=Path("."))
    prompts.add_arguments(parser)
    parser.add_argument("--out", type=Path, help="path of the source; follows from the key, and is checked against it")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Generate one sample. 0: source and metadata are there; 2: bad input; 75: no answer, nothing written."""
    from kbverified.endpoint import EndpointFault

    try:
        key = CandidateKey(args.generator, args.suite, args.problem, args.sample)
        if args.out is not None and args.out.resolve() != key.source_path(args.root).resolve():
            raise GeneratorError(f"--out {args.out}: this sample's source is {key.source_path(args.root)}")
        specs = {spec.generator: spec for spec in read_generators(args.generators)}
        if args.generator not in specs:
            raise GeneratorError(f"{args.generators}: no generator {args.generator!r}; there are {', '.join(specs)}")
        problem = ProblemKey(args.suite, args.problem).source_path(args.root)
        outcome = generate(specs[args.generator], problem, key, args.root, told=prompts.told(args))
    except (ValueError, FileNotFoundError) as error:
        print(f"generate: {error}", file=sys.stderr)
        return EXIT_BAD_INPUT
    except (EndpointFault, OSError) as error:
        print(f"generate: {error}", file=sys.stderr)
        return EXIT_INFRASTRUCTURE
    print(outcome.sentence)
    return 0
