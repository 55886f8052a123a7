"""Each module of the numpy engine by itself, beside Python's integers or a small instruction.

Whole programs are in tests/emulator/test_numpy_engine.py.
"""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tiny_machine import streams, tiny, word
from toolchain.analysis.state import new_state
from toolchain.emulator.numpy_engine.addresses import Kept, outside
from toolchain.emulator.numpy_engine.contraction import Operands, find_product, positions
from toolchain.emulator.numpy_engine.data import is_data
from toolchain.emulator.numpy_engine.expressions import ceil_log, clamp, extreme, round_shift, select, uniform, wrap
from toolchain.emulator.numpy_engine.frame import Axes, Contents, Frame, ProgramSession, Recorder, depth_of
from toolchain.emulator.numpy_engine.gathering import fits
from toolchain.emulator.numpy_engine.loops import branch, sequence
from toolchain.emulator.numpy_engine.statements import Statements, replicas_meet
from toolchain.emulator.numpy_engine.storage import Storage, is_whole, names_of, scalar_dtype, step_of, storage_order
from toolchain.emulator.numpy_engine.structure import Structure, gathering, stores
from toolchain.emulator.numpy_engine.transaction import FEW, Site, Transaction
from toolchain.emulator.numpy_engine.writes import Target, kept_axes, target
from toolchain.isa.decode import decode
from toolchain.isa.semantics import ir
from toolchain.isa.semantics.machine import machine_semantics
from toolchain.isa.semantics.traverse import expressions, statements
from toolchain.spec.expr import Const
from toolchain.spec.model import Machine, ScalarType

NUMBERS = st.integers(-(1 << 40), 1 << 40)
KINDS = st.builds(ScalarType, st.booleans(), st.integers(2, 48))
BYTE = ScalarType(True, 8)


def op(text: str, ways: int = 2) -> tuple[Machine, ir.Semantics]:
    """The machine whose instruction OP does this, and OP's semantics."""
    machine = tiny(text, ways=ways)
    return machine, machine_semantics(machine)["OP"]


def compiled(text: str, ways: int = 2) -> Statements:
    machine, semantics = op(text, ways)
    return Statements(machine, next(i for i in machine.instructions if i.name == "OP"), semantics, Kept())


def frame(text: str) -> Frame:
    """Of OP, before it does anything."""
    made = compiled(text)
    program = decode(made.machine, streams([word(0)]))
    return Frame(ProgramSession(program, new_state(made.machine), Contents()), made.axes, 0, (0, 0, 0, 1, 0), {"core": 0, "way": 0})


@given(NUMBERS, KINDS)
def test_arrays_wrap_and_saturate_as_integers_do(number: int, kind: ScalarType) -> None:
    assert wrap(np.array([number]), kind).tolist() == [wrap(number, kind)] == [(number - kind.low) % (1 << kind.bits) + kind.low]
    assert clamp(np.array([number]), kind.low, kind.high).tolist() == [clamp(number, kind.low, kind.high)] == [min(max(number, kind.low), kind.high)]


@given(NUMBERS, st.integers(0, 40), st.sampled_from(["half_up", "half_even", "half_away", "floor"]))
def test_shifts_round_as_fractions_do(number: int, amount: int, rounding: str) -> None:
    floor, rest = divmod(number, 1 << amount)
    tie, above = 2 * rest == 1 << amount, 2 * rest > 1 << amount
    up = {"half_up": tie, "half_even": tie and floor % 2 == 1, "half_away": tie and number >= 0, "floor": False}[rounding]
    wanted = floor + (rounding != "floor" and (above or up))
    found = [round_shift(value, by, rounding) for value in (number, np.array([number])) for by in (amount, np.array([amount]))]
    assert [int(np.asarray(each).reshape(-1)[0]) for each in found] == [wanted] * 4


@given(st.integers(1, 1 << 40))
def test_bits_to_count_so_many(count: int) -> None:
    assert int(ceil_log(np.array([count]))[0]) == ceil_log(count) == (count - 1).bit_length()


