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
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError, model_validator

from kbverified import file_lock, prompts, response_store
from kbverified.endpoint_settings import ClientSettings, EndpointSettings
from kbverified.extraction import extract
from kbverified.file_plan import commit, compare
from kbverified.keys import NAME_PATTERN, SAMPLE_PATTERN, CandidateKey, ProblemKey
from kbverified.printable import printable
from kbverified.records.base import Dtype
from kbverified.records.files import RecordError, read
from kbverified.records.generation import Generation, PromptFacts, PromptTarget, PromptVariant
from kbverified.run_import import candidate_files
from kbverified.table_rows import Row, TableError, read_rows

_API_ONLY = ("samples", "closed", "prompt", "target", *EndpointSettings.model_fields)


class GeneratorError(ValueError):
    """A generators table or a call that cannot be. The message names file, row, column and value."""


class GeneratorSpec(EndpointSettings):
    """One row of ``config/generators.tsv``; an empty cell is the default. What is asked of a model and within which
    limits goes with origin api only."""

    generator: str = Field(pattern=f"^{NAME_PATTERN}$")
    origin: Literal["bundled", "import", "api"]
    """How its candidates come: they are in the repository, were imported, or are asked for."""
    dtype: Dtype = "fp32"
    """The dtype of inputs and weights in which the candidates are evaluated."""
    devices: Literal["any", "cuda", "cpu"] = "any"
    """Device for which the candidates are written; an API generator's prompt says so (any: cuda)."""
    samples: int | None = Field(default=None, ge=1)
    """For api: samples per problem; 1 where not said. Other origins have what lies there."""
    closed: bool = False
    """For api: nothing more is asked for, its candidates are those that lie there."""
    prompt: PromptVariant | None = None
    """For api: ``input-blind`` for every problem; where not said, for those that ``prompts.input_blind`` names."""
    target: PromptTarget | None = None
    """For api: the language to write kernels in; where not said, CUDA C++ or Triton, and C++ for devices cpu."""
    note: str = ""

    @model_validator(mode="after")
    def _origin_decides(self) -> GeneratorSpec:
        if self.origin == "api":
            if self.model is None:
                raise ValueError("origin api needs model")
            if self.base_url is None and self.base_url_env is None:
                raise ValueError("origin api needs base_url or base_url_env")
        elif given := [name for name in _API_ONLY if name in self.model_fields_set]:
            raise ValueError(f"{', '.join(given)} only go with origin api")
        return self

    @model_validator(mode="after")
    def _target_fits_devices(self) -> GeneratorSpec:
        if self.target is not None and (self.target == "cpp") != (self.devices == "cpu"):
            fits = "cpp" if self.devices == "cpu" else "cuda, triton or cute-dsl"
            raise ValueError(f"target {self.target} does not go with devices {self.devices}: {fits} does")
        return self

    @property
    def asks(self) -> bool:
        """Whether missing samples are asked for."""
        return self.origin == "api" and not self.closed

    def client(self) -> ClientSettings:
        """What its model is asked with. Raises ValueError unless origin is api."""
        given = {name: getattr(self, name) for name in EndpointSettings.model_fields}
        return ClientSettings.model_validate(given)


_OWN = [name for name in GeneratorSpec.model_fields if name not in EndpointSettings.model_fields]
COLUMNS = (*_OWN, *EndpointSettings.model_fields)


def read_generators(path: Path) -> list[GeneratorSpec]:
    """Rows of the table, in its order: tabs or, where its name ends so, YAML (table_rows).

    Raises GeneratorError with file, row, column and value; FileNotFoundError.
    """
    try:
        rows = read_rows(path, COLUMNS, required=("generator", "origin"))
    except TableError as error:
        raise GeneratorError(str(error)) from None
    specs: dict[str, GeneratorSpec] = {}
    for row in rows:
        spec = _spec(row)
        if spec.generator in specs:
            raise GeneratorError(f"{row.where}: column generator: {spec.generator!r} is there twice")
        specs[spec.generator] = spec
    return list(specs.values())


