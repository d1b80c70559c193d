"""From file, environment and command line to a checked configuration.

file → values → overrides → models + sinks' options + whole-file rules + secrets → PipelineConfig, or every problem

Invariant: all problems are told at once; a second run shows no mistake that the first could have shown.
"""

import json
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from tidegate.config.document import MAX_BYTES, parse_bytes
from tidegate.config.overrides import Override, apply, from_arguments, from_environment, replace
from tidegate.config.pipeline import PipelineConfig
from tidegate.config.problems import Path, format_path, problem_from
from tidegate.config.secret import Secret
from tidegate.config.sinks import SinkConfig
from tidegate.config.transforms import OPTIONS
from tidegate.errors import ConfigError, Problem
from tidegate.observability import logs

M = TypeVar("M", bound=BaseModel)
OptionModels = Mapping[str, type[BaseModel]]


def load_pipeline(
    path: str | FilePath,
    overrides: Sequence[str] = (),
    environ: Mapping[str, str] = os.environ,
    *,
    option_models: OptionModels | None = None,
    secrets: Collection[str] | None = None,
) -> PipelineConfig:
    """`option_models`: sink type → model, so that sinks' options are checked in the same pass.

    `secrets`: the sections whose secrets this service reads and which must therefore be readable now; None: all.
    """
    document = parse_bytes(_read(FilePath(path)))
    return pipeline_from(document, overrides, environ, option_models=option_models, secrets=secrets)


def pipeline_from(
    document: object,
    overrides: Sequence[str] = (),
    environ: Mapping[str, str] = os.environ,
    *,
    option_models: OptionModels | None = None,
    secrets: Collection[str] | None = None,
) -> PipelineConfig:
    """As `load_pipeline`, from plain values as YAML gives them."""
    if not isinstance(document, dict):
        problem = Problem(
            "(file)", code="CONFIG_EMPTY", reason="holds no mapping", remedy="Begin with pipeline: <name>."
        )
        raise _refused([problem])
    candidate = _Candidate(json.loads(json.dumps(document)), option_models or {}, {})
    problems = candidate.override(overrides, environ)
    config = candidate.validate(problems)
    problems += _duplicate_names(candidate.tree)
    problems += _secret_problems(candidate.tree, environ, secrets)
    if config is None or problems:
        raise _refused(problems)
    return config


def parse_options(sink: SinkConfig, model: type[M]) -> M:
    """The typed options of a sink; its own problems if `load_pipeline` was not given the model."""
    try:
        return model.model_validate_json(json.dumps(sink.options))
    except ValidationError as error:
        raise _refused(
            [_problem(model, details, ("sinks", sink.name, "options")) for details in _details(error)]
        ) from None


@dataclass(slots=True)
class _Candidate:
    tree: dict[str, Any]
    option_models: OptionModels
    overridden: dict[Path, Override]

    def override(self, arguments: Sequence[str], environ: Mapping[str, str]) -> list[Problem]:
        from_command_line, problems = from_arguments(arguments)
        for override in [*from_environment(environ), *from_command_line]:
            try:
                self.overridden[apply(self.tree, override)] = override
            except ConfigError as error:
                problems += error.problems
        return problems

    def validate(self, problems: list[Problem]) -> PipelineConfig | None:
        """Adds to `problems`. Overrides are text without types, so a guess that a field refuses is taken back once."""
        config, errors = self._attempt()
        if self._take_back_guesses(errors):
            config, errors = self._attempt()
        problems += [_problem(model, details, prefix) for model, details, prefix in errors]
        return config

    def _attempt(self) -> tuple[PipelineConfig | None, list[tuple[type[BaseModel], ErrorDetails, Path]]]:
        config, details = _validated(PipelineConfig, self.tree)
        errors: list[tuple[type[BaseModel], ErrorDetails, Path]] = [(PipelineConfig, each, ()) for each in details]
        for index, sink in enumerate(_sinks(self.tree)):
            model = self.option_models.get(str(sink.get("type")))
            options = sink.get("options", {})
            if model is not None and isinstance(options, dict):
                _, details = _validated(model, options)
                errors += [(model, each, ("sinks", index, "options")) for each in details]
        for path, transform in _transforms(self.tree):
            model, options = OPTIONS.get(str(transform.get("type"))), transform.get("options", {})
            if model is not None and isinstance(options, dict):
                _, details = _validated(model, options)
                errors += [(model, each, (*path, "options")) for each in details]
        return config, errors

    def _take_back_guesses(self, errors: list[tuple[type[BaseModel], ErrorDetails, Path]]) -> bool:
        taken_back = False
        for _, details, prefix in errors:
            path = (*prefix, *details["loc"])
            override = self.overridden.get(path)
            if override is None:
                continue
            if details["type"] == "SECRET_PLAIN" and override.variable:
                replace(self.tree, path, Secret("env", override.variable).reference)
            elif details["type"] in ("string_type", "SECRET_PLAIN"):
                replace(self.tree, path, override.text)
            else:
                continue
            taken_back = True
        return taken_back


