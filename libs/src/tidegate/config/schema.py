"""JSON schema of a model, with defaults in the words of the file: `30s`, `256KiB`, `127.0.0.1:8080`."""

from datetime import timedelta
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema

from tidegate.config.base import Address, Bytes, format_duration, format_size


def json_schema(model: type[BaseModel]) -> dict[str, Any]:
    """Also for a sink's options: what the admin API and the reference pages show."""
    return model.model_json_schema(schema_generator=_InWordsOfTheFile)


class _InWordsOfTheFile(GenerateJsonSchema):
    def encode_default(self, dft: Any) -> Any:  # any field's default
        match dft:
            case timedelta():
                return format_duration(dft)
            case Bytes():
                return format_size(dft)
            case Address():
                return str(dft)
            case BaseModel():
                return dft.model_dump(mode="json", by_alias=True)
            case _:
                return super().encode_default(dft)