def _spec(row: Row) -> GeneratorSpec:
    try:
        return GeneratorSpec.model_validate(row.values)
    except ValidationError as error:
        first = error.errors()[0]
        if not first["loc"]:
            raise GeneratorError(f"{row.where}: {first['msg']}") from None
        column = str(first["loc"][0])
        secret = column in ("api_key_env", "base_url", "base_url_env", "extra_body")
        value = "not shown" if secret else repr(row.values.get(column, ""))
        hint = " It names an environment variable; the key itself never stands in this file."
        hint = hint if column == "api_key_env" else ""
        raise GeneratorError(f"{row.where}: column {column}: {first['msg']} (value {value}).{hint}") from None


def discover_candidates(root: Path, spec: GeneratorSpec, suite: str, problems: Iterable[str]) -> list[CandidateKey]:
    """Candidates of a generator for problems (``level1_19``) of a suite, in their order, samples ascending.

    Where more is asked for all that are to be; otherwise the files that are there. Raises GeneratorError for a sample
    whose name is not its number (``00.py`` beside ``0.py`` would be one sample twice), or that is no file.
    """
    keys: list[CandidateKey] = []
    for problem in problems:
        if spec.asks:
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
    spec: GeneratorSpec, problem_path: Path, key: CandidateKey, root: Path, told: prompts.Told | None = None
) -> Outcome:
    """Make one sample of an API generator: from the store where the answer is there, else by asking.

    A source is kept where it was edited or put there by hand, and where it answers another prompt or settings: only
    who deletes a sample asks, and pays, for another. Raises GeneratorError, endpoint.RequestRejected (bad input);
    EndpointFault, OSError (try again).
    """
    if not spec.asks:
        why = "it is closed" if spec.closed else f"origin {spec.origin}, only api is generated"
        raise GeneratorError(f"generator {spec.generator}: {why}")
    client = spec.client()
    prompt = prompts.for_generator(spec, problem_path, told, root)
    if kept := _keep(key, root, (client.model, client.settings, prompt.sha256)):
        return kept
    from kbverified import paid_answers

    folder = response_store.response_folder(root, spec.generator)
    obtained = paid_answers.obtain(client, prompt.messages, name=key.tail, folder=folder)
    files = _files(key, root, obtained.response, obtained.path, prompt.facts)
    if compare(files).unchanged == tuple(files):
        return Outcome(key, "unchanged", f"{key}: there already, as stored")
    commit(files, root / "generations")
    code = files[key.source_path(root)]
    note = f" ({obtained.response.note})" if obtained.response.note else ""
    return Outcome(key, obtained.did, f"{key}: {obtained.did}, {len(code)} bytes of code{note}")


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
    """Generate one sample, 0: source and metadata are there. Raises ValueError, FileNotFoundError for bad input,
    EndpointFault and OSError where there is no answer and nothing was written."""
    key = CandidateKey(args.generator, args.suite, args.problem, args.sample)
    if args.out is not None and args.out.resolve() != key.source_path(args.root).resolve():
        raise GeneratorError(f"--out {args.out}: this sample's source is {key.source_path(args.root)}")
    specs = {spec.generator: spec for spec in read_generators(args.generators)}
    if args.generator not in specs:
        raise GeneratorError(f"{args.generators}: no generator {args.generator!r}; there are {', '.join(specs)}")
    folder = response_store.response_folder(args.root, args.generator)
    if why := file_lock.local_only(folder):
        print(f"generate: {folder}: locks, and with them limits and budget, hold on this machine only ({why})")
    problem = ProblemKey(args.suite, args.problem).source_path(args.root)
    outcome = generate(specs[args.generator], problem, key, args.root, told=prompts.told(args))
    print(printable(outcome.sentence))
    return 0