def test_expressions_leave_no_type_too_small() -> None:
    small = np.array([100, -100], np.int8)
    assert select(np.array([True, False]), small, 1000).tolist() == [100, 1000]
    assert extreme("max", small, 1000).tolist() == [1000, 1000]
    assert select(np.array([True, False]), small, np.array([200, 201], np.uint8)).tolist() == [100, 201]
    assert uniform(np.array([[3, 3]])) == 3
    assert uniform(np.array([3, 4])).tolist() == [3, 4]


def test_a_frame_has_an_axis_for_each_loop_and_lane() -> None:
    machine, semantics = op(
        "for i in range(n):\n    for j in range(b):\n        acc[i % 4][o] += feat[0, j][o]\n    if n > 2:\n        acc[0][o] = 1\n"
    )
    axes = Axes(machine, semantics, ("i", "j"))
    assert (depth_of(semantics.body), axes.nested, axes.loops, axes.extents) == (2, 2, 3, (1, 1, 2))
    assert (axes.loop_shape(1, 5), axes.lane_shape(("o",)), axes.lane_axis("o")) == ((1, 5, 1), (4,), -1)
    assert axes.lift(np.zeros((2, 1, 1))).shape == (2, 1, 1, 1)


def test_a_recorder_joins_steps_that_run_together_and_drops_those_that_failed() -> None:
    made, recorder = frame("pass\n"), Recorder()
    recorder.step(lambda _: None, made, True)
    recorder.begin()
    made.transaction = Transaction(1)
    recorder.step(lambda _: None, made, False)
    recorder.step(lambda _: None, made, True)
    assert [(len(part.steps), part.at_once) for part in recorder.parts] == [(1, True), (2, True)]
    recorder.step(lambda _: None, made, False)
    assert not recorder.parts[-1].at_once
    recorder.undo()
    assert (len(recorder.parts), recorder.count, recorder.full) == (1, 1, False)


def test_branches_run_each_side_for_those_that_take_it() -> None:
    made, seen = frame("pass\n"), list[object]()
    branch(lambda _: np.array([True, False]), lambda f: seen.append(f.mask.tolist()), lambda f: seen.append(f.mask.tolist()))(made)
    branch(lambda _: 0, lambda _: seen.append("then"), lambda _: seen.append("other"))(made)
    branch(lambda _: np.array([True, True]), sequence([lambda f: seen.append(f.mask), lambda _: seen.append("last")]), None)(made)
    assert seen == [[True, False], [False, True], "other", None, "last"]
    assert made.mask is None


@pytest.mark.parametrize(
    ("text", "serial"),
    [
        ("for i in range(n), j in range(b):\n    acc[i % 4][o] += feat[0, j][o]\n", set[str]()),
        (
            "for i in range(n):\n    t[o]: wrap(i32) = 0\n    for j in range(b):\n        t[o] += feat[0, j][o]\n    acc[i % 4][o] = t[o]\n",
            set[str](),
        ),
        ("t[o]: wrap(i32) = m\nfor i in range(n):\n    t[o] = t[o] * 3\n    acc[i % 4][o] = t[o]\n", {"i"}),
        ("top = 0\nfor i in range(n), j in range(2):\n    top = max(top, i)\n    acc[top % 4][o] = j\n", {"i", "j"}),
    ],
)
def test_loops_that_hand_values_on_are_serial(text: str, serial: set[str]) -> None:
    assert Structure(op(text)[1]).serial == serial


def test_sums_and_extremes_gather_in_any_order() -> None:
    _, semantics = op("t[o]: i16 = m\nfor j in range(b):\n    t[o] = max(t[o], feat[0, j][o])\nacc[0][o] = t[o]\n")
    first, second = (stmt for stmt in statements(semantics.body) if isinstance(stmt, ir.SetTemp))
    assert gathering(first, semantics.temps["t"])[0] == ""
    assert gathering(second, semantics.temps["t"])[0] == "max"
    assert gathering(second, replace(semantics.temps["t"], overflow="wrap"))[0] == ""
    assert [store.access.view.name for store in stores(semantics.body)] == ["acc"]
    assert fits(Const(127), BYTE)
    assert not fits(Const(128), BYTE)


