"""The server of a live page: what it answers, what it refuses, and the events of its states."""

import http.client
import json
import socket
import threading
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolchain.commands import live_page
from toolchain.commands.live_page import Live, LiveServer, PageState, live_text
from toolchain.spec.errors import UserError


@pytest.fixture(scope="module")
def server() -> Iterator[LiveServer]:
    with LiveServer(Live(), 0) as found:
        threading.Thread(target=found.serve_forever, daemon=True).start()
        yield found
        found.live.close()
        found.shutdown()


def asked(server: LiveServer, method: str, path: str, host: str | None = None) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=20)
    connection.putrequest(method, path, skip_host=True)
    connection.putheader("Host", host or f"127.0.0.1:{server.server_port}")
    connection.endheaders()
    response = connection.getresponse()
    return response.status, response.read().decode()


def test_it_listens_on_the_loopback_address_alone(server: LiveServer) -> None:
    assert server.server_address[0] == "127.0.0.1"
    assert server.url == f"http://127.0.0.1:{server.server_port}/"


def test_the_page_has_the_script_and_a_first_visitor_waits(server: LiveServer) -> None:
    server.live.show(page="")
    assert "as soon as there is a build" in asked(server, "GET", "/")[1]
    server.live.show(page="<body>one</body>")
    status, text = asked(server, "GET", "/", f"localhost:{server.server_port}")
    assert status == 200
    assert text.startswith("<body>one")
    assert text.endswith("</body>")
    assert server.live.state.version in text


@pytest.mark.parametrize(
    "path", ["/../../etc/passwd", "//etc/passwd", "/%2e%2e/etc/passwd", "/pyproject.toml", "/?x", "/events/", "/%00", "*", "file:///etc/passwd"]
)
def test_no_other_path_is_known(server: LiveServer, path: str) -> None:
    status, text = asked(server, "GET", path)
    assert status == 404
    assert "root:" not in text


@pytest.mark.parametrize("host", ["example.org", "127.0.0.1", "127.0.0.1:1", "localhost.example.org:{port}", "0.0.0.0:{port}", "[::1]:{port}"])
@pytest.mark.parametrize("path", ["/", "/events"])
def test_another_host_is_refused(server: LiveServer, host: str, path: str) -> None:
    assert asked(server, "GET", path, host.format(port=server.server_port))[0] == 421


@pytest.mark.parametrize("lines", ["GET / HTTP/1.1\r\n\r\n", "GET / HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nHost: example.org\r\n\r\n"])
def test_no_host_and_two_hosts_are_refused(server: LiveServer, lines: str) -> None:
    with socket.create_connection(("127.0.0.1", server.server_port), timeout=20) as connection:
        connection.sendall(lines.format(port=server.server_port).encode())
        assert b" 421 " in connection.recv(1000)


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "HEAD", "OPTIONS"])
def test_nothing_can_be_sent(server: LiveServer, method: str) -> None:
    assert asked(server, method, "/")[0] == 501


def test_events_tell_each_state_until_the_end() -> None:
    live = Live(PageState("a", "", busy=False))
    first = live.after(None)
    assert first == live.state
    live.show(busy=True)
    live.show(mistake="m.yaml:3:1: E0107 line\n  next")
    second = live.after(first)
    assert second is not None
    assert second.event.count("\n") == 2
    told = json.loads(second.event.removeprefix("data: "))
    assert told == {"version": first.version, "mistake": "m.yaml:3:1: E0107 line\n  next", "busy": False}  # the last good page stays
    live.show(page="b")
    assert (live.state.mistake, live.state.version != first.version) == ("", True)
    live.close()
    assert live.after(live.state) is None


def test_a_stream_of_events_ends_with_the_server() -> None:
    with LiveServer(Live(), 0) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=20)
        connection.request("GET", "/events")
        response = connection.getresponse()
        assert response.getheader("Content-Type") == "text/event-stream; charset=utf-8"
        assert json.loads(response.readline().removeprefix(b"data: "))["busy"] is True
        server.live.show(page="x")
        assert response.readline() == b"\n"
        assert json.loads(response.readline().removeprefix(b"data: "))["busy"] is False
        server.live.close()
        server.shutdown()
        assert response.read() == b"\n"


def test_more_clients_than_there_is_room_for_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_page, "MOST", 1)
    with LiveServer(Live(), 0) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        held = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=20)
        held.request("GET", "/events")
        held.getresponse().readline()
        with pytest.raises((http.client.HTTPException, OSError)):
            asked(server, "GET", "/")
        server.live.close()
        server.shutdown()


def test_a_port_that_is_taken_is_told(server: LiveServer) -> None:
    with pytest.raises(UserError, match=r"127.0.0.1:\d+: E0005 .*; give another --port"):
        LiveServer(Live(), server.server_port)


@given(st.text(max_size=50))
def test_pages_that_differ_have_other_versions_and_any_text_can_be_served(text: str) -> None:
    assert PageState(text).version == PageState(text).version != PageState(text + ".").version
    assert live_text(PageState(f"{text}</body>")).startswith(text)
