from pathlib import Path

import numpy as np
import pytest

from tests.tiny_semantics import codes, ranges
from toolchain.analysis.order import issue_order
from toolchain.analysis.state import new_state
from toolchain.emulator.reference.engine import Reference, Statements
from toolchain.isa.decode import decode
from toolchain.isa.semantics import ir
from toolchain.isa.semantics.machine import machine_semantics
from toolchain.isa.semantics.ranges import analyse
from toolchain.spec import expr as ex
from toolchain.spec.load import list_targets, load_machine

GOLDEN = Path(__file__).parents[2] / "data" / "vta_golden"


@pytest.mark.parametrize("target", sorted(list_targets()))
def test_every_machine_is_proved(target: str) -> None:
    machine = load_machine(target)
    for semantics in machine_semantics(machine).values():
        found = analyse(machine, semantics)
        assert all(low <= high for low, high in (*found.names.values(), *found.temps.values()))


def test_fields_loops_and_places() -> None:
    found = ranges("x = a * 2 + way\nfor i in range(1, n):\n    y = i - m\nacc[0][o] = x\n")
    assert found.names == {"x": (-256, 255), "i": (1, 15), "y": (1 - 2047, 15 + 2048)}
    assert found.interval(ex.Binary("+", ir.Var("x"), ir.FieldRef("b"))) == (-256, 255 + 63)


def test_accumulation_is_the_trip_count_times_the_term() -> None:
    found = ranges("s[o]: i32 = 7\nfor i in range(n), j in range(4):\n    s[o] += sat[0][o] * 3\nacc[0][o] = s[o]\n")
    assert found.temps["s"] == (7 - 16 * 4 * 384, 7 + 16 * 4 * 381)


def test_a_sum_that_starts_again_in_every_iteration() -> None:
    found = ranges("for i in range(n):\n    s[o]: i16 = 0\n    for j in range(3):\n        s[o] += sat[0][o]\n    acc[0][o] = s[o]\n")
    assert found.temps["s"] == (-384, 381)


def test_running_maximum_and_running_sum_of_names() -> None:
    found = ranges("t = 0\nu = 0\nfor i in range(n):\n    t = max(t, i * 3)\n    u = u + i\nacc[0][o] = t\nacc[1][o] = u\n")
    assert found.names["t"] == (0, 45)
    assert found.names["u"] == (0, 16 * 15)


def test_a_name_that_grows_by_itself_has_no_bound() -> None:
    assert codes("t = 1\nfor i in range(n):\n    t = t * 2\nacc[0][o] = t\n") == ["E0221", "E0221"]


def test_narrowing_rules_bound_what_is_written() -> None:
    assert ranges("loop[0][o] = clip(a * a * a)\n").temps == {}
    assert codes("loop[0][o] = a * a\n") == ["E0220"]
    assert ranges("s[o]: saturate(i8) = m\nloop[0][o] = s[o]\n").temps["s"] == (-128, 127)


def test_sums_into_a_memory_need_a_declared_overflow() -> None:
    assert codes("loop[0][o] += 1\n") == ["E0220"]
    ranges("acc[0][o] += dot(par[0][r, o], par[0][r, c])\n")


def test_fixed_lanes_are_proved() -> None:
    assert codes("acc[0][o] = acc[1][b - 1]\n") == ["E0224"]
    ranges("acc[0][o] = acc[1][b % 4]\n")


@pytest.mark.parametrize("name", ["r00_ordered", "c02_conv1x1_s1", "u04_alu_min_vec"])
def test_what_runs_stays_inside(name: str) -> None:
    """Every name and temporary of a real program, as the reference engine leaves it, lies within its bounds."""
    machine = load_machine("vta", overrides={"LOG_DRAM": "16"})
    with np.load(GOLDEN / f"{name}.npz") as data:
        program, before = decode(machine, [data["insns"].tobytes()]), data["dram_before"].ravel()
    state, engine = new_state(machine), Reference(program)
    state.memories["dram"][0, : before.size] = before
    seen = 0
    for index in issue_order(program).tolist():
        semantics = machine_semantics(machine)[machine.instructions[int(program.kind[index])].name]
        frames = engine.frames(index, state)
        Statements(machine, semantics).body()(frames)
        found = analyse(machine, semantics)
        for key, value in frames[0].names.items():
            assert found.names[key][0] <= value <= found.names[key][1]
        for key, lanes in frames[0].temps.items():
            assert found.temps[key][0] <= min(lanes)
            assert max(lanes) <= found.temps[key][1]
        seen += len(frames[0].names)
    assert seen > 10


def test_many_loops_around_running_names_end_soon() -> None:
    loops = "".join(f"{'    ' * d}for i{d} in range(2):\n" for d in range(12))
    text = "t = 0\nu = 0\n" + loops + "    " * 12 + "t = max(t, i0)\n" + "    " * 12 + "u = u + i1\n" + "one[t % 4] = 1\none[u % 4] = 1\n"
    low, high = ranges(text).names["t"]
    assert low <= 0
    assert high >= 1
