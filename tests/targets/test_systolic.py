"""The systolic machine: nothing waits or posts, its interlocks order three queues, and networks run on it exactly."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.graph.onnx_builder import model, n, save
from tests.random_programs import random_state
from tests.target_runs import execute, random_int8, read, timed
from tests.verify.builds import build
from toolchain.analysis.checks import check_program
from toolchain.analysis.interlock import program_tokens
from toolchain.analysis.state import new_state
from toolchain.emulator import numpy_engine
from toolchain.isa.assembly import assemble
from toolchain.isa.program import program_queues
from toolchain.runtime.open_region import region_image
from toolchain.spec.errors import Source, UserError
from toolchain.spec.load import load_text
from toolchain.spec.model import Machine
from toolchain.timing.cost import Costs, Ports
from toolchain.timing.simulate import simulate
from toolchain.timing.usage import critical_path
from toolchain.verify.ladder import verify_model
from toolchain.verify.reference_sample import SampleSize

MACHINES = Path(__file__).resolve().parents[1] / "data" / "machines"
TEXT = (MACHINES / "systolic.yaml").read_text()
INTERLOCK = "    granularity: {dram: 256}\n"
PROGRAM = """
MVIN memory=spad place=0 length=48 address=0
MVIN memory=acc place=0 length=16 address=128 step=0
PRELOAD source=16
COMPUTE source=0 target=0 height=16 out_height=16
MVOUT place=0 length=16 address=256 shift=9
MVIN memory=spad place=0 length=16 address=256
PRELOAD source=32
MVIN memory=acc place=0 length=16 address=128 step=0
COMPUTE source=0 target=0 height=16 out_height=16
MVOUT place=0 length=16 address=256 shift=9
END
"""
"""Two layers of a matrix of sixteen rows. The second one's input takes the place of the first one's, in DRAM, scratchpad and accumulators."""
COUPLED = """    pairs:
      - {from: load, to: execute}
      - {from: load, to: store}
      - {from: execute, to: load}
      - {from: execute, to: execute}
      - {from: execute, to: store, memories: [acc], lag: LAG}
      - {from: store, to: load}
      - {from: store, to: execute}
