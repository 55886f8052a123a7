"""Occurrences: every access with its loops and guards, scalars in place."""

from tests.tiny_machine import tiny
from toolchain.isa.footprint.walk import Fold, Guard, Loop, Occurrence, free_vars, occurrences, replica_loops
from toolchain.isa.semantics import ir
from toolchain.isa.semantics.machine import machine_semantics
from toolchain.spec.expr import Binary, Choose, Const, Unary

A, B = ir.FieldRef("a"), ir.FieldRef("b")


def found(semantics: str) -> tuple[Occurrence, ...]:
    machine = tiny(semantics)
    return occurrences(machine, machine_semantics(machine)["OP"])


def test_accesses_come_in_the_order_of_the_text_with_loops_and_guards() -> None:
    read, write = found("for i in range(n):\n    if a > i:\n        loop[i] = dram.row[4 * i]\n")
    loop, guard = write.path
    assert (read.kind, write.kind) == ("read", "write")
    assert read.path == write.path
    assert loop == Loop("i", Const(0), ir.FieldRef("n"))
    assert isinstance(guard, Guard)
    assert free_vars(guard.condition) == {"i"}


def test_scalars_stand_in_place_and_branches_choose_them() -> None:
    (write,) = found("x = a\nif b:\n    x = x + 1\nloop[x] = 0\n")
    assert write.index == (Choose(B, Binary("+", A, Const(1)), A),)


def test_a_carried_scalar_becomes_a_fold() -> None:
    inside, after = (o.index[0] for o in found("x = a\nfor i in range(n):\n    loop[x] = 0\n    x = x + b\nloop[x] = 0\n"))
    assert isinstance(inside, Fold)
    assert isinstance(after, Fold)
    assert inside.inits == after.inits == (A,)
    assert inside.stop == ir.Var("i")
    assert after.stop == ir.FieldRef("n")
    assert free_vars(inside) == {"i"}
    assert free_vars(after) == frozenset()


def test_a_scalar_of_a_loop_has_its_last_value_behind_it() -> None:
    (write,) = found("x = 0\nfor i in range(4):\n    x = i\nloop[x] = 0\n")
    assert write.index[0] != ir.Var("i")
    assert free_vars(write.index[0]) == frozenset()


def test_untaken_sides_of_values_are_read_under_their_conditions() -> None:
    reads = [o for o in found("loop[0] = dram.row[0] if a else dram.row[4]\n") if o.kind == "read"]
    assert [o.path for o in reads] == [(Guard(A),), (Guard(Unary("not", A)),)]


def test_a_fill_of_a_control_memory_names_its_source() -> None:
    kinds = [(o.kind, o.target.view.name) for o in found("ctl[b % 4] = dram.rec[a] if a > 0 else 0\n") if isinstance(o.target, ir.Access)]
    assert kinds == [("read", "dram.rec"), ("write", "ctl"), ("feed", "dram.rec"), ("fill", "ctl")]


def test_replicas_are_a_loop_over_their_level() -> None:
    machine = tiny("dram.row[16 * way] = loop[0]\n", ways=3)
    assert replica_loops(machine) == (Loop("@way", Const(0), Const(3)),)
    (write,) = (o for o in occurrences(machine, machine_semantics(machine)["OP"]) if o.kind == "write")
    assert free_vars(write.index[0]) == {"@way"}
