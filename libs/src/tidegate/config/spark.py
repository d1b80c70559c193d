"""Further settings of Spark, as Spark names them. Those that hold a secret say where it is, as everywhere.

Invariant: what Spark itself would not show on its page is no value of a configuration either.
"""

import os
import re
from collections.abc import Mapping
from typing import Annotated

from pydantic import AfterValidator, StringConstraints

from tidegate.config.problems import refuse
from tidegate.config.secret import Secret

# Spark's own: spark.redaction.regex, and its default in org.apache.spark.internal.config (4.2).
_SECRET_NAME = re.compile(r"secret|password|token|access[.]?key", re.IGNORECASE)
# `spark.authenticate.secret.file`, `….oauthTokenFile`: where it is, in Spark's own way.
_NAMES_A_FILE = re.compile(r"file$", re.IGNORECASE)

_Name = Annotated[str, StringConstraints(pattern=r"^spark(\.[A-Za-z0-9_-]+)+$", max_length=200)]


def _without_secrets(settings: dict[str, str]) -> dict[str, str]:
    plain = [name for name, value in settings.items() if _is_secret(name) and Secret.from_text(value) is None]
    if plain:
        raise refuse(
            code="SECRET_PLAIN",
            reason=f"a secret is never written into the file: {', '.join(sorted(plain))}",
            remedy="Write ${env:NAME} or ${file:/absolute/path}.",
        )
    return settings


def _is_secret(name: str) -> bool:
    return _SECRET_NAME.search(name) is not None and _NAMES_A_FILE.search(name) is None


SparkSettings = Annotated[dict[_Name, str], AfterValidator(_without_secrets)]


def revealed(settings: Mapping[str, str], environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """For Spark alone: with secrets in place of where they are."""
    found = {name: (Secret.from_text(value), value) for name, value in settings.items()}
    return {name: value if secret is None else secret.reveal(environ) for name, (secret, value) in found.items()}
