"""The Verilog of examples/rtl: clean, equal to the emulator in every byte and to the cycle model in every start, and mistakes in it are found.

docs/rtl.md runs `digits` on it.
"""

import re
import runpy
import shutil
import sys
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from cosimulation.header import header
from cosimulation.times import beside
from cosimulation.verilator import Failure, Run, build, lint, read_sources, simulate
from numpy.typing import NDArray
from onnx import helper

from bench.in_process import Compiled, Target
from tests.compiled_network import compile_network
from tests.graph.onnx_builder import model
from tests.random_fields import random_program as random_fields
from tests.random_programs import random_program, random_state
from tests.rtl_mutants import MUTANTS, WRONG_BYTES, WRONG_BYTES_BY_CHANCE, WRONG_TIME, Mutant, mutated, number
from toolchain.analysis.order import issue_order
from toolchain.analysis.state import State, new_state
from toolchain.emulator import reference
from toolchain.isa.assembly import assemble
from toolchain.isa.decode import decode
from toolchain.isa.program import Program
from toolchain.runtime.device import Bytes
from toolchain.runtime.executor import open_bundle
from toolchain.schedule.synchronisation.synchronise import synchronise
from toolchain.spec.errors import Source
from toolchain.spec.load import load_text
from toolchain.timing.simulate import time_state
from toolchain.verify.cosim import RecordedRun, RunRecorder, words_text

pytestmark = pytest.mark.skipif(not shutil.which("verilator"), reason="needs verilator: apt-get install verilator")
ROOT = Path(__file__).resolve().parents[1]
EXAMPLE = ROOT / "examples" / "rtl"
QUAD = Target(str(EXAMPLE / "targets" / "quad.yaml"))
SMALL = load_text((EXAMPLE / "targets" / "quad.yaml").read_text().replace("depth: 1 << 24", "depth: 1 << 16"), "quad.yaml")
"""With a DRAM that is soon written and compared; the same instructions."""
SOURCES = read_sources(QUAD.machine, EXAMPLE)
LATE = 3
"""Cycles in which the first instruction is read, put into a queue and taken; the model's begin at 0."""
INSTRUCTION_BYTES = 16
F = np.float32
Weights = NDArray[Any]


@cache
def hardware() -> Path:
    return build(SOURCES)


@cache
def mutants() -> Path:
    return build(mutated(SOURCES), like=hardware())


