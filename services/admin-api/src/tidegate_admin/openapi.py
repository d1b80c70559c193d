"""The OpenAPI document as FastAPI builds it, with what FastAPI cannot be told.

Invariant: a problem is described under the media type it is sent with, each operation says which scope it asks for, and
the order is that of the paths, so that the document changes only where the API does.
"""

from collections.abc import Iterable
from typing import Any

from fastapi import FastAPI
from fastapi.routing import APIRoute

from tidegate_admin.errors import MEDIA_TYPE
from tidegate_admin.security.scopes import Open, scope_of

_PROBLEM = {"$ref": "#/components/schemas/ProblemDocument"}
_SCHEMES = {
    "token": {"type": "http", "scheme": "bearer", "description": "Made by `tidegate token create`."},
    "password": {"type": "http", "scheme": "basic", "description": "For browsers: any user, the token as password."},
}


def document(app: FastAPI, routes: Iterable[APIRoute]) -> dict[str, Any]:
    """`Any`: JSON."""
    described = FastAPI.openapi(app)
    scopes = {
        (route.path_format, method.lower()): scope_of(route.endpoint)
        for route in routes
        for method in route.methods or ()
    }
    for path, operations in described["paths"].items():
        for method, operation in operations.items():
            _finish(operation, scopes[path, method])
    described.setdefault("components", {})["securitySchemes"] = _SCHEMES
    return described


def _finish(operation: dict[str, Any], scope: object) -> None:
    operation["responses"]["default"]["content"] = {MEDIA_TYPE: {"schema": _PROBLEM}}
    if not isinstance(scope, Open):
        operation["security"] = [{"token": []}, {"password": []}]
        operation["x-scope"] = scope