def test_lanes_are_data_and_products_of_two_elements_are_found() -> None:
    made = compiled("t[k]: i32 = dot(par[0][k, c], feat[0, a][c])\nacc[n % 4][o] = feat[0, a][o] * 2\n")
    values = [stmt.value for stmt in statements(made.semantics.body) if isinstance(stmt, ir.SetTemp | ir.Store)]
    assert [is_data(value) for value in values] == [True, True]
    assert not any(is_data(part) for stmt in stores(made.semantics.body) for part in stmt.access.index)
    product = find_product(made.data, values[0])
    assert product is not None
    assert (product.a.kept, product.a.summed, product.b.lanes, product.largest, product.dtype) == (("k",), 4, 1, 1 << 14, np.float32)
    assert find_product(made.data, values[1]) is None


def test_positions_count_from_the_lowest_and_groups_of_iterations_are_stacked() -> None:
    found = positions(np.array([[[7, 9], [5, 6]]]), np.ones((1, 2, 2), np.bool_))
    assert (found.at.tolist(), found.low, found.high, found.mask) == ([[[2, 4], [0, 1]]], 5, 10, None)
    operands = Operands(np.arange(4).reshape(4, 1), np.array([[8], [9], [8], [9]]), None)
    stacked = operands.stacked(0, [np.array([0, 1]), np.array([2, 3])])
    assert stacked is not None
    assert (stacked.a.tolist(), stacked.b.tolist()) == ([[[0, 1]], [[2, 3]]], [[[8, 9]]])
    assert operands.stacked(0, [np.array([0]), np.array([1, 2])]) is None
    assert operands.part(0, np.array([3])).a.tolist() == [[3]]


def test_bytes_are_read_as_they_were_written() -> None:
    text = "acc[n % 4][o] = feat[0, a][o] + par.turned[0][o, 1] + feat[0, a][0]\n"
    machine, semantics = op(text)
    made, view, wide = frame(text), machine.view["acc"], machine.view["loop.wide"]
    storage, rows = Storage(machine), np.arange(32, dtype=np.uint8).reshape(2, 16)
    assert (step_of(machine.memory["acc"], view), step_of(machine.memory["loop"], wide), scalar_dtype(view.element.scalar)) == (16, 1, "<i4")
    storage.writer(view)(made, np.array([1, 3]), rows)
    assert storage.reader(view, np.dtype("u1"))(made, np.array([3, 1])).tolist() == rows[::-1].tolist()
    storage.writer(wide)(made, np.array([13]), rows[:1, :8])  # a ring of 16 bytes: five of them at its other end
    assert storage.reader(wide, np.dtype("u1"))(made, 13).tolist() == rows[0, :8].tolist()
    assert made.session.state.memories["loop"][0, :5].tolist() == rows[0, 3:8].tolist()
    loads = {e.access: None for stmt in statements(semantics.body) for part in expressions(stmt) for e in _loads(part)}
    assert [(names_of(access), is_whole(access)) for access in loads] == [(("o",), True), (("o",), False), ((), False)]
    assert storage_order(machine.view["par.turned"]).tolist() == [o * 4 + c for c in range(4) for o in range(3)]


def _loads(part: object) -> list[ir.Load]:
    from toolchain.spec.expr import Expr, walk

    assert isinstance(part, Expr)
    return [node for node in walk(part) if isinstance(node, ir.Load)]


def test_a_place_outside_a_memory_is_named() -> None:
    machine, made = op("pass\n")[0], frame("pass\n")
    feat, acc = (machine.memory[name] for name in ("feat", "acc"))
    assert "E0701 feat[2, 0] is outside 'feat', which has 2 banks" in str(outside(made, feat, machine.view["feat"], 2, 0))
    assert "E0701 feat[1, 9] is outside 'feat', which holds 16 bytes a bank" in str(outside(made, feat, machine.view["feat"], 1, 9))
    assert "E0701 acc[4] is outside 'acc', which holds 64 bytes" in str(outside(made, acc, machine.view["acc"], 4))


