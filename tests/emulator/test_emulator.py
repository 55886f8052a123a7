"""Every engine leaves the same memory behind, on random programs for every machine."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.random_programs import programs, random_program, random_state
from tests.small_machines import small_machine
from toolchain.analysis.checks import stale_reads
from toolchain.analysis.clocks import happens_before, sync_faults
from toolchain.analysis.footprints import footprints
from toolchain.analysis.in_place import control_conflicts
from toolchain.analysis.interlock import program_tokens
from toolchain.analysis.order import issue_order
from toolchain.analysis.races import Executed, hazards, relevant
from toolchain.analysis.state import State
from toolchain.emulator import native, numpy_engine, reference
from toolchain.isa.footprint.provenance import Provenance
from toolchain.isa.program import Ints, Program, queue_table
from toolchain.spec.load import list_targets, load_machine
from toolchain.spec.model import Machine

ROOT = Path(__file__).resolve().parents[2]
VARIANTS = [("vta", {"LOG_BATCH": "2", "LOG_BLOCK": "3"}), ("vta", {"LOG_BATCH": "1", "LOG_INP_WIDTH": "4", "SHR": "signed5"}), ("dnnvm:zu9", {})]
TARGETS = [(name, {}) for name in sorted(list_targets()) if load_machine(name).instructions]
TOYS = [(str(path), {}) for path in sorted((ROOT / "tests" / "data" / "machines").glob("*.yaml"))]
CASES = TARGETS + VARIANTS + TOYS
ENGINES: dict[str, Callable[[Program, State, Ints], None]] = {"numpy": numpy_engine.run} | ({"native": native.run} if native.available() else {})


def machine_of(case: int) -> Machine:
    return small_machine(*CASES[case])


def after(engine: Callable[[Program, State, Ints], None], program: Program, seed: int, order: Ints) -> State:
    state = random_state(program.machine, seed)
    engine(program, state, order)
    return state


def differences(one: State, other: State) -> list[str]:
    pairs = [(one.memories, other.memories), (one.latched, other.latched), (one.written, other.written)]
    return [name for a, b in pairs for name in a if not np.array_equal(a[name], b[name])]


@pytest.mark.drawn(4)
@pytest.mark.parametrize("case", range(len(CASES)), ids=[f"{Path(n).stem}{''.join(o.values())}" for n, o in CASES])
@settings(max_examples=8, deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_engines_agree(case: int, data: st.DataObject) -> None:
    seed, program = data.draw(programs(machine_of(case), 12))
    order = issue_order(program)
    expected = after(reference.run, program, seed, order)
    for name, engine in ENGINES.items():
        assert differences(expected, after(engine, program, seed, order)) == [], name
    assert differences(expected, after(numpy_engine.run, program, seed, order)) == [], "what was remembered of the first time differs"


@pytest.mark.drawn(4)
@pytest.mark.parametrize("case", range(len(CASES)), ids=[f"{Path(n).stem}{''.join(o.values())}" for n, o in CASES])
def test_orders_agree_where_there_is_no_race(case: int) -> None:
    machine, free, other_orders = machine_of(case), 0, 0
    for seed in range(40):
        if other_orders > 1:
            break
        program = random_program(machine, seed, 7, chained=0.75)
        if races(program, seed):
            continue
        free += 1
        tokens = program_tokens(program, random_state(machine, seed))
        order = issue_order(program, None, tokens)
        expected = after(numpy_engine.run, program, seed, order)
        for chance in range(2):
            shuffled = issue_order(program, chance, tokens)
            other_orders += not np.array_equal(order, shuffled)
            assert differences(expected, after(numpy_engine.run, program, seed, shuffled)) == []
    assert other_orders > 1, free


def races(program: Program, seed: int) -> bool:
    """Whether what some instruction reads or leaves depends on the order; what one does to itself does not."""
    state = random_state(program.machine, seed)
    tokens = program_tokens(program, state)
    order = issue_order(program, None, tokens)
    provenance = Provenance(program, state, order)
    prints = footprints(program, state, order, provenance)
    place = queue_table(program.queue, program.queues).position
    clocks = happens_before(program, order, tokens)
    found = relevant(prints, hazards(prints, Executed(order, provenance.position, program.queue, place, clocks)), frozenset(program.machine.memory))
    stale = stale_reads(provenance, state.written)
    return bool(len(found) or len(prints.faults) or control_conflicts(prints) or stale or sync_faults(program, tokens, order, clocks))


@pytest.mark.drawn(4)
@pytest.mark.parametrize("case", range(len(CASES)), ids=[f"{Path(n).stem}{''.join(o.values())}" for n, o in CASES])
def test_random_programs_use_every_instruction(case: int) -> None:
    machine = machine_of(case)
    synchronising = {i.name for i in machine.instructions if any(r.kind == "wait" and r.instructions == (i.name,) for r in machine.sync)}
    missing = {i.name for i in machine.instructions} - synchronising
    for seed in range(20):
        missing -= {machine.instructions[kind].name for kind in random_program(machine, seed).kind.tolist()}
        if not missing:
            break
    assert missing == set()
