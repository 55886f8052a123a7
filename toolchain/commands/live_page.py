"""A page that browsers of this computer keep up to date: served on the loopback address alone, with an event for each new state."""

import hashlib
import json
import threading
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import socket
from typing import cast

from toolchain.spec.errors import fail

HOST = "127.0.0.1"
BEAT_SECONDS = 10.0
"""Between two events of a page that stays as it is: the writing of one tells whether its reader is still there."""
IDLE_SECONDS = 30
"""The longest that a client may take over its request."""
MOST = 32
"""Clients at once; more are refused."""
Request = socket | tuple[bytes, socket]
Address = tuple[str, int] | str
"""As `socketserver` has them."""


@dataclass(frozen=True)
class PageState:
    """page: the last good one, HTML. mistake: text for a person, empty for none. busy: whether a new page is on its way."""

    page: str = ""
    mistake: str = ""
    busy: bool = True

    @property
    def version(self) -> str:
        """Other pages have other ones; a page knows its own."""
        return hashlib.sha256(self.page.encode(errors="replace")).hexdigest()[:16]

    @property
    def event(self) -> str:
        """As one event of a stream."""
        return f"data: {json.dumps({'version': self.version, 'mistake': self.mistake, 'busy': self.busy})}\n\n"


@dataclass
class Live:
    """The state that all clients see. closed: whether they are to go."""

    state: PageState = PageState()
    closed: bool = False
    changed: threading.Condition = field(default_factory=threading.Condition)

    def show(self, page: str | None = None, mistake: str = "", busy: bool = False) -> None:
        """page: None for the one that is there."""
        with self.changed:
            found = replace(self.state, mistake=mistake, busy=busy)
            self.state = found if page is None else replace(found, page=page)
            self.changed.notify_all()

    def close(self) -> None:
        with self.changed:
            self.closed = True
            self.changed.notify_all()

    def after(self, seen: PageState | None) -> PageState | None:
        """The next state, or the same once more after a while; None when all is over."""
        with self.changed:
            self.changed.wait_for(lambda: self.closed or self.state != seen, BEAT_SECONDS)
            return None if self.closed else self.state


class LiveServer(ThreadingHTTPServer):
    """Serves `live` on HOST. Raises UserError E0005 where the port is taken."""

    daemon_threads = True

    def __init__(self, live: Live, port: int) -> None:
        self.live, self.rooms = live, threading.BoundedSemaphore(MOST)
        try:
            super().__init__((HOST, port), _Handler)
        except (OSError, OverflowError) as error:
            raise fail("E0005", f"the system refused: {error}", hint="give another --port", place=f"{HOST}:{port}") from None

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.server_port}/"

    def process_request(self, request: Request, client_address: Address) -> None:
        """In a thread of its own, where there is still room."""
        if self.rooms.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Request, client_address: Address) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.rooms.release()

    def handle_error(self, request: Request, client_address: Address) -> None:
        """A client that goes away is no mistake of ours; the terminal belongs to the builds."""


class _Handler(BaseHTTPRequestHandler):
    """Knows two paths, and no file."""

    timeout = IDLE_SECONDS
    server_version, sys_version = "tilewright", ""

    def do_GET(self) -> None:
        server = cast("LiveServer", self.server)
        known = [[f"{name}:{server.server_port}"] for name in (HOST, "localhost")]
        if self.headers.get_all("Host", []) not in known:  # a page from elsewhere whose name was turned to this computer
            self.send_error(HTTPStatus.MISDIRECTED_REQUEST)
        elif self.path == "/":
            self._page(server.live.state)
        elif self.path == "/events":
            self._events(server.live)
        else:
            self.send_error(HTTPStatus.NOT_FOUND)

    def _head(self, kind: str) -> None:
        self.send_response(HTTPStatus.OK)
        for name, value in (("Content-Type", f"{kind}; charset=utf-8"), ("Cache-Control", "no-store"), ("X-Content-Type-Options", "nosniff")):
            self.send_header(name, value)
        self.send_header("X-Frame-Options", "DENY")

    def _page(self, state: PageState) -> None:
        body = live_text(state).encode(errors="replace")
        self._head("text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _events(self, live: Live) -> None:
        self._head("text/event-stream")
        self.end_headers()
        seen: PageState | None = None
        while (seen := live.after(seen)) is not None:
            self.wfile.write(seen.event.encode())

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Silent: requests are no news."""


def live_text(state: PageState) -> str:
    """The page with the script that follows the events; before the first good one a page that waits for it."""
    from toolchain.report.tables import html_environment

    environment = html_environment()
    script = environment.get_template("studio/live.html.j2").render(version=state.version)
    if not state.page:
        return environment.get_template("studio/waiting.html.j2").render(script=script)
    before, end, after = state.page.rpartition("</body>")
    return f"{before}{script}{end}{after}"
