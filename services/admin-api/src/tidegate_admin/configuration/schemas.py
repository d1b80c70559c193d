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
