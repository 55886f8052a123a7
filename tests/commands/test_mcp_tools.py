"""A client of the Model Context Protocol speaks to `tilewright mcp` on standard input and output."""

import asyncio
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp")
from mcp import Client, StdioServerParameters, stdio_client
from mcp.server.mcpserver import Context
from mcp.types import CallToolResult, TextContent

from toolchain.commands import mcp_tools
from toolchain.commands.confined import Confined, Finished
from toolchain.commands.mcp_tools import Tools

ROOT = Path(__file__).resolve().parents[2]
BROKEN = "target: {name: x, summary: y}\nunits: {laod: {}}\nbogus: 1\n"
NETWORK = {"machine": "clib32", "model": "digits"}
READING: dict[str, tuple[str, Mapping[str, Any]]] = {
    "machine": ("check", {"machine": "vta"}),
    "broken": ("check", {"machine": "broken.yaml"}),
    "both": ("check", {"machine": "vta", "model": "digits"}),
    "outside": ("check", {"machine": "../secret.yaml"}),
    "twice": ("explain", NETWORK | {"variables": {"target": "vta"}}),
    "misspelt": ("explain", NETWORK | {"variabels": {"place": "all"}}),
    "alone": ("compare", {"sides": ["vta"]}),
    "compared": ("compare", {"sides": ["clib", "clib32"]}),
    "built": ("build", NETWORK),
}
BUILDING: dict[str, tuple[str, Mapping[str, Any]]] = {"built": ("build", NETWORK)}


async def _session(folder: Path, calls: Mapping[str, tuple[str, Mapping[str, Any]]], *words: str) -> tuple[list[str], dict[str, CallToolResult]]:
    """The tools' names, and the answers of calls at once."""
    server = StdioServerParameters(
        command=sys.executable, args=["-m", "toolchain", "mcp", "--folder", str(folder), *words], env={"PYTHONPATH": str(ROOT)}, cwd=ROOT
    )
    async with Client(stdio_client(server)) as client:
        listed = [tool.name for tool in (await client.list_tools()).tools]
        answers = await asyncio.gather(*(client.call_tool(name, dict(given)) for name, given in calls.values()))
    return listed, dict(zip(calls, answers, strict=True))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("served") / "root"
    folder.mkdir()
    (folder / "broken.yaml").write_text(BROKEN)
    (folder.parent / "secret.yaml").write_text("secret: text\n")
    return folder


@pytest.fixture(scope="module")
def session(folder: Path) -> tuple[list[str], dict[str, CallToolResult]]:
    return asyncio.run(_session(folder, READING))


def _text(answer: CallToolResult) -> str:
    (content,) = answer.content
    assert isinstance(content, TextContent)
    return content.text


def test_the_tools_are_listed(session: tuple[list[str], dict[str, CallToolResult]]) -> None:
    assert sorted(session[0]) == ["build", "check", "compare", "explain", "report"]


def test_what_only_reads_answers_and_writes_nothing(session: tuple[list[str], dict[str, CallToolResult]], folder: Path) -> None:
    answers = session[1]
    assert not [name for name in ("machine", "compared") if answers[name].is_error]
    assert _text(answers["machine"]).startswith("vta: 5 instructions, 5 memories, 3 units: no errors\n")
    assert '"figures"' in _text(answers["compared"])
    assert [path.name for path in folder.iterdir()] == ["broken.yaml"]


def test_mistakes_are_errors_of_the_tool_with_their_whole_text(session: tuple[list[str], dict[str, CallToolResult]]) -> None:
    answers = session[1]
    assert all(answers[name].is_error for name in ("broken", "both", "outside", "built", "twice", "misspelt", "alone"))
    assert "broken.yaml:3:1: E0108 unknown key 'bogus'\nbogus: 1\n^\n" in _text(answers["broken"])
    assert _text(answers["both"]) == "E0002 check takes a machine, a machine and a program, or a model"
    assert _text(answers["twice"]) == "E0002 'target' is no further variable; the arguments machine and model say it"
    assert _text(answers["misspelt"]) == "E0002 'explain' takes no argument 'variabels'; did you mean 'variables'?"
    refused = "E0010 '../secret.yaml' is outside the folder that is served; give a name, or a path below that folder"
    assert _text(answers["outside"]) == refused
    assert _text(answers["built"]) == "E0010 this server does not build; start it with --allow-build"


def test_a_build_that_is_allowed_is_below_the_folder(folder: Path) -> None:
    _, answers = asyncio.run(_session(folder, BUILDING, "--allow-build"))
    assert not answers["built"].is_error
    assert "digits on clib32" in _text(answers["built"])
    assert (folder / "build/clib32/digits/bundle/digits.bundle").is_file()


@pytest.mark.parametrize("allowed", [False, True])
def test_stages_are_written_into_the_folder_only_where_that_is_allowed(allowed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root, scratch, runs = tmp_path / "root", tmp_path / "scratch", list[tuple[list[str], Path]]()
    root.mkdir()
    (root / "own.yaml").write_text("")

    async def run(words: list[str], folder: Path, *_: object) -> Finished:
        runs.append((words, folder))
        return Finished(0, "told", "")

    monkeypatch.setattr(mcp_tools, "run_command", run)
    tools = Tools(Confined(root.resolve()), scratch, allowed, 1)
    assert _text(asyncio.run(tools.explain(Context(), "own.yaml", "digits", {"place": "all", "streams": 1}))) == "told"
    machine = "own.yaml" if allowed else f"{root}/own.yaml"
    assert runs == [(["explain", f"target={machine}", "model=digits", "place=all", "streams=1"], root if allowed else scratch)]
    (root / "build").symlink_to(tmp_path)
    answer = asyncio.run(tools.report(Context(), "own.yaml", "digits"))
    assert answer.is_error == allowed
    assert ("E0010 'build' is outside the folder that is served" in _text(answer)) == allowed
