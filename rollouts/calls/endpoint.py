"""Where models are called, and how patiently. Holds no key: only the name of the variable that has it."""

from __future__ import annotations

import math
import os
import socket
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from rollouts.errors import UsageError

OPENAI_URL = "https://api.openai.com/v1"
NO_KEY = "none"
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An OpenAI-compatible endpoint: `base_url` up to and with `/v1`. Safe to print, store and send to other nodes.

    The key is read where the call is made, each time, and kept nowhere: from the file `key_file`, where it has a line
    `key_env=…`, else from the variable `key_env`.
    """

    base_url: str
    key_env: str = "OPENAI_API_KEY"
    key_file: str | None = None

    def __post_init__(self) -> None:
        parts = urlsplit(self.base_url)
        if parts.username or parts.password or parts.query or parts.fragment:
            raise UsageError("the endpoint's URL carries credentials or a query: put the key into OPENAI_API_KEY")
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise UsageError(f"endpoint {self.base_url!r}: wants http(s)://host[:port]/v1")

    @classmethod
    def from_environment(cls, base_url: str | None = None, key_file: str | None = None) -> Endpoint | None:
        """`base_url`, else OPENAI_BASE_URL, else OpenAI itself where OPENAI_API_KEY is set, or `key_file` named; None:
        no endpoint."""
        url = base_url or os.environ.get("OPENAI_BASE_URL", "").strip()
        if not (url or key_file or os.environ.get("OPENAI_API_KEY", "").strip()):
            return None
        return cls((url or OPENAI_URL).rstrip("/"), key_file=key_file)

    @property
    def is_loopback(self) -> bool:
        return urlsplit(self.base_url).hostname in _LOOPBACK

    def check_listens(self, limit_s: float = 5.0) -> None:
        """Raise `UsageError` where nobody listens at the address or it has no host; silence and proxies are let pass.

        An endpoint that is not there would leave everything that it is asked for without an answer.
        """
        parts = urlsplit(self.base_url)
        scheme, host = parts.scheme, parts.hostname or ""
        if not self.is_loopback and scheme in getproxies() and not proxy_bypass(host):
            return
        try:
            socket.create_connection((host, parts.port or (443 if scheme == "https" else 80)), limit_s).close()
        except (ConnectionRefusedError, socket.gaierror) as error:
            reason = error.strerror or type(error).__name__
            raise UsageError(f"the endpoint {self.base_url} is not there: {reason}") from None
        except OSError:
            return

    def lane(self, model: str) -> str:
        """Requests of one lane share an endpoint's limits and habits (see `Order.lane`)."""
        return f"{self.base_url} {model}"

    def read_key(self) -> str:
        """The key, or `none` for endpoints that want none. Raises `UsageError` where OpenAI itself gets none, or the
        file of keys cannot be read."""
        key = find_key(self.key_env, self.key_file)
        if not key and self.base_url == OPENAI_URL:
            raise UsageError(f"{OPENAI_URL} wants a key: set {self.key_env}, or --base-url to an endpoint of your own")
        if not (key.isascii() and key.isprintable()) or " " in key:
            raise UsageError(f"{self.key_env} holds characters that no key has")
        return key or NO_KEY


def find_key(name: str, file: str | None = None) -> str:
    """The key of that name, from a line `NAME=key` of the file or else from the environment; empty where there is none.

    Errors: `UsageError` where the file cannot be read; its contents are never part of the message.
    """
    try:
        lines = Path(file).read_text(encoding="utf-8").splitlines() if file else []
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise UsageError(f'file of keys "{file}" on {socket.gethostname()}: {reason}') from None
    named = (line.strip().removeprefix("export ").partition("=") for line in lines)
    held = {key.strip(): value.strip().strip("\"'") for key, _, value in named}
    return held.get(name) or os.environ.get(name, "").strip()


@dataclass(frozen=True, slots=True)
class CallSettings:
    """How patiently one call is made.

    `time_limit_s` is for a whole request, from connecting to the last byte. At most `tries` requests fail before the
    call does (what an endpoint refuses to understand is mended without counting), and none is begun once the call has
    taken `patience_s`. Between failures: `pause_s`, doubled
    each time up to `pause_cap_s`, with jitter; at least as long as a Retry-After asks, up to `retry_after_cap_s`.
    `reply_tokens` is what is set aside for a reply without max_tokens. What is `required` is never dropped: where the
    endpoint refuses it the call fails with `<name>_refused` (names as in `dialect.LESSONS`). Failures of a `mendable`
    kind are answered by the caller with another request: to the limiter they say nothing about the endpoint.
    """

    time_limit_s: float = 60.0
    tries: int = 6
    patience_s: float = math.inf
    pause_s: float = 0.5
    pause_cap_s: float = 30.0
    retry_after_cap_s: float = 60.0
    reply_tokens: int = 1024
    required: frozenset[str] = frozenset({"logprobs"})
    mendable: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        if not 0 < self.time_limit_s < float("inf"):
            raise UsageError(f"time limit of a request {self.time_limit_s}: must be above 0 seconds")
        if self.tries < 1:
            raise UsageError(f"tries {self.tries}: must be 1 or more")
        if min(self.pause_s, self.pause_cap_s, self.retry_after_cap_s) < 0:
            raise UsageError("pauses between tries must be 0 or more seconds")
