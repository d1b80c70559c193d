"""The API described as a page, from its own OpenAPI document."""

from collections.abc import Mapping
from html import escape
from typing import Any


def render_reference(document: Mapping[str, Any]) -> str:
    """`Any`: OpenAPI as FastAPI builds it."""
    rows = "".join(
        _operation(method, path, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    )
    return f"""<section class="card"><div class="title"><h1>API</h1>
<p class="quiet">{escape(document["info"]["description"])}</p></div>
<p>As a document: <a href="/openapi.json">/openapi.json</a> (OpenAPI {escape(document["openapi"])}). Every refusal is
an <code>application/problem+json</code> with <code>code</code> and <code>remedy</code>.</p>
<ul class="operations">{rows}</ul></section>"""


def _operation(method: str, path: str, operation: Mapping[str, Any]) -> str:
    linked = f'<a href="{escape(path)}">{escape(path)}</a>' if "{" not in path else escape(path)
    return f"<li><code><b>{escape(method.upper())}</b> {linked}</code><br>{escape(operation['summary'])}</li>"
