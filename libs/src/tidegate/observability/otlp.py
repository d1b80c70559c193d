"""The collector, by OTLP over HTTP: the only module that knows OpenTelemetry (`tidegate[tracing]`).

Invariant: no redirect is followed, no more than `_ANSWER_BYTES` of an answer are read, a secret is read when it is sent
and kept nowhere; and what goes wrong is an answer, not an exception.
"""

import io
import logging
from collections.abc import Mapping, Sequence
from typing import Any

import requests
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, set_span_in_context

from tidegate.config.secret import Secret
from tidegate.config.tracing import TracingConfig
from tidegate.observability.tracing import Span

TIMEOUT_SECONDS = 10.0
_PATH = "/v1/traces"
_ANSWER_BYTES = 64 * 1024
_SAMPLED = TraceFlags(TraceFlags.SAMPLED)


class Collector:
    def __init__(
        self, config: TracingConfig, service: str, pipeline: str, timeout_seconds: float = TIMEOUT_SECONDS
    ) -> None:
        # It has a line for each batch and each try; ours says the same once.
        logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)
        self._ids, self._ended = _GivenIds(), _Ended()
        resource = Resource.create({"service.name": f"tidegate-{service}", "tidegate.pipeline": pipeline})
        provider = TracerProvider(ALWAYS_ON, resource, shutdown_on_exit=False, id_generator=self._ids)
        provider.add_span_processor(self._ended)
        self._tracer = provider.get_tracer("tidegate")
        self._exporter = OTLPSpanExporter(
            endpoint=config.endpoint.rstrip("/") + _PATH,
            certificate_file=config.ca,
            timeout=timeout_seconds,
            session=_Session(config.headers),
        )

    def take(self, spans: Sequence[Span]) -> bool:
        for span in spans:
            self._make(span)
        return self._exporter.export(self._ended.taken()) is SpanExportResult.SUCCESS

    def _make(self, span: Span) -> None:
        self._ids.trace_id, self._ids.span_id = span.trace_id, span.span_id
        context = Context()
        if span.parent_id:
            parent = SpanContext(span.trace_id, span.parent_id, is_remote=True, trace_flags=_SAMPLED)
            context = set_span_in_context(NonRecordingSpan(parent), context)
        made = self._tracer.start_span(span.name, context, attributes=span.attributes, start_time=span.start)
        made.end(span.end)


class _GivenIds(IdGenerator):
    trace_id = span_id = 0

    def generate_trace_id(self) -> int:
        return self.trace_id

    def generate_span_id(self) -> int:
        return self.span_id


class _Ended(SpanProcessor):
    def __init__(self) -> None:
        self._spans: list[ReadableSpan] = []

    def on_end(self, span: ReadableSpan) -> None:
        self._spans.append(span)

    def taken(self) -> list[ReadableSpan]:
        spans, self._spans = self._spans, []
        return spans


class _Session(requests.Session):
    def __init__(self, headers: Mapping[str, Secret]) -> None:
        super().__init__()
        self._secrets = headers
        self.auth = self._with_secrets

    def send(self, request: requests.PreparedRequest, **options: Any) -> requests.Response:  # as requests has it
        with super().send(request, **(options | {"allow_redirects": False, "stream": True})) as answer:
            if answer.is_redirect:
                raise requests.TooManyRedirects("a collector that is elsewhere is not followed")
            bounded = requests.Response()
            bounded.status_code, bounded.reason, bounded.headers = answer.status_code, answer.reason, answer.headers
            bounded.raw = io.BytesIO(answer.raw.read(_ANSWER_BYTES))
            return bounded

    def _with_secrets(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        """Read anew each time, so one that is rotated in its file is seen."""
        for name, secret in self._secrets.items():
            request.headers[name] = secret.reveal()
        return request
