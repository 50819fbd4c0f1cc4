"""A node that is told to go: the provider's notice as its metadata service gives it, over real HTTP."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from actors.preemption import PROVIDERS, wait_for_notice

AWS_NOTICE = '{"action": "terminate", "time": "2026-01-31T12:00:00Z"}'
AWS_TOKEN = "a-token"


class Metadata(BaseHTTPRequestHandler):
    """Of a node that is told to go when its notice is asked for the third time."""

    asked = 0

    def do_PUT(self) -> None:
        assert self.path == "/latest/api/token"
        assert self.headers["X-aws-ec2-metadata-token-ttl-seconds"].isdigit()
        self._answer(200, AWS_TOKEN)

    def do_GET(self) -> None:
        Metadata.asked += 1
        if self.path == "/latest/meta-data/spot/instance-action":
            assert self.headers["X-aws-ec2-metadata-token"] == AWS_TOKEN
            self._answer(200 if Metadata.asked >= 3 else 404, AWS_NOTICE if Metadata.asked >= 3 else "")
        elif self.path == "/computeMetadata/v1/instance/preempted" and self.headers["Metadata-Flavor"] == "Google":
            self._answer(200, "TRUE" if Metadata.asked >= 3 else "FALSE")
        else:
            self._answer(500, "")

    def _answer(self, code: int, text: str) -> None:
        self.send_response(code)
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_: object) -> None: ...


@contextmanager
def metadata_service() -> Iterator[str]:
    Metadata.asked = 0
    with HTTPServer(("127.0.0.1", 0), Metadata) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("provider", ["aws", "gcp"])
def test_it_waits_until_the_notice_comes(provider: str) -> None:
    with metadata_service() as base:
        wait_for_notice(PROVIDERS[provider], base, look_s=0.01)
    assert Metadata.asked == 3


def test_where_the_notice_has_come_it_does_not_wait() -> None:
    wait_for_notice(PROVIDERS["now"], PROVIDERS["now"].base)


def test_a_service_that_does_not_answer_is_asked_again(capsys: pytest.CaptureFixture[str]) -> None:
    with metadata_service() as base:
        pass  # it is gone, and its port with it
    asked: list[str] = []

    def is_going(at: str) -> bool:
        asked.append(at)
        return PROVIDERS["aws"].is_going(at) if len(asked) < 3 else True

    wait_for_notice(PROVIDERS["aws"].__class__(base, 1, is_going), base, look_s=0.01)
    assert len(asked) == 3
    assert capsys.readouterr().out.count("does not answer") == 2
