"""The Redis that holds the acks."""

from typing import Annotated

from pydantic import AfterValidator, Field, ValidationInfo, field_validator

from tidegate.config.base import Model, url_parts
from tidegate.config.problems import refuse
from tidegate.config.secret import Secret


def _redis_url(value: str) -> str:
    parts, port = url_parts(value)
    if "@" in value:
        raise refuse(
            code="CREDENTIALS_IN_URL",
            reason="a password in an address ends up in logs and process lists",
            remedy="Remove it and set username and password: ${env:REDIS_PASSWORD}.",
        )
    number = parts.path.removeprefix("/") or "0"
    wrong = parts.scheme not in ("redis", "rediss") or not parts.hostname or parts.query or parts.fragment
    if wrong or port == 0 or not (number.isascii() and number.isdigit() and len(number) <= 5):
        raise refuse(
            code="REDIS_URL",
            reason="not of the form redis://host:6379/0",
            remedy="Use redis:// or, with TLS, rediss://; anything else has its own field.",
        )
    return value


class RedisTls(Model):
    ca: str | None = Field(None, min_length=1, description="Certificates of the authorities to trust (PEM file).")
    cert: str | None = Field(None, min_length=1, description="Our certificate (PEM file), if the server asks for one.")
    key: str | None = Field(None, min_length=1, description="The private key of `cert` (PEM file).")

    @field_validator("key")
    @classmethod
    def _key_belongs_to_cert(cls, key: str | None, info: ValidationInfo) -> str | None:
        if "cert" in info.data and (key is None) != (info.data["cert"] is None):
            raise refuse(
                code="TLS_KEY_PAIR", reason="cert and key belong together", remedy="Give both of them or neither."
            )
        return key


class RedisConfig(Model):
    url: Annotated[str, AfterValidator(_redis_url)] = Field(
        max_length=512, description="`redis://host:6379/0`, or `rediss://` for TLS (always verified)."
    )
    username: str | None = Field(None, min_length=1, description="ACL user.")
    password: Secret | None = Field(None, description="Password.")
    tls: RedisTls | None = Field(None, description="Files for TLS; with `rediss://` only.")

    @field_validator("tls")
    @classmethod
    def _tls_is_on(cls, tls: RedisTls | None, info: ValidationInfo) -> RedisTls | None:
        if tls is not None and str(info.data.get("url", "rediss:")).startswith("redis:"):
            raise refuse(
                code="REDIS_TLS",
                reason="TLS files are given, but the address is not encrypted",
                remedy="Write rediss:// in url.",
            )
        return tls