def _validated(model: type[M], tree: object) -> tuple[M | None, list[ErrorDetails]]:
    """By way of JSON: there a strict model takes the text of an enumeration for its member."""
    try:
        return model.model_validate_json(json.dumps(tree)), []
    except ValidationError as error:
        return None, _details(error)


def _details(error: ValidationError) -> list[ErrorDetails]:
    """Without "too few entries" where the entries are there and refused themselves."""
    return [
        details
        for details in error.errors(include_url=False)
        if not (details["type"] == "too_short" and len(details["input"]) >= details["ctx"]["min_length"])
    ]


def _problem(model: type[BaseModel], details: ErrorDetails, prefix: Path) -> Problem:
    location = details["loc"]
    keys = _keys_at(model, location[:-1]) if details["type"] == "extra_forbidden" else ()
    return problem_from({**details, "loc": (*prefix, *location)}, keys)


def _keys_at(model: type[BaseModel] | None, location: Path) -> tuple[str, ...]:
    for part in location:
        if model is None:
            return ()
        if isinstance(part, str):
            fields = {field.alias or name: field for name, field in model.model_fields.items()}
            model = _model_in(fields[part].annotation) if part in fields else None
    return () if model is None else tuple(field.alias or name for name, field in model.model_fields.items())


def _model_in(annotation: object) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for inner in get_args(annotation) if (found := _model_in(inner))), None)


def _sinks(tree: Mapping[str, Any]) -> list[dict[str, Any]]:
    sinks = tree.get("sinks")
    return [sink if isinstance(sink, dict) else {} for sink in sinks] if isinstance(sinks, list) else []


def _transforms(tree: Mapping[str, Any]) -> Iterator[tuple[Path, dict[str, Any]]]:
    owners: list[tuple[Path, Mapping[str, Any]]] = [((), tree)]
    owners += [(("sinks", index), sink) for index, sink in enumerate(_sinks(tree))]
    for path, owner in owners:
        found = owner.get("transforms")
        for index, transform in enumerate(found if isinstance(found, list) else ()):
            if isinstance(transform, dict):
                yield (*path, "transforms", index), transform


def _duplicate_names(tree: Mapping[str, Any]) -> Iterator[Problem]:
    seen: set[str] = set()
    for index, sink in enumerate(_sinks(tree)):
        name = sink.get("name")
        if isinstance(name, str) and name in seen:
            yield Problem(
                format_path(("sinks", index, "name")),
                code="SINK_DUPLICATE",
                reason="another sink has this name",
                remedy="Give each sink its own name: acks and cursors are kept by it.",
            )
        seen.add(str(name))


def _secret_problems(
    tree: Mapping[str, Any], environ: Mapping[str, str], sections: Collection[str] | None
) -> Iterator[Problem]:
    for path, secret in _secrets_in(tree, ()):
        if sections is not None and path[0] not in sections:
            continue
        try:
            secret.reveal(environ)
        except ConfigError as error:
            yield Problem(format_path(path), error.code, error.message, error.remedy)
        else:
            if secret.is_readable_by_others:
                logs.get("config").warning("secret_file_readable_by_others", path=secret.where)


def _secrets_in(value: object, path: Path) -> Iterator[tuple[Path, Secret]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _secrets_in(inner, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _secrets_in(inner, (*path, index))
    elif (secret := Secret.from_text(value)) is not None:
        yield path, secret


def _read(path: FilePath) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(MAX_BYTES + 1)
    except OSError as error:
        raise ConfigError(
            f"the configuration {path} cannot be read ({type(error).__name__})",
            code="CONFIG_UNREADABLE",
            remedy="Give the path of a pipeline.yaml with --config; the service's user must be able to read it.",
        ) from error


def _refused(problems: list[Problem]) -> ConfigError:
    ordered = tuple(sorted(set(problems), key=lambda problem: (problem.path, problem.code)))
    count = "one problem" if len(ordered) == 1 else f"{len(ordered)} problems"
    return ConfigError(
        f"the configuration is refused: {count}",
        code="CONFIG_INVALID",
        remedy="Mend what is listed; docs/reference/configuration.md describes every field.",
        problems=ordered,
    )
