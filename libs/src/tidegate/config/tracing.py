"""Where spans of sampled transactions go."""

from typing import Annotated

from pydantic import AfterValidator, Field, StringConstraints, ValidationInfo, field_validator

from tidegate.config.base import Model, url_parts
from tidegate.config.problems import refuse
from tidegate.config.secret import Secret


def _endpoint(value: str) -> str:
    parts, port = url_parts(value)
    if "@" in value:
        raise refuse(
            code="CREDENTIALS_IN_URL",
            reason="a password in an address ends up in logs and process lists",
            remedy="Remove it and set headers: {authorization: ${env:OTLP_AUTHORIZATION}}.",
        )
    is_plain = value.isascii() and value.isprintable() and " " not in value and "\\" not in value
    wrong = parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment
    if wrong or not is_plain or port == 0:
        raise refuse(
            code="TRACING_ENDPOINT",
            reason="not of the form http://collector:4318",
            remedy="Write scheme, host and port of the collector's OTLP over HTTP; /v1/traces is added.",
        )
    return value


# A field's name in HTTP (RFC 9110, 5.6.2).
HeaderName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9!#$%&'*+.^_`|~-]+$", max_length=100)]


class TracingConfig(Model):
    endpoint: Annotated[str, AfterValidator(_endpoint)] = Field(
        max_length=512,
        description="The collector, `http://collector:4318` or `https://…`: OTLP over HTTP, as protobuf.",
    )
    ratio: float = Field(
        0.001,
        gt=0,
        le=1,
        description="Share of transactions that are sampled, more than 0. Which ones, their commit LSN alone says.",
    )
    headers: dict[HeaderName, Secret] = Field(
        default_factory=dict, max_length=20, description="Sent with the spans, each a secret."
    )
    ca: str | None = Field(
        None, min_length=1, description="Certificates of the authorities to trust (PEM file); with `https` only."
    )

    @field_validator("ca")
    @classmethod
    def _tls_is_on(cls, ca: str | None, info: ValidationInfo) -> str | None:
        if ca is not None and str(info.data.get("endpoint", "https:")).startswith("http:"):
            raise refuse(
                code="TRACING_TLS",
                reason="certificates are given, but the address is not encrypted",
                remedy="Write https:// in endpoint.",
            )
        return ca
