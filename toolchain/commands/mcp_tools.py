"""The tools of `tilewright mcp`: each runs a command in a process of its own, and answers with its text or JSON."""

import asyncio
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.stdio import stdio_server
from mcp.types import CallToolResult, InputRequiredResult, TextContent, ToolAnnotations
from pydantic import Field

from toolchain import __version__
from toolchain.commands.confined import MOST, Confined, Finished, run_command
from toolchain.commands.mcp_lines import Answers, Messages, UnderWay, is_read
from toolchain.spec.errors import UserError, fail, nearest
from toolchain.spec.files import read_limited

ABOUT = (
    "Machines and networks of tilewright, the software stack of a DNN accelerator made from one YAML file. Paths are relative to the served folder."
)
Words = Annotated[str, Field(description="a machine: its name, NAME:CONFIG, or the path of its file")]
Network = Annotated[str, Field(description="a network: its name, or the path of its .onnx or .yaml file")]
Sides = Annotated[
    list[str],
    Field(min_length=2, max_length=8, description="two to eight of one kind: machines, or builds (build/MACHINE/MODEL), reports, bundles, schedules"),
]
AGAIN_SECONDS = 1.0
Variables = Mapping[str, str | int]
Further = Annotated[dict[str, str | int] | None, Field(description='further variables, such as {"place": "all", "params": "NAME:VALUE"}')]


@dataclass(frozen=True)
class Tools:
    """confined: the folder that is served. scratch: a folder of the server's own, for stages of builds that may not be written into the other.
    deadline: of a command, in seconds."""

    confined: Confined
    scratch: Path
    allow_build: bool
    deadline: int

    async def check(
        self,
        context: Context,
        machine: Words = "",
        program: Annotated[str, Field(description="a program of that machine: .asm, .hex, .two or raw bytes")] = "",
        model: Network = "",
    ) -> CallToolResult:
        """Every check of a machine's file; with `program`, races, deadlocks and bad addresses in it; of `model` instead, its file and graph."""
        try:
            words = self._checked(machine, program, model)
            return _answered(await self._run(context, words, self.confined.root))
        except UserError as error:
            return _failed(str(error))

    def _checked(self, machine: str, program: str, model: str) -> list[str]:
        """Raises UserError E0002 where neither a machine nor a model is given, or both are."""
        word = self.confined.word
        match bool(machine), bool(program), bool(model):
            case True, False, False:
                return ["target", "check", word(machine)]
            case True, True, False:
                return ["check", word(machine), word(program)]
            case False, False, True:
                return ["model", "check", word(model)]
            case _:
                raise fail("E0002", "check takes a machine, a machine and a program, or a model")

    async def explain(self, context: Context, machine: Words, model: Network, variables: Further = None) -> CallToolResult:
        """Where a network's time would go on a machine, why nodes are on the host, and what to change; nothing is compiled."""
        return await self._task(context, "explain", machine, model, variables)

    async def report(self, context: Context, machine: Words, model: Network, variables: Further = None) -> CallToolResult:
        """Cost, accuracy and exactness of a network on a machine, operation by operation; compiles and runs it, which may take minutes."""
        return await self._task(context, "report", machine, model, variables)

    async def build(self, context: Context, machine: Words, model: Network, variables: Further = None) -> CallToolResult:
        """Compiles a network for a machine into `build/` of the served folder; the server has to be started with --allow-build."""
        if not self.allow_build:
            return _failed(str(fail("E0010", "this server does not build", hint="start it with --allow-build")))
        return await self._task(context, "build", machine, model, variables)

    async def compare(self, context: Context, sides: Sides) -> CallToolResult:
        """The differences between machines, builds or schedules, as JSON."""
        try:
            with TemporaryDirectory(dir=self.scratch) as folder:
                data = Path(folder) / "compared.json"
                words = ["compare", "--json", str(data), *map(self.confined.word, sides)]
                done = await self._run(context, words, self.confined.root)
                if not done.code:
                    done = Finished(0, read_limited(data, MOST, "the comparison").decode(), "")
            return _answered(done)
        except UserError as error:
            return _failed(str(error))

    async def _task(self, context: Context, task: str, machine: str, model: str, further: Variables | None) -> CallToolResult:
        """Below the served folder where it may be written into, else in the server's own."""
        try:
            named = {"target": machine, "model": model}
            if twice := sorted({*named} & {*(further or {})}):
                raise fail("E0002", f"'{twice[0]}' is no further variable", hint="the arguments machine and model say it")
            given = named | {name: str(value) for name, value in (further or {}).items()}
            words = self.confined.variables(given)
            if not self.allow_build:
                words = [f"{name}={value}" for name, value in self.confined.absolute(given).items()]
            elif not (self.confined.root / "build").resolve().is_relative_to(self.confined.root):
                raise fail("E0010", "'build' is outside the folder that is served", hint="it is a link; builds go below the folder alone")
            return _answered(await self._run(context, [task, *words], self.confined.root if self.allow_build else self.scratch))
        except UserError as error:
            return _failed(str(error))

    async def _run(self, context: Context, words: Sequence[str], folder: Path) -> Finished:
        said = 0

        async def say(line: str) -> None:
            nonlocal said
            said += 1
            await context.report_progress(said, message=line)

        return await run_command(words, folder, self.deadline, say, self.confined.search_paths())


