"""A stand-in for Google Cloud Storage: what its XML interface does with single objects, and their listing.

It demands what Google demands of a conditional put: the generation that the object has, 0 for none. ETags are given,
and are no condition.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

_BUCKETS: dict[str, tuple[int, bytes]] = {}
_GENERATIONS = itertools.count(1)
_LOCK = threading.Lock()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        """Say nothing."""

    def _answer(self, status: int, body: bytes = b"", found: tuple[int, bytes] | None = None) -> None:
        self.send_response(status)
        if found is not None:
            self.send_header("ETag", f'"{hashlib.md5(found[1], usedforsecurity=False).hexdigest()}"')
            self.send_header("x-goog-generation", str(found[0]))
            self.send_header("Last-Modified", formatdate(usegmt=True))
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def do_PUT(self) -> None:
        key, data = unquote(urlsplit(self.path).path), self.rfile.read(int(self.headers["Content-Length"]))
        wanted = self.headers.get("x-goog-if-generation-match")
        with _LOCK:
            generation, _ = _BUCKETS.get(key, (0, b""))
            if wanted is not None and wanted != str(generation):
                self._answer(412)
                return
            _BUCKETS[key] = next(_GENERATIONS), data
            self._answer(200, found=_BUCKETS[key])

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        if "list-type" in parse_qs(url.query):
            self._answer(200, _listing(unquote(url.path).strip("/"), parse_qs(url.query).get("prefix", [""])[0]))
            return
        found = _BUCKETS.get(unquote(url.path))
        self._answer(404) if found is None else self._answer(200, found[1], found)

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_DELETE(self) -> None:
        self._answer(404 if _BUCKETS.pop(unquote(urlsplit(self.path).path), None) is None else 204)


def _listing(bucket: str, prefix: str) -> bytes:
    keys = [k.removeprefix(f"/{bucket}/") for k in sorted(_BUCKETS)]
    entries = "".join(f"<Contents><Key>{escape(k)}</Key></Contents>" for k in keys if k.startswith(prefix))
    return f"<ListBucketResult>{entries}</ListBucketResult>".encode()


@contextmanager
def served() -> Iterator[dict[str, str]]:
    """The stand-in, empty; the variables of the environment by which it is found."""
    _BUCKETS.clear()
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    account = {
        "gcs_base_url": f"http://127.0.0.1:{server.server_port}",
        "disable_oauth": True,
        "client_email": "",
        "private_key": "",
        "private_key_id": "",
    }
    yield {"GOOGLE_SERVICE_ACCOUNT_KEY": json.dumps(account), "GOOGLE_ALLOW_HTTP": "true"}
    server.shutdown()
