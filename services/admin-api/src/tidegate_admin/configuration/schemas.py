"""What the API says of configurations, and takes to judge one."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from tidegate_admin.errors import FieldProblem


class ConfigurationModel(BaseModel):
    pipeline: str
    epoch: str = Field(description="Names what the configuration means; also the ETag.")
    document: dict[str, Any] = Field(description="As it is in force. A secret is where it is, never what it is.")


class Candidate(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    text: str | None = Field(None, max_length=1_000_000, description="As YAML.")
    document: dict[str, Any] | None = Field(None, description="As JSON. One of the two.")


class Verdict(BaseModel):
    valid: bool
    problems: list[FieldProblem] = Field(default_factory=list)


class Change(BaseModel):
    path: str
    before: Any = None
    after: Any = None
    effect: str = Field(description="What has to happen for it to be in force.")


class Difference(BaseModel):
    valid: bool
    problems: list[FieldProblem] = Field(default_factory=list)
    changes: list[Change] = Field(default_factory=list)
    epoch_before: str
    epoch_after: str | None = None
    lanes: list[str] = Field(default_factory=list, description="Lanes whose events would look different.")


class Apply(Candidate):
    confirm: str = Field(max_length=64, description="The pipeline's name, typed again.")


class Restore(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    confirm: str = Field(max_length=64, description="The pipeline's name, typed again.")


class VersionModel(BaseModel):
    number: int
    digest: str = Field(description="Of its text.")
    epoch: str = Field(description="Names what it means.")
    by: str
    time: int = Field(description="Unix microseconds.")
    raw_offset: int | None = Field(description="The last frame that the raw topic had when it was applied.")
    is_in_file: bool


class VersionDetails(VersionModel):
    text: str


class VersionList(BaseModel):
    digest: str = Field(description="Of the file as it is now; for If-Match.")
    epoch: str | None = Field(description="What the file means; null: it is no configuration.")
    in_force: str = Field(description="What this service was started with.")
    lanes: dict[str, bool] = Field(description="Whether each lane delivers as the file says.")
    items: list[VersionModel]


class Applied(BaseModel):
    version: VersionModel
    changes: list[Change] = Field(description="Each with what it takes to be in force.")