"""
"""The store unit takes rows of sums while the array still makes the next ones."""


def systolic(*edits: tuple[str, str], **numbers: int) -> Machine:
    text = TEXT
    for old, new in edits:
        assert text.count(old) == 1
        text = text.replace(old, new)
    return load_text(text, "systolic.yaml", overrides={name: str(value) for name, value in numbers.items()})


@pytest.mark.parametrize("seed", [None, 1, 2, 3])
def test_two_layers_in_one_place(seed: int | None) -> None:
    x, w, b = random_int8(1, 16, 16), random_int8(2, 2, 16, 16), random_int8(3, 16) * 1000
    given = {"dram": {0: np.concatenate([x[None], w]).astype(np.int8), 128 * 64: b.astype(np.int32)}}
    state = execute(systolic(), PROGRAM, given, seed=seed)
    for weights in w:
        x = np.clip((x @ weights.T + b + 256) >> 9, -128, 127)
    np.testing.assert_array_equal(read(state, "dram", 256 * 16, (16, 16)), x)


@pytest.mark.parametrize(
    ("interlock", "race"),
    [
        ("    memories: [acc, array, dram]\n", "E0601 race on spad"),
        ("    memories: [spad, array, dram]\n", "E0601 race on acc"),
        ("    memories: [spad, acc]\n", "E0601 race on dram"),
        ("    looks_back: 1\n", "E0601 race on spad"),
        ("    pairs: [{from: load, to: execute}, {from: execute, to: store}]\n", "E0601 race on dram"),
    ],
)
def test_what_is_not_watched_is_a_race(interlock: str, race: str) -> None:
    machine = systolic((INTERLOCK, interlock))
    with pytest.raises(UserError, match=race):
        check_program(assemble(machine, Source("t.asm", PROGRAM)), new_state(machine), ["dram"])


def test_an_instruction_is_issued_when_the_window_has_room() -> None:
    cycles = [timed(assemble(machine, Source("t.asm", PROGRAM))).cycles for machine in (systolic(WINDOW=w) for w in (1, 2, 4, 16))]
    assert cycles == sorted(cycles, reverse=True)
    assert cycles[0] > cycles[-1]


def test_latency_binds_neighbours_that_depend_on_each_other() -> None:
    """Forty computes of one row each: into the same sums, or each into its own."""

    def cycles(latency: int, step: int) -> float:
        text = "\n".join(f"COMPUTE source=0 target={step * k} height=1 out_height=1" for k in range(40))
        return timed(assemble(systolic(LATENCY=latency, WINDOW=64), Source("t.asm", f"{text}\nEND\n"))).cycles

    assert cycles(0, 0) == cycles(0, 1) == 40
    assert cycles(32, 1) == 40 + 32
    assert cycles(32, 0) == 40 * (1 + 32)


def machines(folder: Path, text: str) -> Path:
    """A folder with the machine as a text has it, and its kernels."""
    found = folder / "machines"
    shutil.copytree(MACHINES / "systolic", found / "systolic")
    (found / "systolic.yaml").write_text(text)
    return found


def coupled(lag: int) -> Machine:
    return systolic((INTERLOCK, COUPLED.replace("LAG", str(lag))))


@pytest.mark.parametrize(("rows", "stored", "lag", "first", "second"), [(100, 100, 36, 36, 176), (100, 100, 500, 132, 272), (1000, 10, 5, 5, 1032)])
def test_coupled_units_run_side_by_side(rows: int, stored: int, lag: int, first: float, second: float) -> None:
    """The store takes 40 cycles and one a row. It starts when the array has begun, or at the latest when it is done; the next one when both are."""
    text = (
        f"COMPUTE source=0 target=0 height={rows} out_height={rows}\nMVOUT place=0 length={stored} address=0\nMVOUT place=0 length=1 address=1\nEND\n"
    )
    timeline = timed(assemble(coupled(lag), Source("t.asm", text)))
    assert timeline.result.start[1:3].tolist() == [first, second]
    assert sum(critical_path(timeline).values()) == pytest.approx(timeline.cycles)
    assert min(critical_path(timeline).values()) >= 0


@pytest.mark.parametrize("seed", [None, 1, 2])
def test_coupled_units_leave_the_same(seed: int | None) -> None:
    x, w, b = random_int8(1, 16, 16), random_int8(2, 2, 16, 16), random_int8(3, 16) * 1000
    given = {"dram": {0: np.concatenate([x[None], w]).astype(np.int8), 128 * 64: b.astype(np.int32)}}
    one, other = execute(systolic(), PROGRAM, given, seed=seed), execute(coupled(4), PROGRAM, given, seed=seed)
    assert np.array_equal(one.memories["dram"], other.memories["dram"])


@pytest.mark.parametrize("machine", [systolic(), coupled(0), coupled(7)], ids=["systolic", "coupled", "coupled later"])
@given(seed=st.integers(0, 10_000))
@settings(max_examples=20, deadline=None)
def test_random_times_give_the_same_memory(machine: Machine, seed: int) -> None:
    """Starts in the order of an event simulation with random costs, whose every instruction that reads comes after the one that writes."""
    program, rng = assemble(machine, Source("t.asm", PROGRAM)), np.random.default_rng(seed)
    state, n = random_state(machine, seed), len(program)
    columns, empty = rng.integers(0, 50, (3, n)), np.zeros(0, np.int64)
    costs = Costs(columns[0], columns[1], columns[2], Ports((), empty), np.zeros(n + 1, np.int64), empty, empty, empty, empty)
    order = simulate(program_queues(program), program_tokens(program, state), costs, []).order
    expected = state.copy()
    numpy_engine.run(program, expected, np.arange(n))
    numpy_engine.run(program, state, order)
    assert np.array_equal(state.memories["dram"], expected.memories["dram"])


FENCED = "    memories: [spad, acc, array]\n"
"""What a reservation station compares: DRAM is not among it, so tensors that go through it need a fence."""


@pytest.mark.drawn(1)
@pytest.mark.parametrize(
    ("interlock", "fences"), [(INTERLOCK, 0), (COUPLED.replace("LAG", "4"), 0), (FENCED, 3)], ids=["all is compared", "coupled", "with fences"]
)
def test_digits_is_exact(interlock: str, fences: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = machines(tmp_path, TEXT.replace(INTERLOCK, interlock))
    monkeypatch.setenv("TILEWRIGHT_PATH", str(found))
    _, built, samples = build("systolic", "digits", tmp_path)
    verdict = verify_model(built, samples, SampleSize(instructions=8, elements=1, whole=0))
    assert verdict.exact
    assert len(verdict.regions) == 4
    assert all(not region.hazards for region in verdict.regions)
    programs = [region_image(built.bundle, region, built.machine).program for region in built.bundle.manifest.regions]
    names = [program.machine.instructions[kind].name for program in programs for kind in program.kind.tolist()]
    assert names.count("FENCE") == fences


@pytest.mark.drawn(1)
@pytest.mark.parametrize("rows", [1, 7, 120])
def test_a_matrix_product_takes_all_rows_in_one_run(rows: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TILEWRIGHT_PATH", str(MACHINES))
    rng = np.random.default_rng(0)
    weights = {name: rng.normal(0, 0.3, shape).astype(np.float32) for name, shape in {"w": (40, 50), "b": (50,), "v": (10, 50), "c": (10,)}.items()}
    nodes = [n("Gemm", ["x", "w", "b"], ["a"], "first"), n("Relu", ["a"], ["r"], "rectify"), n("Gemm", ["r", "v", "c"], ["y"], "second", transB=1)]
    path = save(model(nodes, {"x": [rows, 40]}, {"y": [rows, 10]}, weights), tmp_path)
    _, built, samples = build("systolic", str(path), tmp_path)
    (region,) = built.bundle.manifest.regions
    assert (region.images, region.runs(1)) == (rows, 1)
    assert verify_model(built, samples, SampleSize(instructions=8, elements=1, whole=0)).exact
