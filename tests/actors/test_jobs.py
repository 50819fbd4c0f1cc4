"""What a cluster can be wrong in, said in one line and in seconds: against real HTTP on loopback.

The real cluster is in test_submitted.py.
"""

from __future__ import annotations

import json
import platform
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import metadata

import pytest

from actors.jobs import JobEnd, Jobs
from rollouts.errors import UsageError

RAY, PYTHON = metadata.version("ray"), platform.python_version()
LIMIT_S = 15.0


@contextmanager
def dashboard(pages: dict[str, tuple[int, str]], silent: bool = False) -> Iterator[str]:
    """Answers GET by path; `silent`: takes the request, and says nothing until the end."""
    over = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if silent:
                over.wait()
                return
            status, text = pages.get(self.path, (404, "not here"))
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: object) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        over.set()
        server.shutdown()
        server.server_close()
        thread.join()


def of_versions(ray: str, python: str) -> dict[str, tuple[int, str]]:
    """As Ray 2.60 answers."""
    told = {"version": "4", "ray_version": ray, "ray_commit": "x", "session_name": "y"}
    more = {"result": True, "data": {"rayVersion": ray, "pythonVersion": python}}
    return {"/api/version": (200, json.dumps(told)), "/api/v0/cluster_metadata": (200, json.dumps(more))}


def refusal(url: str) -> str:
    begun_s = time.monotonic()
    with pytest.raises(UsageError) as caught:
        Jobs(url)
    assert time.monotonic() - begun_s < LIMIT_S
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_the_same_versions_are_let_in() -> None:
    with dashboard(of_versions(RAY, PYTHON)) as url:
        assert Jobs(f"{url}/").address == url


@pytest.mark.parametrize("versions", [("2.9.3", PYTHON), (RAY, "3.9.1")])
def test_another_ray_or_python_is_refused_with_both_versions(versions: tuple[str, str]) -> None:
    with dashboard(of_versions(*versions)) as url:
        told = refusal(url)
    assert told.startswith(
        f"Ray at {url} is {versions[0]} on Python {versions[1]}, and here it is {RAY} on Python {PYTHON}"
    )


def test_a_patch_of_python_is_no_other_python_for_a_job() -> None:
    with dashboard(of_versions(RAY, f"{PYTHON.rpartition('.')[0]}.99")) as url:
        Jobs(url)


def test_a_ray_that_does_not_tell_its_python_is_let_in() -> None:
    with dashboard({"/api/version": of_versions(RAY, PYTHON)["/api/version"]}) as url:
        Jobs(url)


@pytest.mark.parametrize("status", [401, 403])
def test_a_token_that_is_wanted_or_refused_is_said_with_what_to_set(status: int) -> None:
    with dashboard({"/api/version": (status, "Unauthorized: Missing authentication token")}) as url:
        told = refusal(url)
    assert told.startswith(f"Ray at {url} ")
    assert "RAY_AUTH_TOKEN" in told


@pytest.mark.parametrize("page", [(404, "no such page"), (200, "<html>Welcome</html>"), (200, "{}"), (500, "oh")])
def test_who_is_no_dashboard_is_said(page: tuple[int, str]) -> None:
    with dashboard({"/api/version": page}) as url:
        assert url in refusal(url)


def test_nobody_at_the_address_is_said() -> None:
    with dashboard({}) as url:
        pass
    assert refusal(url) == f"no Ray dashboard answers at {url}: Connection refused"


@pytest.mark.slow
def test_who_never_answers_is_given_up() -> None:
    with dashboard({}, silent=True) as url:
        assert refusal(url).startswith(f"no Ray dashboard answers at {url}: nothing within some seconds")


def test_the_address_that_is_given_counts_before_those_that_ray_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RAY_ADDRESS", "RAY_API_SERVER_ADDRESS"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    with dashboard(of_versions(RAY, PYTHON)) as url:
        Jobs(url)


@pytest.mark.parametrize(
    ("end", "code"),
    [
        (JobEnd("SUCCEEDED", 0, ""), 0),
        (JobEnd("FAILED", 2, ""), 2),
        (JobEnd("FAILED", 130, ""), 130),
        (JobEnd("FAILED", -9, ""), 137),
        (JobEnd("FAILED", None, "the working dir cannot be had"), 1),
        (JobEnd("STOPPED", None, ""), 143),
    ],
)
def test_the_exit_status_of_a_job_becomes_ours(end: JobEnd, code: int) -> None:
    assert end.code == code
