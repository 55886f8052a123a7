"""A line that is no message is answered as JSON-RPC says, and the session goes on; its end leaves no call without an answer."""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.commands.test_mcp import HELLO

pytest.importorskip("mcp")
from mcp.types import JSONRPCNotification, JSONRPCRequest, JSONRPCResponse

from toolchain.commands.mcp_lines import UnderWay

ROOT = Path(__file__).resolve().parents[2]
COMMAND = [sys.executable, "-m", "toolchain", "mcp"]
OPENED = [
    json.dumps({"jsonrpc": "2.0", "method": "initialize", "params": HELLO, "id": 7}),
    json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}),
]


def answers(*lines: str, words: Sequence[str] = ()) -> list[dict[str, Any]]:
    """All answers to lines, after which the input ends at once."""
    text = "".join(f"{line}\n" for line in lines)
    done = subprocess.run([*COMMAND, *words], input=text, stdout=-1, text=True, cwd=ROOT, timeout=60, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def request(method: str, number: int | str, **params: Any) -> str:
    return json.dumps({"jsonrpc": "2.0", "method": method, "params": params, "id": number})


@pytest.mark.parametrize(("line", "code"), [("no json", -32700), ('{"jsonrpc": "2.0", "id": 1', -32700), ("[1, 2]", -32600), ('{"id": 4}', -32600)])
def test_before_and_within_a_session(line: str, code: int) -> None:
    first, greeted, again, listed = answers(line, OPENED[0], "", OPENED[1], line, request("tools/list", 8))
    assert first == again
    assert (first["jsonrpc"], first["id"], first["error"]["code"]) == ("2.0", None, code)
    assert greeted["id"] == 7
    assert {tool["name"] for tool in listed["result"]["tools"]} == {"build", "check", "compare", "explain", "report"}


def test_calls_are_answered_after_the_end_of_the_input() -> None:
    calls = [request("tools/call", number, name="check", arguments={"machine": "vta"}) for number in (8, "nine", 8)]
    found = answers(*OPENED, *calls)
    assert sorted(str(answer["id"]) for answer in found) == ["7", "8", "8", "nine"]
    texts = [answer["result"]["content"][0]["text"] for answer in found[1:]]
    assert all(text.startswith("vta: ") for text in texts)


def test_a_call_that_takes_too_long_is_answered_with_its_deadline() -> None:
    call = request("tools/call", 8, name="report", arguments={"machine": "vta", "model": "digits"})
    told = answers(*OPENED, call, words=["--deadline", "1"])[1]["result"]
    assert told["isError"]
    assert told["content"][0]["text"].startswith("E0011 'report target=vta' was ended after 1 seconds")


def test_a_call_that_the_client_cancels_holds_nothing_up() -> None:
    call = request("tools/call", 8, name="report", arguments={"machine": "vta", "model": "digits"})
    cancelled = json.dumps({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 8}})
    assert [answer["id"] for answer in answers(*OPENED, call, cancelled)] == [7]


def test_a_client_that_is_gone_is_not_waited_for() -> None:
    """Its end of both pipes is closed, as where it has crashed."""
    call = request("tools/call", 8, name="report", arguments={"machine": "vta", "model": "digits"})
    with subprocess.Popen([*COMMAND, "--deadline", "3600"], stdin=-1, stdout=-1, stderr=-1, text=True, cwd=ROOT) as server:
        assert server.stdin
        assert server.stdout
        server.stdin.write("".join(f"{line}\n" for line in (*OPENED, call)))
        server.stdin.flush()
        server.stdout.readline()
        server.stdout.close()
        server.stdin.close()
        assert server.wait(timeout=20) == 0
        assert server.stderr
        assert server.stderr.read() == ""


def test_ids_are_settled_as_often_as_they_are_used() -> None:
    under_way = UnderWay()
    for number in (1, "1", 2):
        under_way.note_line(JSONRPCRequest(jsonrpc="2.0", method="ping", id=number))
    under_way.note_line(JSONRPCNotification(jsonrpc="2.0", method="notifications/cancelled", params={"requestId": 2}))
    under_way.note_answer(JSONRPCResponse(jsonrpc="2.0", id=1, result={}))
    under_way.note_answer(JSONRPCResponse(jsonrpc="2.0", id=3, result={}))
    assert under_way.numbers == ["1"]
