"""Pages in headless Chromium, driven over its pipe: what a page's script says, what the mouse does, and the figures that a page leaves at its body.

Source of the messages: https://chromedevtools.github.io/devtools-protocol/
"""

import base64
import fcntl
import json
import os
import select
import shutil
import signal
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--hide-scrollbars", "--remote-debugging-pipe")
WIDTH, HEIGHT = 1280, 900
"""CSS pixels of a window that is measured."""
SECONDS = 120
"""The longest wait for an answer."""


def browser() -> str | None:
    """Its path, None where there is none."""
    return shutil.which("chromium") or shutil.which("google-chrome")


class BrowserError(Exception):
    """The browser refuses a message, a page's script fails, or no answer comes."""


@dataclass
class Tab:
    """One page in a browser. events: all that the browser has told, in order."""

    reading: int
    writing: int
    session: str = ""
    events: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    _held: bytes = b""
    _sent: int = 0

    def call(self, method: str, **values: object) -> dict[str, Any]:
        """The answer to a message. Raises BrowserError."""
        self._sent += 1
        message = {"id": self._sent, "method": method, "params": values} | ({"sessionId": self.session} if self.session else {})
        os.write(self.writing, json.dumps(message).encode() + b"\0")
        answer = self._until(lambda told: told.get("id") == self._sent)
        if "error" in answer:
            raise BrowserError(f"{method}: {answer['error']}")
        return answer["result"]

    def open(self, page: Path, fragment: str = "") -> None:
        """Opens a page anew and waits until it is loaded."""
        self.call("Page.navigate", url="about:blank")
        self.events.clear()
        self.call("Page.navigate", url=f"file://{page.resolve()}{f'#{fragment}' if fragment else ''}")
        self._until(lambda told: told.get("method") == "Page.loadEventFired")

    def value(self, script: str) -> Any:
        """The value of an expression in the page; of a promise, once it is there. Raises BrowserError where the script fails."""
        answer = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            raise BrowserError(str(answer["exceptionDetails"].get("exception", {}).get("description", answer)))
        return answer["result"].get("value")

    def mouse(self, kind: str, x: float, y: float, **more: object) -> None:
        """kind: mouseMoved, mousePressed or mouseReleased. x, y: CSS pixels in the window."""
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def show(self, width: int, height: int, scheme: str = "light") -> None:
        """The window's size, and the colours that its user prefers: light or dark."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def picture(self, path: Path) -> None:
        """The window as a PNG."""
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))

    def complaints(self) -> list[str]:
        """Lines of the console, exceptions, and requests for anything but the page itself."""
        return [str(event["params"]) for event in self.events if _complains(event)]

    def _until(self, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        ends, ready = time.monotonic() + SECONDS, select.poll()  # which takes numbers of files that `select` does not
        ready.register(self.reading, select.POLLIN)
        while True:
            while b"\0" in self._held:
                text, _, self._held = self._held.partition(b"\0")
                told = json.loads(text)
                self.events.append(told)
                if wanted(told):
                    return told
            if not ready.poll(1000 * max(ends - time.monotonic(), 0)):
                raise BrowserError("the browser does not answer")
            data = os.read(self.reading, 1 << 20)
            if not data:
                raise BrowserError("the browser has gone")
            self._held += data


def _complains(event: dict[str, Any]) -> bool:
    method, values = event.get("method"), event.get("params", {})
    if method == "Network.requestWillBeSent":
        return not values["request"]["url"].startswith(("file:", "data:"))
    return method in ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded")


@contextmanager
def tab(program: str, profile: Path) -> Generator[Tab]:
    """A page in a browser of its own, which ends with it. profile: a folder for the browser's own files."""
    messages, told = os.pipe(), os.pipe()
    child = _started([program, *FLAGS, f"--user-data-dir={profile}"], messages[0], told[1])
    os.close(messages[0])
    os.close(told[1])
    found = Tab(told[0], messages[1])
    try:
        target = found.call("Target.createTarget", url="about:blank")["targetId"]
        found.session = found.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for part in ("Page", "Runtime", "Network", "Log"):
            found.call(f"{part}.enable")
        yield found
    finally:
        os.close(messages[1])
        os.kill(child, signal.SIGTERM)
        os.waitpid(child, 0)
        os.close(told[0])


def _started(words: list[str], reads: int, writes: int) -> int:
    """A process, by its number, that reads messages from its file 3 and writes answers to its file 4; those files here are above both."""
    above = [fcntl.fcntl(each, fcntl.F_DUPFD_CLOEXEC, 10) for each in (reads, writes)]
    nowhere = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_WRONLY, 0) for number in (1, 2)]
    joined = [(os.POSIX_SPAWN_DUP2, each, number) for each, number in zip(above, (3, 4), strict=True)]
    try:
        return os.posix_spawn(words[0], words, os.environ, file_actions=[*nowhere, *joined])
    finally:
        for each in above:
            os.close(each)


MEASURED = """new Promise((tell) => {
  const look = () => (document.body.dataset.measured ? tell({ ...document.body.dataset }) : setTimeout(look, 20));
  look();
})"""
"""What a page has told of itself, once it is ready."""


def measured(program: str, page: Path, frames: int, profile: Path) -> dict[str, float]:
    """Draws so many views of every size, and pans as many frames at the browser's pace; times in milliseconds, others are counts. Raises
    BrowserError for a page whose script fails."""
    with tab(program, profile) as shown:
        shown.show(WIDTH, HEIGHT)
        shown.open(page, f"measure={frames}")
        if complaints := shown.complaints():
            raise BrowserError(f"{page}: {complaints[0]}")
        found = shown.value(MEASURED)
    return {name: float(value) for name, value in found.items() if value}


def unpacked(column: dict[str, Any]) -> NDArray[Any]:
    """The numbers of a packed column, as the page's script reads them."""
    numbers = np.frombuffer(base64.b64decode(column["data"]), np.dtype(column["type"]).newbyteorder("<"))
    return unpacked(column["of"])[numbers] if "of" in column else numbers
