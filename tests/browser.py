"""A Chromium without a window, driven through two pipes by its DevTools protocol: it presses keys, and takes pictures.

Nothing listens on a port, and nothing is needed but the browser itself.
"""

from __future__ import annotations

import base64
import itertools
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

#: Where one of them is on the PATH, pages are looked at.
NAMES = ("chromium", "chromium-browser", "google-chrome")
#: Seconds in which a call must be answered, and what is waited for must come true.
PATIENCE = 60
_KEYS = {"Tab": (9, ""), "Enter": (13, "\r"), "ArrowRight": (39, ""), "Escape": (27, "")}
_SHIFT = 8


def installed() -> str | None:
    """The path of a browser; None where there is none."""
    return next((found for name in NAMES if (found := shutil.which(name))), None)


class Browser:
    """One page of a browser."""

    def __init__(self, process: subprocess.Popen[bytes], send: int, receive: int) -> None:
        self._process, self._send, self._receive = process, send, receive
        self._left, self._ids, self._session = b"", itertools.count(1), ""
        page = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=page, flatten=True)["sessionId"]
        self.call("Page.enable")

    # -- the protocol --------------------------------------------------------------------------------

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """One call and its answer; events that come meanwhile are let go."""
        number = next(self._ids)
        message: dict[str, Any] = {"id": number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._send, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + PATIENCE
        while True:
            answer = self._message(deadline)
            if answer.get("id") == number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                found: dict[str, Any] = answer["result"]
                return found

    def _message(self, deadline: float) -> dict[str, Any]:
        while b"\0" not in self._left:
            ready, *_ = select.select([self._receive], [], [], max(0, deadline - time.monotonic()))
            assert ready, f"the browser did not answer within {PATIENCE} s"
            part = os.read(self._receive, 1 << 16)
            assert part, "the browser has ended"
            self._left += part
        message, _, self._left = self._left.partition(b"\0")
        found: dict[str, Any] = json.loads(message)
        return found

    # -- what a person does --------------------------------------------------------------------------

    def open(self, address: str) -> None:
        told = self.call("Page.navigate", url=address)
        assert "errorText" not in told, told
        self.until("document.readyState == 'complete'")

    def press(self, key: str, shift: bool = False) -> None:
        code, text = _KEYS[key]
        held = {"modifiers": _SHIFT} if shift else {}
        named = {"key": key, "code": key, "windowsVirtualKeyCode": code, "nativeVirtualKeyCode": code, **held}
        self.call("Input.dispatchKeyEvent", type="keyDown", text=text, **named)
        self.call("Input.dispatchKeyEvent", type="keyUp", **named)

    def ask(self, expression: str) -> Any:
        """The value of a JavaScript expression on the page, which the page's own policy doesn't forbid."""
        told = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in told, told["exceptionDetails"]
        return told["result"].get("value")

    def until(self, expression: str) -> None:
        """Wait until an expression is true."""
        deadline = time.monotonic() + PATIENCE
        while not self.ask(f"Boolean({expression})"):
            assert time.monotonic() < deadline, f"this did not come true: {expression}"
            time.sleep(0.05)

    def size(self, width: int, height: int, dark: bool = False) -> None:
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def picture(self, file: Path, whole: bool = False) -> None:
        """The page as PNG, as far as it is in the window, or the whole of it."""
        told = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        file.write_bytes(base64.b64decode(told["data"]))


@contextmanager
def browser() -> Iterator[Browser]:
    """A browser that ends with the block."""
    program = installed()
    assert program is not None
    theirs_in, ours_out = os.pipe()
    ours_in, theirs_out = os.pipe()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:
        options = (
            *("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--hide-scrollbars", "--mute-audio"),
            *("--disable-dev-shm-usage", "--disable-background-networking", "--disable-component-update"),
            *(f"--user-data-dir={home}", "--remote-debugging-pipe", "about:blank"),
        )
        # The browser reads from descriptor 3 and writes to 4: bash, since other shells take only one digit here.
        command = ["bash", "-c", f'exec "$0" "$@" 3<&{theirs_in} 4>&{theirs_out}', program, *options]
        process = subprocess.Popen(
            command, pass_fds=(theirs_in, theirs_out), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        os.close(theirs_in)
        os.close(theirs_out)
        try:
            yield Browser(process, ours_out, ours_in)
        finally:
            os.close(ours_out)  # the browser ends when nobody talks to it any more
            os.close(ours_in)
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
