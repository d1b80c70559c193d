"""The chart's values.schema.json: its own values, and in `pipelines[].config` the schema of a pipeline's file.

Invariant: an unknown key is refused at every level that the chart reads, so that a typing mistake never installs.
"""

import json
from pathlib import Path
from typing import Any

from pages import pipeline_schema

PATH = "helm/tidegate/values.schema.json"

Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
SOME: Schema = {"type": "string", "minLength": 1}
FLAG: Schema = {"type": "boolean"}
NAMES: Schema = {"type": "object", "additionalProperties": {"type": "string"}}
FREE: Schema = {"type": "object"}
OBJECTS: Schema = {"type": "array", "items": {"type": "object"}}
PORT: Schema = {"type": "integer", "minimum": 1, "maximum": 65535}
PORTS: Schema = {"type": "array", "items": PORT}
SECONDS: Schema = {"type": "integer", "minimum": 1, "maximum": 3600}
QUANTITY: Schema = {"type": "string", "pattern": r"^[0-9]+(\.[0-9]+)?(Ki|Mi|Gi|Ti|k|M|G|T)?$"}

JVM_SIZE: Schema = {"type": "string", "pattern": "^[0-9]+[mg]$"}


def render(root: Path) -> str:
    config = json.loads(pipeline_schema.render(root))
    definitions = config.pop("$defs", {})
    schema = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Values of the chart tidegate",
        **_object(_values(_config(config))),
        "allOf": [_ADMIN_NEEDS_TOKENS, _ADMIN_NEEDS_KEYS, _MONITOR_NEEDS_TOKEN],
        "definitions": definitions,
    }
    text = json.dumps(schema, indent=1, ensure_ascii=False)
    return text.replace('"#/$defs/', '"#/definitions/') + "\n"


def _config(config: Schema) -> Schema:
    """Without the name, which the entry gives."""
    given = {name: value for name, value in config["properties"].items() if name != "pipeline"}
    required = [name for name in config["required"] if name != "pipeline"]
    return {"type": "object", "properties": given, "required": required, "additionalProperties": False}


def _values(config: Schema) -> Schema:
    return {
        "global": FREE,
        "imageRegistry": {"type": "string", "pattern": "^(|.+/)$"},
        "imagePullPolicy": {"enum": ["Always", "IfNotPresent", "Never"]},
        "imagePullSecrets": {"type": "array", "items": TEXT},
        "nameOverride": TEXT,
        "fullnameOverride": TEXT,
        "commonLabels": NAMES,
        "pipelines": {"type": "array", "items": _pipeline(config)},
        "reader": _object(_settings()),
        "processor": _object(_settings() | _PROCESSOR),
        "admin": _object(_settings() | _ADMIN),
        "serviceAccount": _object({"create": FLAG, "name": TEXT, "annotations": NAMES}),
        "podDisruptionBudget": _object({"enabled": FLAG, "maxUnavailable": {"type": ["integer", "string"]}}),
        "networkPolicy": _object({"enabled": FLAG, "ingressFrom": OBJECTS, "egressTo": OBJECTS, "ports": _PORTS}),
        "metrics": _object(_METRICS),
        "retired": {"type": "array", "items": SOME},
        "uninstall": _object({"slots": {"enum": ["ask", "drop", "keep"]}}),
        "extraObjects": OBJECTS,
    }


_OF_SERVICES: Schema = {
    "anyOf": [
        TEXT,
        {
            "type": "object",
            "properties": dict.fromkeys(("reader", "processor", "admin"), SOME),
            "additionalProperties": False,
        },
    ],
    "required": ["reader", "processor"],
}
"""One key, or one for each service; the admin service's too, where there is one (`_ADMIN_NEEDS_KEYS`)."""


_TAKEN = "^(slots|dashboard-.*|.*-spark)$"
"""The release has objects of its own by these names."""


_PASSWORD_NEEDS_LOGIN: Schema = {
    "if": {"required": ["secretKeys"], "properties": {"secretKeys": {"required": ["kafka"]}}},
    "then": {
        "properties": {
            "config": {
                "properties": {
                    "kafka": {
                        "required": ["security"],
                        "properties": {
                            "security": {
                                "required": ["protocol", "mechanism"],
                                "properties": {"protocol": {"enum": ["SASL_PLAINTEXT", "SASL_SSL"]}},
                            }
                        },
                    }
                }
            }
        }
    },
}
"""A password for Kafka goes with SASL alone: the services refuse another. The user may come by `extraEnv`."""