SITE = Site(1, ("i",), "acc", 4, 4, False)
TIMES = [0, np.arange(3)]


@pytest.mark.parametrize(
    ("notes", "clash"),
    [
        ([(SITE, "write", np.array([0, 1, 2])), (replace(SITE, order=0), "read", np.array([0, 1, 2]))], False),
        ([(SITE, "write", np.array([1, 2, 3])), (replace(SITE, order=0), "read", np.array([0, 1, 2]))], True),
        ([(SITE, "write", np.array([0, 1, 2])), (replace(SITE, order=0), "read", np.array([1, 2, 3]))], False),
        ([(SITE, "add", np.array([0, 0, 0])), (SITE, "add", np.array([0, 0, 0]))], False),
        ([(SITE, "add", np.array([0, 0, 0])), (SITE, "write", np.array([0, 1, 2]))], True),
        ([(SITE, "write", np.array([0, 1, 2])), (replace(SITE, order=3, memory="sat"), "read", np.array([0, 0, 0]))], False),
        ([(replace(SITE, turns=True), "write", np.array([0, 1, 2])), (SITE, "read", np.array([7, 8, 9]))], True),
        ([(SITE, "read", np.array([0, 1, 2]))] * (FEW + 1), False),
        ([(SITE, "write", np.array([0, 1, 2]))] * (FEW + 1), True),
    ],
)
def test_iterations_that_need_one_another_clash(notes: list[tuple[Site, str, np.ndarray]], clash: bool) -> None:
    transaction = Transaction(1)
    for site, kind, at in notes:
        transaction.note(site, kind, at, TIMES, None)
    assert transaction.conflicts() == clash


def test_writes_wait_for_the_end_of_a_transaction() -> None:
    done, transaction = list[int](), Transaction(1, watching=False)
    transaction.note(SITE, "write", np.array([0]), TIMES, None)
    transaction.waiting += [lambda: done.append(1), lambda: done.append(2)]
    assert (transaction.notes, done) == ([], [])
    transaction.commit()
    assert done == [1, 2]


def test_additions_to_one_element_are_added_up() -> None:
    axes = compiled("for i in range(n):\n    acc[i % 4][o] += feat[0, i][o]\n", ways=1).axes
    rows = np.array([[1, 2], [10, 20], [100, 200]])
    found = target(axes, np.array([3, 1, 3]), None, np.zeros((3, 4)))
    assert found.at.tolist() == [1, 3]
    assert found.rows(rows).tolist() == [[10, 20], [101, 202]]
    some = target(axes, np.array([3, 1, 3]), np.array([True, True, False]), np.zeros((3, 4)))
    assert (some.at.tolist(), some.rows(rows).tolist()) == ([3, 1], rows[:2].tolist())
    assert target(axes, 3, None, 5) == Target(3, (), None, None)
    assert (kept_axes(axes, np.array([3, 1, 3])), kept_axes(axes, 3)) == ([True], [False])


@pytest.mark.parametrize(
    ("text", "ways", "in_turn"),
    [
        ("dram.row[64 + n + way * 2] = dram.row[60 + b + way]\n", 2, True),
        ("dram.row[64 + n + way * 2] = dram.row[60 + b + way]\n", 1, False),
        ("dram.row[64 + n + way * 2] = feat[0, a]\n", 2, False),
        ("acc[n % 4][o] = acc[b % 4][o]\n", 2, False),
    ],
)
def test_replicas_that_read_a_neighbours_result_run_in_turn(text: str, ways: int, in_turn: bool) -> None:
    made = compiled(text, ways)
    (store,) = stores(made.semantics.body)
    assert replicas_meet(made.machine, store, made.axes) == made.in_turn == in_turn
