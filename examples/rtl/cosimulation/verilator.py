"""Verilog as a program, by Verilator, and runs of it.

A program is kept in the user's cache by its sources, so that it is compiled once.
"""

import hashlib
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import platformdirs

from cosimulation.header import header
from toolchain.runtime.device import Bytes
from toolchain.spec.model import Machine

LANGUAGE = ["--language", "1364-2005"]
HEADER = "fields.vh"
BENCH = "bench.cpp"
QUICK = ["OPT_FAST=-O1", "OPT_SLOW=-O0", "OPT_GLOBAL=-O0"]
"""Compiled in a second more than without any optimisation, and five times as quick."""
KEPT = ["-o verilated.o", "-o verilated_threads.o"]
"""Verilator's own parts, which are the same for all sources; make takes them to be old."""


@dataclass(frozen=True)
class Sources:
    """Verilog and the bench in C++ by file name, with the header of the machine's encoding. top: the module that is the machine."""

    top: str
    files: Mapping[str, str]

    @property
    def verilog(self) -> list[str]:
        return [name for name in self.files if name.endswith(".v")]

    def write(self, folder: Path) -> None:
        for name, text in self.files.items():
            (folder / name).write_text(text)


@dataclass(frozen=True)
class Run:
    """A run of the hardware. after: uint8 [bytes] of DRAM. starts: by unit, the cycle in which each of its instructions started, from 0 on."""

    cycles: int
    after: Bytes
    starts: Mapping[str, list[int]]


class Failure(Exception):  # noqa: N818
    """A tool that ended with an error, and what it said; or hardware that stands still."""


def read_sources(machine: Machine, folder: Path) -> Sources:
    """The sources in the folder of the example."""
    paths = [*sorted((folder / "verilog").glob("*.v")), folder / BENCH]
    return Sources(machine.name, {HEADER: header(machine)} | {path.name: path.read_text() for path in paths})


def lint(sources: Sources) -> None:
    """Raises Failure with Verilator's warnings, of which all are on."""
    with tempfile.TemporaryDirectory() as folder:
        sources.write(Path(folder))
        _call(["verilator", "--lint-only", "-Wall", *LANGUAGE, "--top-module", sources.top, *sources.verilog], Path(folder))


def build(sources: Sources, like: Path | None = None) -> Path:
    """The program of these sources. like: one of similar sources, whose compiled parts serve again where they are the same.

    Raises Failure for Verilog or C++ that does not compile."""
    version = subprocess.run(["verilator", "--version"], capture_output=True, text=True, check=True).stdout
    digest = hashlib.sha256(repr((version, sorted(sources.files.items()))).encode()).hexdigest()
    kept = Path(platformdirs.user_cache_dir("tilewright")) / "rtl" / digest[:32]
    program = kept / f"V{sources.top}"
    if program.is_file():
        return program
    kept.parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(dir=kept.parent))
    try:
        if like:
            shutil.copytree(like.parent, folder, dirs_exist_ok=True)
        sources.write(folder)
        make = " ".join(QUICK + (KEPT if like else []))
        flags = ["--x-initial", "unique", "-CFLAGS", "-std=c++17", "-MAKEFLAGS", make, "--top-module", sources.top]
        _call(["verilator", "--cc", "--exe", "--build", *LANGUAGE, "--Mdir", ".", *flags, *sources.verilog, BENCH], folder)
        folder.rename(kept)
    except OSError:  # another process was quicker
        if not program.is_file():
            raise
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return program


def simulate(program: Path, machine: Machine, code: Path, before: Path, *more: str, seed: int | None = None) -> Run:
    """Runs a program of instructions on the hardware. code: as `cosim write` leaves it for `$readmemh`. before: DRAM as raw bytes. seed: draws the
    latencies of DRAM, which are those of the machine's timing otherwise. more: further arguments, `+NAME=VALUE`.

    Raises Failure where the hardware stands still or leaves DRAM."""
    constants = {constant.name: constant.value for constant in machine.timing.constants}
    with tempfile.TemporaryDirectory() as folder:
        after, starts = Path(folder, "after.bin"), Path(folder, "starts.txt")
        given = {"code": code, "before": before, "after": after, "starts": starts}
        words = [*(f"+{name}={path}" for name, path in given.items()), *more]
        words += [f"+read={constants['READ_LATENCY']}", f"+write={constants['WRITE_LATENCY']}", *([] if seed is None else [f"+seed={seed}"])]
        printed = _call([str(program), *words])
        (cycles,) = re.findall(r"^(\d+) cycles$", printed, re.M)
        found: dict[str, list[int]] = {unit.name: [] for unit in machine.units}
        for line in starts.read_text().splitlines():
            unit, cycle = line.split()
            found[unit].append(int(cycle))
        return Run(int(cycles), np.fromfile(after, np.uint8), found)


def _call(command: Sequence[str], folder: Path | None = None) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Failure(f"{Path(command[0]).name}: {done.stderr or done.stdout}")
    return done.stdout
