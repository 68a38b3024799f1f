"""The server of `ivm ui`: GET and HEAD of a few addresses, on the loopback interface unless told otherwise.

    /                          pipelines                 /index.json
    /p/PIPELINE/               a pipeline                /p/PIPELINE/index.json
    /p/PIPELINE/v/VIEW/        a view                    /p/PIPELINE/v/VIEW/index.json

On another interface each address begins with a token that is made at each start: who doesn't know it gets nothing. On
the loopback interface a request must name a loopback host, so that a page of another site can't read it through a name
of its own (DNS rebinding). No request changes anything.
"""

from __future__ import annotations

import ipaddress
import json
import secrets
import threading
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from ivm.errors import ConfigError, IvmError
from ivm.session import error_text
from ivm.ui import facts, pages

LOOPBACK = "127.0.0.1"
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
_HTML, _JSON, _CSS = "text/html; charset=utf-8", "application/json", "text/css; charset=utf-8"


class _NotThereError(Exception):
    """An address that leads nowhere."""


class Site:
    """What is answered at each address below `base`."""

    def __init__(self, folders: dict[str, Path], base: str = "") -> None:
        self.folders, self.base = folders, base
        # delta-rs and the log are read by one request at a time: a page costs milliseconds, a person reads one.
        self._lock = threading.Lock()

    def answer(self, path: str) -> tuple[int, str, str]:
        """Status, content type and text of an address. What goes wrong is a sentence on a page."""
        if not path.startswith(f"{self.base}/"):
            return HTTPStatus.NOT_FOUND, _HTML, pages.error_page("Not found", "There is nothing here.", "")
        try:
            with self._lock:
                return HTTPStatus.OK, *self._found(path[len(self.base) :])
        except _NotThereError:
            return HTTPStatus.NOT_FOUND, _HTML, pages.error_page("Not found", "There is nothing here.", self.base)
        except IvmError as error:
            return self._failed(path, str(error))
        except Exception as error:  # noqa: BLE001 - whatever it is, the page says it
            return self._failed(path, f"This can't be shown: {error_text(error) or type(error).__name__}.")

    def _failed(self, path: str, message: str) -> tuple[int, str, str]:
        if path.endswith(".json"):
            return HTTPStatus.INTERNAL_SERVER_ERROR, _JSON, json.dumps({"error": message})
        return HTTPStatus.INTERNAL_SERVER_ERROR, _HTML, pages.error_page("Something is wrong", message, self.base)

    def _found(self, path: str) -> tuple[str, str]:
        match [unquote(part) for part in path.strip("/").split("/")]:
            case ["style.css"]:
                return _CSS, pages.STYLE
            case [""]:
                return _HTML, pages.overview(self._all(), self.base)
            case ["index.json"]:
                return _JSON, _json({n: _told(f) for n, f in self._all().items()})
            case ["p", name]:
                return _HTML, pages.pipeline_page(self._pipeline(name), self.base)
            case ["p", name, "index.json"]:
                return _JSON, _json(self._pipeline(name).json())
            case ["p", name, "v", view]:
                return _HTML, pages.view_page(name, self._view(name, view), self.base)
            case ["p", name, "v", view, "index.json"]:
                return _JSON, _json(self._view(name, view).json())
        raise _NotThereError

    def _all(self) -> dict[str, facts.Facts | IvmError]:
        """One that can't be read doesn't hide the others."""
        found: dict[str, facts.Facts | IvmError] = {}
        for name in self.folders:
            try:
                found[name] = self._pipeline(name)
            except IvmError as error:
                found[name] = error
        return found

    def _pipeline(self, name: str) -> facts.Facts:
        return facts.pipeline_facts(facts.opened(self._folder(name)))

    def _view(self, name: str, view: str) -> facts.ViewFacts:
        pipe = facts.opened(self._folder(name))
        if view.lower() not in pipe.context.views:
            raise _NotThereError
        return facts.view_facts(pipe, view)

    def _folder(self, name: str) -> Path:
        if name not in self.folders:
            raise _NotThereError
        return self.folders[name]


def _told(found: facts.Facts | IvmError) -> dict[str, Any]:
    return {"error": str(found)} if isinstance(found, IvmError) else found.json()


def _json(data: Any) -> str:
    return json.dumps(data, default=str, indent=2)


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
    site = Site(facts.folders(place), base)
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
            for name, value in {**_HEADERS, "Content-Type": kind, "Content-Length": str(len(body))}.items():
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

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing: an address holds the token."""

    return Handler
