"""The child of `apart.py`: checks a configuration, writes it or the refusal to stdout, and ends.

Invariant: what it writes can be loaded without the validator. A value of any type that is not known to be light
arrives as its text.
"""

import pickle
import sys

from pydantic import BaseModel

from tidegate.config.apart import Section
from tidegate.config.base import Bytes, Model
from tidegate.config.load import load_pipeline
from tidegate.errors import TidegateError
from tidegate.observability import logs

_LIGHT = {"builtins", "datetime", "tidegate.config.values", "tidegate.config.secret", "tidegate.config.tables"}


def main() -> None:
    service, secrets, path, *overrides = sys.argv[1:]
    logs.configure(service)
    sys.stdout.buffer.write(pickle.dumps(_outcome(path, overrides, secrets.split(","))))


def _outcome(path: str, overrides: list[str], secrets: list[str]) -> object:
    try:
        return plain(load_pipeline(path, overrides, secrets=secrets))
    except TidegateError as error:
        return error


def plain(value: object) -> object:
    if isinstance(value, BaseModel):
        names = [*type(value).model_fields, *_properties(type(value))]
        return Section({name: plain(getattr(value, name)) for name in names})
    if isinstance(value, dict):
        return {key: plain(inner) for key, inner in value.items()}
    if type(value) is tuple:
        return tuple(plain(inner) for inner in value)
    if isinstance(value, Bytes):
        return int(value)
    return value if type(value).__module__ in _LIGHT else str(value)


def _properties(model: type[BaseModel]) -> list[str]:
    """Those of ours; the base class has its own."""
    ours = [cls for cls in model.__mro__ if issubclass(cls, Model) and cls is not Model]
    return [name for cls in ours for name, member in vars(cls).items() if isinstance(member, property)]


if __name__ == "__main__":
    main()
