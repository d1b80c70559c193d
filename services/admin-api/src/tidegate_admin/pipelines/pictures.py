"""What is told of pipelines, as text: a look is rendered once, however many ask, and only in ways that are asked for.

Invariant: a text is of one look as a whole. Of a thousand lanes only texts are kept, not what they were made from: the
garbage collector would go over that again and again, and nobody is answered meanwhile.
"""

from collections.abc import Callable
from time import monotonic

from tidegate_admin.pipelines.schemas import PipelineModel
from tidegate_admin.pipelines.service import PipelineView

FOLLOWED_SECONDS = 10.0
"""The page asks every second; scripts and dashboards less often."""

Rendering = Callable[[PipelineModel], str]


class Pictures:
    def __init__(self, model: Callable[[PipelineView], PipelineModel]) -> None:
        self._model = model
        self._texts: dict[str, dict[Rendering, tuple[PipelineView, str]]] = {}
        self._asked: dict[str, dict[Rendering, float]] = {}

    def text(self, view: PipelineView, rendering: Rendering) -> str:
        self._asked.setdefault(view.name, {})[rendering] = monotonic()
        known = self._texts.setdefault(view.name, {}).get(rendering)
        if known is None or known[0] is not view:
            known = self._texts[view.name][rendering] = (view, rendering(self._model(view)))
        return known[1]

    def renew(self, view: PipelineView) -> None:
        """After a look: who asks for all pipelines would else wait until all are rendered."""
        now = monotonic()
        followed = [way for way, asked in self._asked.get(view.name, {}).items() if now - asked < FOLLOWED_SECONDS]
        model = self._model(view) if followed else None
        self._texts[view.name] = {} if model is None else {way: (view, way(model)) for way in followed}
