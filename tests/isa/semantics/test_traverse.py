"""Walks meet everything once: statements inside statements, addresses inside accesses."""

from toolchain.isa.semantics import ir
from toolchain.isa.semantics.traverse import addresses, expressions, nodes, statements
from toolchain.spec.expr import Binary, Const
from toolchain.spec.model import ElementType, ScalarType, View

VIEW = View("m", "m", ElementType(ScalarType(True, 8), (4, 4)), 16, tuple(range(16)))
ACCESS = ir.Access(0, VIEW, (ir.Var("i"),), ("o", ir.Var("j")), (("core", ir.Var("k")),))


def test_addresses_are_the_index_the_instance_and_the_fixed_lanes() -> None:
    assert addresses(ACCESS) == (ir.Var("i"), ir.Var("k"), ir.Var("j"))


def test_nodes_look_into_the_addresses_of_accesses() -> None:
    value = Binary("+", ir.Load(ACCESS), Const(1))
    assert list(nodes(value)) == [value, ir.Load(ACCESS), ir.Var("i"), ir.Var("k"), ir.Var("j"), Const(1)]


def test_statements_come_in_the_order_of_the_text() -> None:
    first, second, third = (ir.Let(name, Const(0)) for name in "abc")
    branch = ir.If(ir.Var("i"), (second,), (third,))
    loop = ir.For("i", Const(0), ir.FieldRef("n"), (first, branch))
    assert list(statements((loop,))) == [loop, first, branch, second, third]


def test_expressions_are_those_of_the_statement_itself() -> None:
    store = ir.Store(ACCESS, ir.Temp("t", ("o",)), False)
    assert expressions(store) == (*addresses(ACCESS), ir.Temp("t", ("o",)))
    assert expressions(ir.For("i", Const(0), Const(3), (store,))) == (Const(0), Const(3))
    assert expressions(ir.If(ir.Var("i"), (store,), ())) == (ir.Var("i"),)
    assert expressions(ir.Latch("r", ir.Var("i"))) == (ir.Var("i"),)
