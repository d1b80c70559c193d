"""`tidegate validate`: the same pass that the services make, told for people or programs."""

from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from tidegate.config.load import load_pipeline
from tidegate.errors import ConfigError, ExitCode
from tidegate_admin.cli import output


def run(file: Path, overrides: list[str], *, secrets: bool, as_json: bool) -> int:
    try:
        config = load_pipeline(file, overrides, option_models=_option_models(), secrets=None if secrets else ())
    except ConfigError as error:
        if as_json:
            output.json(_refused(error))
        else:
            output.failure(error)
        return ExitCode.CONFIGURATION
    if as_json:
        output.json({"valid": True, "pipeline": config.pipeline, "problems": []})
    else:
        sinks = ", ".join(f"{sink.name} ({sink.type})" for sink in config.sinks)
        output.data().print(f"{file}: in order. Pipeline {config.pipeline}, sinks {sinks}", highlight=False)
    return ExitCode.CLEAN


def _option_models() -> dict[str, Any]:
    """Of the sinks that are installed here: the processor announces them, and this service imports none of its code."""
    return {found.name: found.load() for found in entry_points(group="tidegate.sink_options")}


def _refused(error: ConfigError) -> dict[str, object]:
    problems = [
        {"path": problem.path, "code": problem.code, "reason": problem.reason, "remedy": problem.remedy}
        for problem in error.problems
    ]
    return {"valid": False, "code": error.code, "message": error.message, "remedy": error.remedy, "problems": problems}
