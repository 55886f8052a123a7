"""Programs that exist, with their tokens taken away and derived anew; and random ones on every machine."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

from bench.workloads import resnet18_c2
from tests.random_programs import random_program, random_state
from tests.schedule.laws import assert_every_token_counts, derive, posted, token_pairs
from tests.small_machines import small_machine
from tests.target_runs import timed
from toolchain.analysis.checks import check_program
from toolchain.analysis.state import State, new_state
from toolchain.isa.assembly import assemble
from toolchain.isa.decode import decode
from toolchain.isa.program import Program
from toolchain.isa.program_file import load_program
from toolchain.schedule.synchronisation.list_schedule import is_reordered
from toolchain.schedule.synchronisation.synchronise import synchronise
from toolchain.spec.errors import Source, UserError
from toolchain.spec.load import load_machine

DATA = Path(__file__).resolve().parents[1] / "data"
RIPPLE = str(DATA / "machines" / "ripple.yaml")
SMALL = {
    "vta": {"LOG_DRAM": "20"}, "dpuv3": {"LOG_DDR": "20", "PES": "2"}, "dnnvm": {"LOG_DDR": "20"}, "stcp920": {"LOG_DDR": "20"}, RIPPLE: {},
}  # fmt: skip
"""Every machine, with little memory to compare."""
VENDOR = {"conv1_pool1_fused": (85, 63, 58), "resnet50_hand": (295, 295, 266), "resnet50_compiled_plain": (252, 268, 245)}
"""Tokens as the vendor has them, as derived for counters without limit, and for those of the machine's file."""


RETURN = """
LOAD memory_type=acc sram_base=0 dram_base=64 y_size=1 x_size=4 x_stride=4
STORE memory_type=out sram_base=0 dram_base=2048 y_size=1 x_size=4 x_stride=4
LOAD memory_type=inp sram_base=0 dram_base=2048 y_size=1 x_size=4 x_stride=4
FINISH
"""


def golden(path: Path) -> tuple[Program, State]:
    machine, data = small_machine("vta"), np.load(path)
    state = new_state(machine)
    state.memories["dram"][0, : len(data["dram_before"])] = data["dram_before"]
    return decode(machine, [data["insns"].tobytes()]), state


def assert_no_worse(program: Program, state: State) -> Program:
    """No more tokens than the program has of its own, and no more cycles."""
    found = derive(program, state, (None,)) if len(program) < 100 else synchronise(program, state)
    assert check_program(found.program, state).warnings == ()
    assert len(found.program) == len(program)
    assert found.tokens <= posted(program)
    assert timed(found.program).cycles <= timed(program).cycles
    return found.program


@pytest.mark.parametrize("path", sorted((DATA / "vta_golden").glob("c*.npz")), ids=lambda path: path.stem)
def test_convolutions_of_the_goldens(path: Path) -> None:
    program, state = golden(path)
    found = assert_no_worse(program, state)
    pairs = list(token_pairs(found))
    assert_every_token_counts(found, state, pairs[::8])


def test_a_layer_of_a_network() -> None:
    work = resnet18_c2()
    found = assert_no_worse(work.program, work.state)
    assert_every_token_counts(found, work.state, list(token_pairs(found))[::40])


@pytest.mark.parametrize("name", VENDOR)
def test_vendor_programs(vendor_streams: Path, name: str) -> None:
    machine = load_machine("dpuv3", overrides={"EDGE_DEPTH": "0", "QUEUE_DEPTH": "0"})
    program, state = load_program(machine, vendor_streams / f"{name}.hex"), new_state(machine)
    found = synchronise(program, state)
    assert check_program(found.program, state).warnings == ()
    assert (posted(program), found.tokens) == VENDOR[name][:2]
    assert timed(found.program).cycles <= timed(program).cycles
    pairs = [pair for pair in token_pairs(found.program) if pair[0] != "edge.save.save"]  # the end's own: its queue runs in order
    assert_every_token_counts(found.program, state, pairs[:: len(pairs) // 4])


@pytest.mark.parametrize("name", VENDOR)
def test_vendor_programs_with_short_counters(vendor_streams: Path, name: str) -> None:
    """Tokens merge, which may leave one that another implies; the program is race-free, and no slower than the vendor's."""
    machine = load_machine("dpuv3")
    program, state = load_program(machine, vendor_streams / f"{name}.hex"), new_state(machine)
    found = synchronise(program, state)
    assert check_program(found.program, state).warnings == ()
    assert found.tokens == VENDOR[name][2]
    assert timed(found.program).cycles <= timed(program).cycles


def test_what_orders_too_much_becomes_faster(vendor_streams: Path) -> None:
    program = load_program(load_machine("dpuv3"), vendor_streams / "resnet50_compiled_plain.hex")
    found = synchronise(program, new_state(program.machine)).program
    assert round(timed(program).milliseconds, 2) == 10.13
    assert round(timed(found).milliseconds, 2) == 9.42


@pytest.mark.drawn(2)
@pytest.mark.parametrize("name", SMALL, ids=lambda name: Path(name).stem)
@given(seed=st.integers(0, 10_000))
@example(seed=5642)  # a unit of dpuv3 that takes its work in another order
@settings(max_examples=3, deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate])
def test_random_programs_of_every_machine(name: str, seed: int) -> None:
    machine = load_machine(name, overrides=SMALL[name])
    program, state = random_program(machine, seed, 24, chained=1e-9), random_state(machine, seed)
    try:
        derive(program, state, moves=is_reordered(machine))
    except UserError as error:
        assert (name, error.diagnostics[0].code) == (RIPPLE, "E0520")  # noqa: PT017


def test_what_was_stored_comes_back_through_an_idle_instruction_of_the_unit_between() -> None:
    machine = load_machine("vta", overrides=SMALL["vta"])
    state = new_state(machine)
    state.memories["dram"][0] = np.arange(1 << 20) % 251
    found = derive(assemble(machine, Source("return.asm", RETURN)), state)
    assert found.source.tolist() == [0, 1, -1, 2, 3]
    assert list(token_pairs(found.program)) == [("l2g", 3, 4), ("g2l", 2, 3), ("g2s", 0, 1), ("s2g", 1, 2)]