def _answered(done: Finished) -> CallToolResult:
    """Standard output; of a command that failed, all that it told."""
    if done.code:
        return _failed(done.told + done.answer)
    return CallToolResult(content=[TextContent(type="text", text=done.answer)])


def _failed(text: str) -> CallToolResult:
    return CallToolResult(content=[TextContent(type="text", text=text)], is_error=True)


def serve_tools(tools: Tools) -> None:
    """Serves on standard input and output until the input ends and its calls are answered. Raises KeyboardInterrupt on SIGINT and SIGTERM, once
    commands under way are gone."""
    try:
        asyncio.run(_serve(_tool_server(tools)))
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None
    finally:
        _reap_children()


async def _serve(server: MCPServer[None]) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, _cancel_tasks, loop)
    await server.run_stdio_async()


def _reap_children() -> None:
    """Waits for commands that were killed: the library cancels, over and over, whoever awaits their end."""
    with suppress(ChildProcessError):
        while True:
            os.waitpid(-1, 0)


def _cancel_tasks(loop: asyncio.AbstractEventLoop) -> None:
    """Each by itself, the reader of standard input too: a cancelled group would wait for its next line. Again later, for tasks that were starting."""
    for task in asyncio.all_tasks(loop):
        task.cancel()
    loop.call_later(AGAIN_SECONDS, _cancel_tasks, loop)


class _Server(MCPServer[None]):
    """Refuses arguments that a tool has not got, which the library would drop, and answers lines that are no messages, and calls after the input's
    end."""

    async def run_stdio_async(self) -> None:
        """As the library's own, but for lines that are no messages, and for the end of the input."""
        server = self._lowlevel_server
        output = os.dup(sys.stdout.fileno())  # the library puts standard error in the place of standard output
        try:
            async with stdio_server() as (lines, stream):
                answers = Answers(stream, UnderWay())
                await server.run(Messages(lines, answers, partial(is_read, output)), answers, server.create_initialization_options())
        except* BrokenPipeError:
            pass  # the client is gone, and with it the reader of the last answers
        finally:
            os.close(output)

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: Context[None, Any] | None = None
    ) -> CallToolResult | InputRequiredResult:
        for tool in await self.list_tools():
            known = list(tool.input_schema["properties"])
            if tool.name == name and (strange := [each for each in arguments if each not in known]):
                hint = nearest(strange[0], known) or f"it takes {', '.join(known)}"
                return _failed(str(fail("E0002", f"'{name}' takes no argument '{strange[0][:80]}'", hint=hint)))
        return await super().call_tool(name, arguments, context)


def _tool_server(tools: Tools) -> MCPServer[None]:
    """The server, which says nothing on standard error but warnings."""
    server = _Server("tilewright", instructions=ABOUT, version=__version__, log_level="WARNING")
    for tool in (tools.check, tools.explain, tools.report, tools.compare):
        server.add_tool(tool, annotations=ToolAnnotations(read_only_hint=True), structured_output=False)
    server.add_tool(tools.build, annotations=ToolAnnotations(read_only_hint=False, destructive_hint=False), structured_output=False)
    return server
