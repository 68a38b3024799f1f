"""The server of `ivm ui`: GET and HEAD of a few addresses, on the loopback interface unless told otherwise.

On another interface each address begins with a token that is made at each start: who doesn't know it gets nothing. On
the loopback interface a request must name a loopback host, so that a page of another site can't read it through a name
of its own (DNS rebinding). No request changes anything.
"""

from __future__ import annotations

import ipaddress
import secrets
from collections.abc import Callable
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

from ivm.errors import ConfigError
from ivm.ui.facts import folders
from ivm.ui.site import Site, headers

LOOPBACK = "127.0.0.1"


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def server(place: Path, host: str = LOOPBACK, port: int = 0) -> tuple[ThreadingHTTPServer, str]:
    """A server for the pipelines at a place, and the address to open. Port 0 takes a free one.

    Raises ConfigError where there is no pipeline, or where host and port can't be listened on.
    """
    local = _is_loopback(host)
    base = "" if local else f"/t/{secrets.token_urlsafe(24)}"
    folders(place)
    site = Site(partial(folders, place), base)
    try:
        made = ThreadingHTTPServer((host, port), _handler(site.answer, base, local))
    except OSError as error:
        raise ConfigError(
            f"Nothing can listen on {host}, port {port}: {error.strerror or error}.", "Choose others."
        ) from error
    made.daemon_threads = True
    return made, f"http://{host}:{made.server_address[1]}{base}/"


def _handler(answer: Callable[[str], tuple[int, str, str]], base: str, local: bool) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._send(True)

        def do_HEAD(self) -> None:
            self._send(False)

        def _send(self, with_body: bool) -> None:
            status, kind, text = answer(self._asked())
            body = text.encode()
            self.send_response(status)
            for name, value in {**headers(), "Content-Type": kind, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            if with_body:
                self.wfile.write(body)

        def _asked(self) -> str:
            """The path; one that leads nowhere where the request isn't for us."""
            named = urlsplit(f"//{self.headers.get('Host', '')}").hostname or ""
            if local and not _is_loopback(named):
                return ""
            path = urlsplit(self.path).path
            if base and not secrets.compare_digest(path.encode()[: len(base)], base.encode()):
                return ""
            return path

        def log_message(self, format: str, *args: object) -> None:
            """Nothing: an address holds the token."""

    return Handler
