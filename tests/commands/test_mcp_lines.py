"""A line that is no message is answered as JSON-RPC says, and the session goes on."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.commands.test_mcp import HELLO

pytest.importorskip("mcp")
ROOT = Path(__file__).resolve().parents[2]


def answers(count: int, *lines: str) -> list[dict[str, Any]]:
    """The first answers; the library forgets those that are not given yet when its input ends."""
    with subprocess.Popen([sys.executable, "-m", "toolchain", "mcp"], stdin=-1, stdout=-1, text=True, cwd=ROOT) as server:
        assert server.stdin
        assert server.stdout
        server.stdin.write("".join(f"{line}\n" for line in lines))
        server.stdin.flush()
        found = [json.loads(server.stdout.readline()) for _ in range(count)]
        server.stdin.close()
        assert server.wait(timeout=20) == 0
    return found


def request(method: str, number: int, **params: Any) -> str:
    return json.dumps({"jsonrpc": "2.0", "method": method, "params": params, "id": number})


@pytest.mark.parametrize(("line", "code"), [("no json", -32700), ('{"jsonrpc": "2.0", "id": 1', -32700), ("[1, 2]", -32600), ('{"id": 4}', -32600)])
def test_before_and_within_a_session(line: str, code: int) -> None:
    hello = json.dumps({"jsonrpc": "2.0", "method": "initialize", "params": HELLO, "id": 7})
    begun = json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"})
    first, greeted, again, listed = answers(4, line, hello, "", begun, line, request("tools/list", 8))
    assert first == again
    assert (first["jsonrpc"], first["id"], first["error"]["code"]) == ("2.0", None, code)
    assert greeted["id"] == 7
    assert {tool["name"] for tool in listed["result"]["tools"]} == {"build", "check", "compare", "explain", "report"}
