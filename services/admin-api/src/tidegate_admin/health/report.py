"""What /readyz answers, as text: there may be a thousand parts, and a probe asks for all of them.

Invariant: it is what the parts are at this moment. Only the text of a part is kept, and only for as long as the part
says the same.
"""

import json

from tidegate.observability.health import Component, Health
from tidegate_admin.pipelines.schemas import ComponentModel


class Report:
    def __init__(self, health: Health) -> None:
        self._health = health
        self._texts: dict[str, tuple[Component, str]] = {}

    def text(self) -> str:
        parts = ",".join(self._part(name, component) for name, component in self._health.components.items())
        return f'{{"state":"{self._health.state}","components":{{{parts}}}}}'

    def _part(self, name: str, component: Component) -> str:
        known = self._texts.get(name)
        if known is None or known[0] is not component:
            text = f"{json.dumps(name)}:{ComponentModel.of(component).model_dump_json()}"
            known = self._texts[name] = (component, text)
        return known[1]
