"""Writes schemas for kubeconform, from Kubernetes' own OpenAPI document and from the CRDs that the chart uses.

    python tests/ship/kube_schemas.py INTO SWAGGER CRD…

One file a kind, `<kind>-<group's first part>-<version>.json`, complete in itself. Invariant: a field that Kubernetes
does not know is refused, as by `kubectl apply --validate=strict`.
"""

import json
import sys
from pathlib import Path
from typing import Any

import yaml

INT_OR_STRING = {"oneOf": [{"type": "string"}, {"type": "integer"}]}
# An enum of one CRD has "=", which YAML 1.1 takes for a type of its own.
yaml.SafeLoader.add_constructor("tag:yaml.org,2002:value", lambda _loader, node: node.value)


def main(into: Path, swagger: Path, crds: list[Path]) -> None:
    into.mkdir(parents=True, exist_ok=True)
    for name, schema in [*of_kubernetes(json.loads(swagger.read_text())["definitions"]), *of_crds(crds)]:
        (into / f"{name}.json").write_text(json.dumps(schema))


def of_kubernetes(definitions: dict[str, Any]) -> list[tuple[str, Any]]:
    strict = {name: _strict(schema) for name, schema in definitions.items()}
    return [
        (_name(kind["kind"], kind["group"], kind["version"]), {**strict[name], "definitions": _needed(name, strict)})
        for name, schema in definitions.items()
        for kind in schema.get("x-kubernetes-group-version-kind", ())
    ]


def of_crds(crds: list[Path]) -> list[tuple[str, Any]]:
    found = []
    for spec in (yaml.safe_load(path.read_text())["spec"] for path in crds):
        for version in spec["versions"]:
            schema = _strict(version["schema"]["openAPIV3Schema"])
            schema["properties"]["metadata"] = {"type": "object"}
            found.append((_name(spec["names"]["kind"], spec["group"], version["name"]), schema))
    return found


def _name(kind: str, group: str, version: str) -> str:
    return "-".join(part for part in (kind.lower(), group.partition(".")[0], version) if part)


def _strict(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_strict(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get("format") == "int-or-string" or schema.get("x-kubernetes-int-or-string") is True:
        return INT_OR_STRING
    # `properties` holds fields by their names, which may be `properties` or `format` themselves.
    done = {
        key: {name: _strict(each) for name, each in value.items()} if key == "properties" else _strict(value)
        for key, value in schema.items()
    }
    if done.get("type") == "object" and "properties" in done:
        done.setdefault("additionalProperties", False)
    return done


def _needed(name: str, definitions: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    todo = [name]
    while todo:
        for one in _references(definitions[todo.pop()]):
            if one not in found:
                found[one] = definitions[one]
                todo.append(one)
    return found


def _references(schema: Any) -> list[str]:
    if isinstance(schema, list):
        return [name for each in schema for name in _references(each)]
    if not isinstance(schema, dict):
        return []
    own = [schema["$ref"].rpartition("/")[2]] if isinstance(schema.get("$ref"), str) else []
    return [*own, *(name for value in schema.values() for name in _references(value))]


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), [Path(argument) for argument in sys.argv[3:]])
