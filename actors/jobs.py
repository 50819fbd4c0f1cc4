"""Jobs of a Ray cluster, by the address of its dashboard. Every request has a time limit: a cluster that is not there,
or does not let us in, is said in seconds.

Imports Ray only when it is called, since Ray reads its environment when it is imported.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from actors.entry_check import check_versions, find_token
from rollouts.errors import RolloutsError, UsageError
from rollouts.scrub import describe_error, scrub

CONNECT_S, FIRST_S, PATIENCE_S = 4.0, 5.0, 60.0
"""For a connection, for the first answers, and for each later one: who answered at first may be busy."""
LOOK_S = 0.5
TAIL_TRIES = 5
_KILLED_BY_STOP = 128 + 15
_OTHERS = ("RAY_ADDRESS", "RAY_API_SERVER_ADDRESS")


@dataclass(frozen=True, slots=True)
class Job:
    """What is sent: Ray stores it all, and shows it to whoever may look. `package` is a zip file of the working dir."""

    command: str
    package: Path
    environment: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class JobEnd:
    """`state` as Ray says it (SUCCEEDED, FAILED, STOPPED); `exit_code` that of the job's own process, None where it has
    none; `message`: what Ray says about it."""

    state: str
    exit_code: int | None
    message: str

    @property
    def code(self) -> int:
        """As a shell has it: 128 + n after signal n, also where Ray was told to stop the job."""
        if self.exit_code is None:
            return _KILLED_BY_STOP if self.state == "STOPPED" else int(self.state != "SUCCEEDED")
        return self.exit_code if self.exit_code >= 0 else 128 - self.exit_code


class Jobs:
    """The jobs of the cluster whose dashboard is at `address`.

    Errors of every method: `UsageError` where nobody is there, the token is refused, or there is no such job.
    """

    def __init__(self, address: str) -> None:
        """Errors also where Ray or Python there are of another version than here."""
        self.address = _checked(address)
        for name in _OTHERS:
            os.environ.pop(name, None)  # Ray takes them for more than the address that it is given
        find_token()
        with self._blamed():
            self._client = _client(self.address)
            there = self._client._do_request("GET", "/api/v0/cluster_metadata")
            told = there.json().get("data", {}) if there.status_code == 200 else {}
            check_versions(f"Ray at {self.address}", self._client._server_ray_version, told.get("pythonVersion"), 2)
            self._client.limit_s = PATIENCE_S

    def submit(self, job: Job) -> str:
        """Send it; returns its id."""
        environment = {"working_dir": str(job.package), "env_vars": dict(job.environment)}
        with self._blamed():
            return str(self._client.submit_job(entrypoint=job.command, runtime_env=environment))

    def follow(self, job: str, write: Callable[[str], None]) -> JobEnd:
        """Hand on all that the job prints until it has ended. Errors also where the cluster is lost meanwhile."""
        asyncio.run(self._tail(job, write))
        return self.wait(job)

    def wait(self, job: str, limit_s: float = float("inf")) -> JobEnd:
        """Wait until it has ended. Errors: `RolloutsError` where it has not after `limit_s`."""
        over = time.monotonic() + limit_s
        while (end := self.end(job)) is None:
            if time.monotonic() > over:
                raise RolloutsError(f"job {job} has been told to stop and has not ended after {limit_s:.0f} s")
            time.sleep(LOOK_S)
        return end

    def end(self, job: str) -> JobEnd | None:
        """How it ended; None while it goes on."""
        with self._blamed(job):
            found = self._client.get_job_info(job)
        if not found.status.is_terminal():
            return None
        return JobEnd(found.status.value, found.driver_exit_code, scrub(found.message or ""))

    def stop(self, job: str) -> bool:
        """Tell it to stop (SIGTERM); False where it has ended already."""
        with self._blamed(job):
            return bool(self._client.stop_job(job))

    def log(self, job: str) -> str:
        """All that it has printed."""
        with self._blamed(job):
            return str(self._client.get_job_logs(job))

    async def _tail(self, job: str, write: Callable[[str], None]) -> None:
        """A connection that breaks is made anew; what was handed on already is passed over."""
        import aiohttp  # noqa: PLC0415  comes with Ray

        written, lost = 0, ""
        for turn in range(TAIL_TRIES):
            chunks, seen, lost = self._client.tail_job_logs(job), 0, ""
            while not lost:
                try:
                    chunk = await anext(chunks)
                except StopAsyncIteration:
                    return
                except (RuntimeError, OSError, aiohttp.ClientError) as error:
                    lost = describe_error(error)
                else:
                    write(chunk[max(0, written - seen) :])
                    seen += len(chunk)
                    written = max(written, seen)
            await asyncio.sleep(LOOK_S * 2**turn)
        raise RolloutsError(f"lost sight of job {job}, which may go on: {lost}")

    @contextmanager
    def _blamed(self, job: str | None = None) -> Iterator[None]:
        """Whatever a request can end in, as one line."""
        from ray.exceptions import AuthenticationError  # noqa: PLC0415  see above

        try:
            yield
        except AuthenticationError as error:
            raise UsageError(_refused(self.address, str(error))) from None
        except (ValueError, LookupError, TypeError) as error:  # what is no JSON too, which is an OSError besides
            raise UsageError(f"{self.address} is not the dashboard of a Ray cluster: {describe_error(error)}") from None
        except OSError as error:
            raise UsageError(f"no Ray dashboard answers at {self.address}: {_why(error)}") from None
        except RuntimeError as error:
            if job is not None and "status code 404" in str(error):
                raise UsageError(f"{self.address} has no job {job!r}: rollouts submit printed its id") from None
            raise UsageError(f"Ray at {self.address}: {scrub(str(error))}") from None


def _checked(address: str) -> str:
    """Errors: `UsageError` for what is no URL of a dashboard."""
    parts = urlsplit(address)
    if parts.username or parts.password or parts.query:
        raise UsageError("--address carries credentials: the token belongs in RAY_AUTH_TOKEN or RAY_AUTH_TOKEN_PATH")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UsageError(
            f'--address is "{address}": must be the URL of the cluster\'s dashboard, such as http://127.0.0.1:8265'
        )
    return address.rstrip("/")


def _client(address: str) -> Any:
    """Ray's own, with a time limit for each request."""
    from ray.job_submission import JobSubmissionClient  # noqa: PLC0415  see above

    for module in ("dashboard_sdk", "job.sdk"):
        logging.getLogger(f"ray.dashboard.modules.{module}").setLevel(logging.WARNING)

    class Client(JobSubmissionClient):
        limit_s = FIRST_S

        def _do_request(self, method: str, endpoint: str, **more: Any) -> Any:
            return super()._do_request(method, endpoint, **{"timeout": (CONNECT_S, self.limit_s), **more})

    return Client(address)


def _refused(address: str, said: str) -> str:
    held = os.environ.get("RAY_AUTH_MODE") == "token" and "couldn't find" not in said and "Missing" not in said
    where = "set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN (or RAY_AUTH_TOKEN_PATH, or ~/.ray/auth_token) to the cluster's"
    return f"Ray at {address} {'refuses the token that is set here' if held else 'wants a token'}: {where}"


def _why(error: OSError) -> str:
    """The innermost reason: what `requests` and `urllib3` wrap around it helps nobody."""
    inner: BaseException | None = error
    while inner is not None:
        if isinstance(inner, OSError) and inner.strerror:
            return inner.strerror
        inner = inner.__cause__ or inner.__context__
    return "nothing within some seconds" if "imeout" in type(error).__name__ else scrub(str(error))