def residual() -> onnx.ModelProto:
    """One input 'x' [1, 5, 9, 7], one output [1, 6]: all that the machine does, in one program."""
    rng, node = np.random.default_rng(3), helper.make_node
    shapes = {"w1": (10, 5, 3, 3), "w2": (10, 10, 3, 3), "w3": (6, 10 * 5 * 4)}
    nodes = [
        node("Conv", ["x", "w1", "b1"], ["a"], "conv", pads=[1, 1, 1, 1]),
        node("Relu", ["a"], ["r"], "relu"),
        node("Conv", ["r", "w2"], ["c"], "second", pads=[1, 1, 1, 1]),
        node("Add", ["c", "r"], ["s"], "sum"),
        node("MaxPool", ["s"], ["p"], "pool", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
        node("Flatten", ["p"], ["f"], "flat"),
        node("Gemm", ["f", "w3"], ["y"], "logits", transB=1),
    ]
    weights = {name: (rng.normal(size=shape) / np.sqrt(np.prod(shape[1:]))).astype(F) for name, shape in shapes.items()}
    return model(nodes, {"x": [1, 5, 9, 7]}, {"y": None}, weights | {"b1": rng.normal(size=10).astype(F)})


def single(kind: str, rng: np.random.Generator) -> onnx.ModelProto:
    """A network of one operation of random sizes."""
    inside, outside, height, width = (int(n) for n in (rng.integers(1, 14), rng.integers(1, 14), rng.integers(4, 14), rng.integers(4, 14)))
    kernel, stride = int(rng.integers(1, 5)), int(rng.integers(1, 4))
    window = {"kernel_shape": [kernel] * 2, "strides": [stride] * 2, "pads": rng.integers(0, (kernel + 1) // 2, 4).tolist()}
    weights: dict[str, Weights] = {}
    if kind == "Conv":
        weights = {"w": rng.normal(size=(outside, inside, kernel, kernel)).astype(F), "b": rng.normal(size=outside).astype(F)}
        nodes = [helper.make_node("Conv", ["x", "w", "b"], ["y"], "only", **window)]
    elif kind == "MaxPool":
        nodes = [helper.make_node("MaxPool", ["x"], ["y"], "only", **window)]
    else:
        weights = {"z": rng.normal(size=(outside, inside, 1, 1)).astype(F)}
        nodes = [helper.make_node("Conv", ["x", "z"], ["c"], "one"), helper.make_node("Add", ["c", "c" if outside != inside else "x"], ["y"], "only")]
    return model(nodes, {"x": [1, inside, height, width]}, {"y": None}, weights)


def recorded(proto: onnx.ModelProto) -> RecordedRun:
    """The first program of a network, on one sample."""
    shape = [1, *(d.dim_value for d in proto.graph.input[0].type.tensor_type.shape.dim[1:])]
    samples = np.random.default_rng(2).normal(size=(4, *shape)).astype(F)
    compiled: Compiled = compile_network(proto, "net", QUAD, samples)
    recorder = RunRecorder()
    open_bundle(compiled.bundle, [QUAD.machine], recorder).run({"x": samples[0]})
    return next(iter(recorder.runs.values()))


@dataclass(frozen=True)
class Case:
    """A program with DRAM before and after it, uint8 [bytes], by the emulator."""

    program: Program
    before: Bytes
    after: Bytes

    def run(self, folder: Path, *more: str, seed: int | None = None, program: Path | None = None) -> Run:
        folder.mkdir(exist_ok=True)
        (folder / "before.bin").write_bytes(self.before.tobytes())
        (folder / "code.hex").write_bytes(words_text(self.program.streams[0], 8))
        return simulate(program or hardware(), QUAD.machine, folder / "code.hex", folder / "before.bin", *more, seed=seed)


def of_network(proto: onnx.ModelProto) -> Case:
    run = recorded(proto)
    return Case(run.image.program, run.before, run.after)


def of_program(program: Program, state: State) -> Case:
    before = state.memories["dram"][0].copy()
    reference.run(program, state, issue_order(program))
    return Case(program, before, state.memories["dram"][0])


FILL = """
LOAD memory=data length=1024 place=0 address=0
LOAD memory=vectors length=64 place=0 address=300
LOAD memory=weights length=512 place=0 address=400
WINDOW operation=product start=1 source=0 height=32 width=32 weight=7 vector=3 target=0 out_height=32 out_width=32
END
"""
"""Puts data into every memory on chip."""

CORNERS = """
LOAD memory=data length=8 place=0 address=0
LOAD memory=vectors length=2 place=0 address=300
LOAD memory=weights length=4 place=0 address=400 post=compute
WINDOW wait=load operation=product start=1 source=0 height=1 width=1 target=5 out_height=1 out_width=1
WINDOW operation=product start=0 source=1 height=1 width=1 target=5 weight=1 out_height=1 out_width=1
WINDOW operation=product start=0 source=2 height=1 width=1 target=5 weight=2 out_height=1 out_width=1
WINDOW operation=maximum start=1 source=0 height=2 width=2 left=1 top=1 kernel_h=2 kernel_w=2 target=6 out_height=3 out_width=3 post=store
STORE wait=compute place=5 length=10 address=4096 post=load
STORE place=5 length=10 shift=9 low=-5 high=100 address=4112
STORE place=5 length=10 shift=31 low=7 high=-7 address=4128
LOAD wait=store memory=data length=10 place=20 address=4096 post=compute
WINDOW wait=load operation=maximum start=1 source=20 height=1 width=10 target=100 out_height=1 out_width=10 post=store
STORE wait=compute place=100 length=10 address=4160
STORE place=5 length=1 shift=3 address=4176 post=load
LOAD wait=store memory=data length=1 place=40 address=4176 post=compute
WINDOW wait=load operation=maximum start=1 source=40 height=1 width=1 target=200 out_height=1 out_width=1 post=store
STORE wait=compute place=200 length=1 address=4192 post=store
END wait=store
"""
"""Sums that go on at once, a maximum of negative numbers, bounds in the wrong order, and ways through DRAM."""


@cache
def corners() -> Case:
    state = new_state(SMALL)
    state.memories["dram"][0] = random_state(SMALL, 1).memories["dram"][0]
    return of_program(assemble(SMALL, Source("corners.asm", CORNERS)), state)


@cache
def of_residual() -> Case:
    return of_network(residual())


def starts_late(case: Case, run: Run) -> set[int]:
    """By how many cycles after the model's instructions start."""
    late = beside(run, time_state(case.program, new_state(case.program.machine))).late
    return {*np.concatenate(list(late.values())).tolist()}


def test_it_is_clean() -> None:
    lint(SOURCES)
    wider = SOURCES.files["window.v"].replace("wire [2:0] stride", "wire [3:0] stride")
    with pytest.raises(Failure, match="stride"):
        lint(replace(SOURCES, files=SOURCES.files | {"window.v": wider}))


def test_the_header_places_every_field() -> None:
    """Against the encoder, on random instructions."""
    places = {name: (int(high), int(low)) for name, high, low in re.findall(r"^`define (\w+) (\d+):(\d+)$", header(QUAD.machine), re.M)}
    program = random_fields(QUAD.machine, 5)
    for kind, instruction in enumerate(QUAD.machine.instructions):
        for row, index in enumerate(np.flatnonzero(program.kind == kind).tolist()):
            bits = int.from_bytes(program.streams[0][INSTRUCTION_BYTES * index :][:INSTRUCTION_BYTES], "little")
            for field in instruction.fields:
                high, low = places.get(f"{instruction.name}_{field.name.upper()}") or places[f"ANY_{field.name.upper()}"]
                stored = int(program.columns[kind][field.name][row]) % (1 << field.bits)
                assert bits >> low & (1 << high - low + 1) - 1 == stored, (instruction.name, field.name)


def test_a_network_leaves_the_same_bytes_in_the_same_cycles(tmp_path: Path) -> None:
    case = of_residual()
    run = case.run(tmp_path)
    np.testing.assert_array_equal(run.after, case.after)
    found = beside(run, time_state(case.program, new_state(QUAD.machine)))
    assert starts_late(case, run) == {LATE}
    assert found.cycles == found.modelled + LATE


@pytest.mark.parametrize("seed", range(4))
def test_latencies_change_no_byte(seed: int, tmp_path: Path) -> None:
    for case in (of_residual(), corners()):
        np.testing.assert_array_equal(case.run(tmp_path, seed=seed).after, case.after)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kind", ["Conv", "MaxPool", "Add"])
def test_single_operations(kind: str, seed: int, tmp_path: Path) -> None:
    case = of_network(single(kind, np.random.default_rng(seed)))
    run = case.run(tmp_path)
    np.testing.assert_array_equal(run.after, case.after)
    assert starts_late(case, run) == {LATE}
    np.testing.assert_array_equal(case.run(tmp_path, seed=seed).after, case.after)


@pytest.mark.parametrize("seed", range(3))
def test_random_instructions(seed: int, tmp_path: Path) -> None:
    """Field values that no kernel emits, from a full machine on, with tokens that are derived."""
    fill = assemble(SMALL, Source("fill.asm", FILL)).streams[0][:-INSTRUCTION_BYTES]
    state = new_state(SMALL)
    state.memories["dram"][0] = random_state(SMALL, seed).memories["dram"][0]
    plain = decode(SMALL, [fill + random_program(SMALL, seed, 60, 1.0).streams[0]])
    case = of_program(synchronise(plain, state).program, state)
    run = case.run(tmp_path)
    np.testing.assert_array_equal(run.after, case.after)
    assert starts_late(case, run) == {LATE}
    np.testing.assert_array_equal(case.run(tmp_path, seed=seed).after, case.after)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("LOAD wait=compute length=1 place=0 address=0\nEND\n", "stands still since cycle 3"),
        ("LOAD length=2 place=0 address=63\nEND\n", "word 64 is past"),
    ],
    ids=["lost-token", "end-of-dram"],
)
def test_a_program_that_cannot_end_is_told(text: str, told: str, tmp_path: Path) -> None:
    program = assemble(QUAD.machine, Source("wrong.asm", text))
    with pytest.raises(Failure, match=told):
        Case(program, np.zeros(256, np.uint8), np.zeros(256, np.uint8)).run(tmp_path)


def test_the_command_names_the_program_that_it_needs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    monkeypatch.setattr(sys, "argv", ["run"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(EXAMPLE / "run"), run_name="__main__")
    assert ended.value.code == 2
    assert "no program 'verilator'" in capsys.readouterr().err


def is_right(case: Case, mutant: Mutant | None, folder: Path, seed: int | None = None) -> bool:
    try:
        run = case.run(folder, f"+mutant={number(mutant) if mutant else 0}", seed=seed, program=mutants())
    except Failure:
        return False
    return np.array_equal(run.after, case.after)


@pytest.mark.parametrize("mutant", WRONG_BYTES, ids=lambda mutant: mutant.name.replace(" ", "-"))
def test_mistakes_leave_other_bytes(mutant: Mutant, tmp_path: Path) -> None:
    assert not (is_right(corners(), mutant, tmp_path) and is_right(of_residual(), mutant, tmp_path))


def test_a_lost_order_shows_with_other_latencies(tmp_path: Path) -> None:
    assert not all(is_right(corners(), WRONG_BYTES_BY_CHANCE, tmp_path, seed) for seed in range(8))


def test_a_mistake_that_changes_time_alone_shows_beside_the_model(tmp_path: Path) -> None:
    case = of_residual()
    run = case.run(tmp_path, f"+mutant={number(WRONG_TIME)}", program=mutants())
    np.testing.assert_array_equal(run.after, case.after)
    assert starts_late(case, run) != {LATE}


def test_without_a_choice_no_mistake_is_made(tmp_path: Path) -> None:
    assert is_right(corners(), None, tmp_path)
    assert is_right(of_residual(), None, tmp_path)
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)
