"""A region as code of a vendor's own compiler: it gets an ONNX file, and answers with bytes that only its device understands."""

import os
import signal
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path

import onnx

from toolchain.codegen.generator import RegionCode
from toolchain.codegen.json_graph import graph_cycles, half_region, place_border
from toolchain.graph.regions import GraphRegion, onnx_of
from toolchain.schedule.backend import Backend
from toolchain.schedule.form.schedule import Schedule
from toolchain.schedule.regions.region import Region
from toolchain.spec.errors import UserError, fail
from toolchain.spec.model import Machine, Tool

VARIABLE = "TILEWRIGHT_TOOLS"
"""Names the programs that machines' files may start, separated as in PATH: a machine's file alone never starts one."""
GRAPH, CODE = "region.onnx", "region.bin"
SHOWN = 300
"""Bytes of a tool's last words that a message repeats."""


def tool_path(machine: Machine, name: str) -> Path:
    """The program of that name among those that the user names. Raises UserError E1116 where it is not there."""
    named = [Path(text) for text in os.environ.get(VARIABLE, "").split(os.pathsep) if text]
    found = next((path for path in named if path.name == name), None)
    if found is None:
        hint = f"if you trust it, set {VARIABLE} to its path"
        raise fail("E1116", f"machine '{machine.name}' needs its vendor's program '{name}', which {VARIABLE} does not name", hint=hint)
    if not found.is_file() or not os.access(found, os.X_OK):
        raise fail("E1116", f"{VARIABLE} names '{found}', which is no program that can be started")
    return found.absolute()


class ToolGenerator:
    """The generator of machines with `codegen: tool`."""

    def generate(self, backend: Backend, region: Region | GraphRegion, schedule: Schedule | None = None) -> RegionCode:
        """Raises UserError E1116 where the user names no such compiler, E1117 where it fails."""
        assert isinstance(region, GraphRegion)
        assert schedule is None
        machine, tool = backend.machine, backend.machine.tool
        assert tool is not None
        model = onnx_of(half_region(region) if machine.half else region)
        blob = run_compiler(tool_path(machine, tool.compiler), tool, model.SerializeToString(), region.name)
        return RegionCode(
            target=machine.name,
            suffix="bin",
            blob=blob,
            source=onnx.printer.to_text(model.graph),
            map=place_border(region),
            constants={},
            images=1,
            cycles=graph_cycles(backend, region),
        )


def run_compiler(program: Path, tool: Tool, model: bytes, region: str) -> bytes:
    """The code that `PROGRAM region.onnx region.bin ARGUMENTS` writes, in a folder of its own. Raises UserError E1117 for every other end."""
    with tempfile.TemporaryDirectory(prefix="tilewright-") as folder:
        graph, code = Path(folder, GRAPH), Path(folder, CODE)
        graph.write_bytes(model)
        log = Path(folder, "log")
        try:
            ended = _ended([str(program), GRAPH, CODE, *tool.arguments], Path(folder), log, tool.seconds)
        except OSError as error:
            raise _failed(tool, region, f"cannot be started: {error.strerror}", log) from None
        if ended is None:
            raise _failed(tool, region, f"takes longer than {tool.seconds} s", log)
        if ended:
            raise _failed(tool, region, f"ends with code {ended}", log)
        size = code.stat().st_size if code.is_file() and not code.is_symlink() else 0
        if not 0 < size <= tool.megabytes * 10**6:
            raise _failed(tool, region, f"writes {size} bytes of code, and may write 1 to {tool.megabytes} MB", log)
        return code.read_bytes()


def _ended(command: list[str], folder: Path, log: Path, seconds: int) -> int | None:
    """The code with which a command ends, None where it does not in time; then all processes that it started are stopped. Raises OSError."""
    with log.open("wb") as words:
        process = subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=words, stderr=subprocess.STDOUT, start_new_session=True)
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        return None
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _failed(tool: Tool, region: str, text: str, log: Path) -> UserError:
    with log.open("rb") as file:
        file.seek(0, os.SEEK_END)
        file.seek(max(file.tell() - SHOWN, 0))
        lines = file.read().decode("utf-8", "replace").split("\n")
    said = next((line.strip() for line in reversed(lines) if line.strip()), "")
    return fail("E1117", f"the vendor's compiler '{tool.compiler}' {text}, on region '{region}'{f': {said}' if said else ''}")
