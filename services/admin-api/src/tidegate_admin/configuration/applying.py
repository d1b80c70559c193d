"""Applies a configuration: judged, compared, kept as a version, then written to the file that services read.

They read it when they start, and again when it has changed: transforms, routes, and sinks that come or go take effect
at once, if nothing else has changed with them. What it takes stands in each change. A lane changes at the frame where
it was drained, and its cursor says under which configuration it has delivered; its status says so too, so one sees
which lanes follow still.
"""

from http import HTTPStatus
from typing import Any

import yaml

from tidegate.clock import unix_microseconds
from tidegate.config.epoch import config_epoch, lane_epoch
from tidegate.config.pipeline import PipelineConfig
from tidegate.errors import ConfigError
from tidegate_admin.configuration.schemas import Candidate, Change
from tidegate_admin.configuration.service import changes, is_fixed, read
from tidegate_admin.configuration.versions import Version, Versions, digest_of
from tidegate_admin.errors import ApiError
from tidegate_admin.pipelines.service import PipelineView


def text_of(candidate: Candidate) -> str:
    if candidate.text is not None:
        return candidate.text
    return yaml.safe_dump(candidate.document, sort_keys=False, allow_unicode=True)


def apply(
    versions: Versions, wanted: PipelineConfig, text: str, seen: str, by: str, view: PipelineView | None
) -> tuple[Version, list[Change]]:
    """`seen`: the epoch or the digest of what the caller believes to be in the file."""
    with versions.changing():
        before = versions.text()
        now = written(before)
        if seen not in (digest_of(before), config_epoch(now)):
            raise ApiError(
                HTTPStatus.PRECONDITION_FAILED,
                "the configuration's file has been changed meanwhile",
                code="CONFIGURATION_CHANGED",
                remedy="GET …/configuration/versions, look at what is different, and give its digest in If-Match.",
            )
        found = changes(now, wanted)
        fixed = [change.path for change in found if is_fixed(change.path)]
        if fixed:
            raise ApiError(
                HTTPStatus.CONFLICT,
                f"{fixed[0]} cannot be changed: that would be another pipeline",
                code="CONFIGURATION_FIXED",
                remedy="Make a file of its own for it; lanes and slot of this one stay as they are.",
            )
        kept = versions.listed()
        number = kept[0].number + 1 if kept else 1
        offset = view.reader.status.raw_offset if view and view.reader.status else None
        if not any(version.digest == digest_of(before) for version in kept):
            versions.keep(_version(number, before, now, "(file)", None))
            number += 1
        new = _version(number, text, wanted, by, offset)
        versions.keep(new)
        versions.put(text)
    return new, found


def following(wanted: PipelineConfig, view: PipelineView | None) -> dict[str, bool]:
    """Of each lane, whether it delivers as the file says now."""
    running = {lane.sink: lane.status.config_epoch for lane in view.lanes if lane.status} if view else {}
    return {sink.name: running.get(sink.name) == lane_epoch(wanted, sink.name) for sink in wanted.sinks}


def written(text: str) -> PipelineConfig:
    try:
        return read(Candidate(text=text))
    except ConfigError as error:
        raise ApiError(
            HTTPStatus.CONFLICT,
            "what stands in the configuration's file is no configuration",
            code="CONFIGURATION_BROKEN",
            remedy="Mend it by hand: `tidegate validate` says what is wrong.",
        ) from error


def _version(number: int, text: str, config: PipelineConfig, by: str, raw_offset: int | None) -> Version:
    return Version(number, digest_of(text), config_epoch(config), by, unix_microseconds(), raw_offset, text)


def of_number(versions: Versions, number: int) -> Version:
    found: dict[int, Any] = {version.number: version for version in versions.listed()}
    if number not in found:
        raise ApiError(
            HTTPStatus.NOT_FOUND,
            "there is no such version",
            code="CONFIGURATION_VERSION_UNKNOWN",
            remedy="GET …/configuration/versions lists those that are kept.",
        )
    version: Version = found[number]
    return version
