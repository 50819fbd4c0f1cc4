"""S3 endpoints on loopback, each in a process of its own: a client that closes a stream in a destructor holds Python's
lock while it waits for an answer."""

from __future__ import annotations

import multiprocessing
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from multiprocessing.connection import Connection
from typing import Any

import boto3  # type: ignore[import-untyped]
import pytest
from moto.server import ThreadedMotoServer

_PROCESSES = multiprocessing.get_context("spawn")
Serve = Callable[[Connection], None]
ACCOUNT = {
    "AWS_ACCESS_KEY_ID": "testing",
    "AWS_SECRET_ACCESS_KEY": "testing",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
}


def moto(ready: Connection) -> None:
    """A whole object store."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    ready.send(f"{host}:{port}")
    while True:
        time.sleep(60)


def unavailable(ready: Connection) -> None:
    """Answers 503 to whatever is asked."""
    server = HTTPServer(("127.0.0.1", 0), _Unavailable)
    ready.send(f"127.0.0.1:{server.server_port}")
    server.serve_forever()


class _Unavailable(BaseHTTPRequestHandler):
    def do_PUT(self) -> None:
        self.send_response(503)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_POST = do_GET = do_HEAD = do_DELETE = do_PUT


@contextmanager
def running(serve: Serve) -> Iterator[str]:
    """`host:port` of a server that runs meanwhile."""
    here, there = _PROCESSES.Pipe()
    process = _PROCESSES.Process(target=serve, args=(there,), daemon=True)
    process.start()
    try:
        assert here.poll(30), "the server did not start"
        yield here.recv()
    finally:
        process.terminate()
        process.join(10)
        here.close()
        there.close()


@contextmanager
def object_store() -> Iterator[str]:
    """`host:port` of a whole object store, with an account for it in the environment meanwhile."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in ACCOUNT.items():
            patch.setenv(name, value)
        with running(moto) as place:
            yield place


def new_bucket(place: str) -> Any:
    """An empty boto3 bucket of the store at `place`, with a name of its own."""
    return boto3.resource("s3", endpoint_url=f"http://{place}").create_bucket(Bucket=f"bucket-{secrets.token_hex(8)}")


def uri_in(place: str, bucket: Any, path: str) -> str:
    return f"s3://{bucket.name}/{path}?endpoint_override={place}&scheme=http"