def _pipeline(config: Schema) -> Schema:
    keys = _object({"source": TEXT, "redis": _OF_SERVICES, "kafka": _OF_SERVICES, "sinks": NAMES})
    entry = _object(
        {
            "name": {"type": "string", "pattern": "^[a-z]([a-z0-9-]{0,28}[a-z0-9])?$", "not": {"pattern": _TAKEN}},
            "paused": FLAG,
            "existingSecret": TEXT,
            "secretKeys": keys,
            "config": config,
            "reader": _object(_settings()),
            "processor": _object(_settings() | _PROCESSOR),
        }
    )
    needed = {"required": ["name", "config"], "dependencies": {"secretKeys": ["existingSecret"]}}
    return entry | needed | _PASSWORD_NEEDS_LOGIN


def _settings() -> Schema:
    return {
        "image": _object({"repository": TEXT, "tag": TEXT, "digest": {"type": "string", "pattern": "^(|sha256:.+)$"}}),
        "resources": FREE,
        "terminationGracePeriodSeconds": SECONDS,
        "podAnnotations": NAMES,
        "podLabels": NAMES,
        "nodeSelector": NAMES,
        "tolerations": OBJECTS,
        "affinity": FREE,
        "topologySpreadConstraints": OBJECTS,
        "priorityClassName": TEXT,
        "extraEnv": OBJECTS,
        "extraVolumes": OBJECTS,
        "extraVolumeMounts": OBJECTS,
    }


def _object(properties: Schema) -> Schema:
    return {"type": "object", "properties": properties, "additionalProperties": False}


_ADMIN = {
    "enabled": FLAG,
    "tokens": _object({"existingSecret": TEXT, "key": TEXT}),
    "service": _object(
        {"type": {"enum": ["ClusterIP", "NodePort", "LoadBalancer"]}, "port": PORT, "annotations": NAMES}
    ),
    "ingress": _object({"enabled": FLAG, "className": TEXT, "annotations": NAMES, "host": TEXT, "tlsSecret": TEXT}),
}
_PORTS = _object({"dns": PORT, "source": PORTS, "kafka": PORTS, "redis": PORTS, "sinks": PORTS, "kubernetes": PORTS})
_PROCESSOR = {
    "scratchSize": QUANTITY,
    "executors": _object(
        {
            "count": {"type": "integer", "minimum": 1, "maximum": 64},
            "cpu": {"type": "string", "pattern": r"^[0-9]+m?$"},
            "heap": JVM_SIZE,
            "overhead": JVM_SIZE,
            "secret": _object({"existingSecret": TEXT, "key": SOME}),
        }
    ),
}
_METRICS = {
    "monitors": _object({"enabled": FLAG, "interval": TEXT, "labels": NAMES}),
    "adminToken": _object({"existingSecret": TEXT, "key": TEXT}),
    "rules": _object({"enabled": FLAG, "labels": NAMES, "exclude": {"type": "array", "items": TEXT}}),
    "dashboards": _object({"enabled": FLAG, "label": TEXT, "labelValue": TEXT, "folder": TEXT}),
}
# The admin service refuses to be reachable without tokens: said before the install, not by a pod that never starts.
_ADMIN_NEEDS_TOKENS = {
    "if": {
        "properties": {
            "pipelines": {"minItems": 1},
            "admin": {"properties": {"enabled": {"const": True}}},
        }
    },
    "then": {"properties": {"admin": {"properties": {"tokens": {"properties": {"existingSecret": SOME}}}}}},
}
# Its pod would look for a password that is not mounted.
_ADMIN_NEEDS_KEYS = {
    "if": {"properties": {"admin": {"properties": {"enabled": {"const": True}}}}},
    "then": {
        "properties": {
            "pipelines": {
                "items": {
                    "properties": {
                        "secretKeys": {"properties": {key: {"required": ["admin"]} for key in ("redis", "kafka")}}
                    }
                }
            }
        }
    },
}
_MONITOR_NEEDS_TOKEN = {
    "if": {
        "properties": {
            "metrics": {"properties": {"monitors": {"properties": {"enabled": {"const": True}}}}},
            "admin": {"properties": {"enabled": {"const": True}}},
        }
    },
    "then": {"properties": {"metrics": {"properties": {"adminToken": {"properties": {"existingSecret": SOME}}}}}},
}
