"""What the probes answer."""

from pydantic import BaseModel

from tidegate.observability.health import State
from tidegate_admin.pipelines.schemas import ComponentModel


class Alive(BaseModel):
    state: State = State.UP


class Readiness(BaseModel):
    state: State
    components: dict[str, ComponentModel]
