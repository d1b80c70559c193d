"""How commands ask the admin service: one address, one token, problem documents as errors of ours.

Invariant: a token goes to the address it was given for and nowhere else: no redirect is followed, no proxy is used.
"""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from tidegate.errors import ConfigError, StreamError, TidegateError, TransientError

TOKEN_VARIABLE, TOKEN_FILE_VARIABLE = "TIDEGATE_TOKEN", "TIDEGATE_TOKEN_FILE"
_SECONDS = 30.0


class Client:
    def __init__(self, url: str, token: str | None) -> None:
        if not url.startswith(("http://", "https://")):
            raise ConfigError("--url is no http address", code="CLIENT_URL", remedy="Write http://127.0.0.1:8080.")
        token = token or _from_file(os.environ.get(TOKEN_FILE_VARIABLE))
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._url = url
        self._client = httpx.Client(base_url=url, headers=headers, timeout=_SECONDS, trust_env=False)

    def get(self, path: str, **query: Any) -> Any:  # JSON
        return self._ask("GET", path, params=_given(query))

    def post(self, path: str, body: object = None, headers: Mapping[str, str] | None = None) -> Any:  # JSON
        return self._ask("POST", path, json=body, headers=dict(headers or {}))

    def put(self, path: str, body: object, headers: Mapping[str, str]) -> Any:  # JSON
        return self._ask("PUT", path, json=body, headers=dict(headers))

    def delete(self, path: str) -> Any:  # JSON
        return self._ask("DELETE", path)

    def pages(self, path: str, limit: int | None = None, **query: Any) -> Iterator[dict[str, Any]]:
        """The items of a list, page by page as they are wanted."""
        cursor, left = None, limit
        while left is None or left > 0:
            page = self.get(path, cursor=cursor, **query)
            items = page["items"] if left is None else page["items"][:left]
            yield from items
            left = None if left is None else left - len(items)
            cursor = page.get("next_cursor")
            if not cursor:
                return

    @contextmanager
    def stream(self, path: str, headers: Mapping[str, str], **query: Any) -> Iterator[Iterator[str]]:
        """Lines for as long as the service sends them."""
        try:
            timeout = httpx.Timeout(_SECONDS, read=None)
            with self._client.stream(
                "GET", path, params=_given(query), headers=dict(headers), timeout=timeout
            ) as answer:
                if answer.status_code != httpx.codes.OK:
                    answer.read()
                    raise _refused(answer)
                yield answer.iter_lines()
        except httpx.HTTPError as error:
            raise self._unavailable(error) from error

    def _ask(self, method: str, path: str, **more: Any) -> Any:
        try:
            answer = self._client.request(method, path, **more)
        except httpx.HTTPError as error:
            raise self._unavailable(error) from error
        if not answer.is_success:
            raise _refused(answer)
        return answer.json() if answer.content else None

    def _unavailable(self, error: httpx.HTTPError) -> TransientError:
        return TransientError(
            f"the admin service at {self._url} did not answer ({type(error).__name__})",
            code="ADMIN_UNAVAILABLE",
            remedy="Start it, or name it with --url or TIDEGATE_URL; `tidegate status --config FILE` asks without it.",
        )


def _given(query: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in query.items() if value is not None}


def _refused(answer: httpx.Response) -> TidegateError:
    """The service's own words; by its status the exit code follows."""
    try:
        problem = answer.json()
        code, detail, remedy = str(problem["code"]), str(problem["detail"]), str(problem["remedy"])
        listed = [f"{each['pointer']}: {each['reason']}" for each in problem.get("errors", [])]
    except (json.JSONDecodeError, KeyError, TypeError):
        code, detail, remedy, listed = "ADMIN_UNKNOWN", f"the answer is no problem document ({answer})", "", []
    message = "; ".join([detail, *listed])
    if answer.status_code == httpx.codes.CONFLICT:
        return StreamError(message, code=code, remedy=remedy)
    if answer.is_client_error:
        return ConfigError(message, code=code, remedy=remedy)
    return TransientError(message, code=code, remedy=remedy)


def _from_file(path: str | None) -> str | None:
    """As secrets are mounted into containers."""
    if not path:
        return None
    try:
        return Path(path).read_text().strip()
    except OSError as error:
        raise ConfigError(
            f"the token's file can't be read ({error.strerror})",
            code="TOKEN_FILE",
            remedy=f"Give {TOKEN_FILE_VARIABLE} a file that you may read, or set {TOKEN_VARIABLE}.",
        ) from error
