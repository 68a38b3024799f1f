"""A real S3 server of this machine: moto in a process of its own.

In this one, delta-rs would wait for it while it holds the interpreter. A faster server is in `tests.versity`.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.request
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import pytest

pytest.importorskip("moto", reason="moto is not installed; ./run setup does it")


def settings(port: int) -> dict[str, str]:
    """What delta-rs, obstore, Arrow, boto3 and Spark's S3A take from the environment."""
    return {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_REGION": "us-east-1",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ALLOW_HTTP": "true",
        "AWS_EC2_METADATA_DISABLED": "true",
    }


#: Headers and body go out at once, and connections are kept: else each request waits 40 ms for an acknowledgement.
#: `100 Continue` is sent once: http.server would send one and werkzeug another, which Spark's client takes for the
#: answer to its PUT, and tries again for many minutes.
#: Writes take turns: S3 checks a condition and writes in one step, moto lets two threads check before either writes.
_SERVER = """
import socketserver, sys, threading
from moto.s3.responses import S3Response
from werkzeug.serving import WSGIRequestHandler
socketserver.StreamRequestHandler.disable_nagle_algorithm = True
WSGIRequestHandler.protocol_version = "HTTP/1.1"
WSGIRequestHandler.handle_expect_100 = lambda self: True
turn = threading.RLock()
def in_turn(write):
    def locked(self, *args, **kwargs):
        with turn:
            return write(self, *args, **kwargs)
    return locked
for name in ("put_object", "delete_object"):
    setattr(S3Response, name, in_turn(getattr(S3Response, name)))
from moto.server import main
main(sys.argv[1:])
"""


def free_port() -> int:
    """A port of this machine that nobody listens on now."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@contextmanager
def served() -> Iterator[Mapping[str, str]]:
    """A server while the block runs; its settings, which are not set yet."""
    port = free_port()
    with running([sys.executable, "-c", _SERVER, "-H", "127.0.0.1", "-p", str(port)], port):
        yield settings(port)


@contextmanager
def running(command: Sequence[str], port: int) -> Iterator[None]:
    """A server that is started and listens on a port, until the block ends."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 60
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
            except OSError:
                assert process.poll() is None, f"{command[0]} ended"
                assert time.monotonic() < deadline, f"{command[0]} did not start"
                time.sleep(0.05)
        yield
    finally:
        process.terminate()
        process.wait(10)


def refuse(server: str, after: float) -> None:
    """Let moto refuse credentials that it doesn't know, after so many requests more (`inf`: never)."""
    request = urllib.request.Request(
        f"{server}/moto-api/reset-auth", data=str(after).encode(), headers={"Content-Type": "text/plain"}, method="POST"
    )
    urllib.request.urlopen(request).close()


def bucket() -> str:
    """A new bucket, by the settings of the environment: `s3://NAME`."""
    import boto3

    name = f"lake-{uuid.uuid4().hex[:12]}"
    boto3.client("s3", endpoint_url=os.environ["AWS_ENDPOINT_URL"]).create_bucket(Bucket=name)
    return f"s3://{name}"
