"""What is answered at each address; nothing of it changes anything.

    /                          pipelines                 /index.json
    /p/PIPELINE/               a pipeline                /p/PIPELINE/index.json
    /p/PIPELINE/v/VIEW/        a view                    /p/PIPELINE/v/VIEW/index.json
    /p/PIPELINE/v/VIEW/held/   what is held back of it   /p/PIPELINE/v/VIEW/held/index.json

Who serves it (`ivm.ui.server`, the plugin of Airflow) says at which address it begins, and who may ask.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import asdict
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from ivm.errors import IvmError
from ivm.pipeline import Pipeline
from ivm.session import error_text
from ivm.ui import facts, pages, view_pages

HTML, JSON, CSS = "text/html; charset=utf-8", "application/json", "text/css; charset=utf-8"
_STYLE = Path(__file__).with_name("style.css")
#: delta-rs and the log are read by one request at a time: a page costs milliseconds, a person reads one.
_READING = threading.Lock()


def headers(framed_by: str = "'none'") -> dict[str, str]:
    """The headers of each answer. `framed_by` is the origin whose pages may show ours inside."""
    policy = f"default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors {framed_by}"
    return {
        "Content-Security-Policy": policy,
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
        "Cache-Control": "no-store",
    }


class _NotThereError(Exception):
    """An address that leads nowhere."""


class Site:
    """What is answered below `base`; `found` gives the folders of pipelines by name, at each request anew."""

    def __init__(self, found: Callable[[], Mapping[str, Path]], base: str = "") -> None:
        self._pipelines, self.base = found, base

    def answer(self, path: str) -> tuple[int, str, str]:
        """Status, content type and text of an address. What goes wrong is a sentence on a page."""
        if not path.startswith(f"{self.base}/"):
            return HTTPStatus.NOT_FOUND, HTML, pages.error_page("Not found", "There is nothing here.", "")
        try:
            with _READING:
                return HTTPStatus.OK, *self._found(path[len(self.base) :])
        except _NotThereError:
            return HTTPStatus.NOT_FOUND, HTML, pages.error_page("Not found", "There is nothing here.", self.base)
        except IvmError as error:
            return self._failed(path, str(error))
        except Exception as error:  # noqa: BLE001 - whatever it is, the page says it
            return self._failed(path, f"This can't be shown: {error_text(error) or type(error).__name__}.")

    def _failed(self, path: str, message: str) -> tuple[int, str, str]:
        if path.endswith(".json"):
            return HTTPStatus.INTERNAL_SERVER_ERROR, JSON, json.dumps({"error": message})
        return HTTPStatus.INTERNAL_SERVER_ERROR, HTML, pages.error_page("Something is wrong", message, self.base)

    def _found(self, path: str) -> tuple[str, str]:
        match [unquote(part) for part in path.strip("/").split("/")]:
            case ["style.css"]:
                return CSS, _STYLE.read_text()
            case [""]:
                return HTML, pages.overview(self._all(), self.base)
            case ["index.json"]:
                return JSON, _json({n: _told(f) for n, f in self._all().items()})
            case ["p", name]:
                return HTML, pages.pipeline_page(self._pipeline(name), self.base)
            case ["p", name, "index.json"]:
                return JSON, _json(self._pipeline(name).json())
            case ["p", name, "v", view]:
                return HTML, view_pages.view_page(name, self._view(name, view), self.base)
            case ["p", name, "v", view, "index.json"]:
                return JSON, _json(self._view(name, view).json())
            case ["p", name, "v", view, "held"]:
                return HTML, view_pages.held_page(name, self._held(name, view), self.base)
            case ["p", name, "v", view, "held", "index.json"]:
                return JSON, _json(asdict(self._held(name, view)))
        raise _NotThereError

    def _all(self) -> dict[str, facts.Facts | IvmError]:
        """One that can't be read doesn't hide the others."""
        found: dict[str, facts.Facts | IvmError] = {}
        for name, folder in self._pipelines().items():
            try:
                found[name] = facts.pipeline_facts(facts.opened(folder))
            except IvmError as error:
                found[name] = error
        return found

    def _pipeline(self, name: str) -> facts.Facts:
        return facts.pipeline_facts(facts.opened(self._folder(name)))

    def _view(self, name: str, view: str) -> facts.ViewFacts:
        return facts.view_facts(*self._declared(name, view))

    def _held(self, name: str, view: str) -> facts.HeldFacts:
        return facts.held_facts(*self._declared(name, view))

    def _declared(self, name: str, view: str) -> tuple[Pipeline, str]:
        pipe = facts.opened(self._folder(name))
        if view.lower() not in pipe.context.views:
            raise _NotThereError
        return pipe, view

    def _folder(self, name: str) -> Path:
        folder = self._pipelines().get(name)
        if folder is None:
            raise _NotThereError
        return folder


def _told(found: facts.Facts | IvmError) -> dict[str, Any]:
    return {"error": str(found)} if isinstance(found, IvmError) else found.json()


def _json(data: Any) -> str:
    return json.dumps(data, default=str, indent=2)
