"""Semantics text: places in the machine's file, limits of its depth, and its functions."""

import ast
import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.tiny_machine import tiny
from tests.tiny_programs import HALVES, TEXTS
from toolchain.isa.semantics.machine import machine_semantics, read_semantics
from toolchain.isa.semantics.text import MAX_DEPTH, Function, Locator, read_functions, unparse_semantics
from toolchain.spec.errors import Source, Span, UserError
from toolchain.spec.expr import Binary, Const, Name
from toolchain.spec.load import list_targets, load_machine
from toolchain.spec.model import Machine, Text

SOURCE = Source("m.yaml", "functions: |\n    x = 1\n    y = x\n")


def locator(text: str) -> Locator:
    return Locator(Text(text, Span(SOURCE, 1, 1), 4))


def test_a_statement_stands_at_its_line_and_column_of_the_file() -> None:
    where = locator("x = 1\ny = x\n")
    second = where.parse()[1]
    assert isinstance(second, ast.Assign)
    assert (where.span(second).line, where.span(second).column) == (3, 5)
    assert where.span(second.value).column == 9
    assert where.convert(second.value) == Name("x")


@pytest.mark.parametrize(("text", "code"), [("x = = 1", "E0201"), ("x = 'a'", "E0121"), ("x = 1.5", "E0121")])
def test_unreadable_text_is_refused(text: str, code: str) -> None:
    with pytest.raises(UserError, match=code):
        locator(text).convert(locator(text).parse()[0].value)  # pyright: ignore[reportAttributeAccessIssue]


def test_text_may_nest_to_a_limit() -> None:
    deepest = MAX_DEPTH - 2  # the statement and the innermost name count too
    assert len(locator("x = " + "-" * deepest + "y").parse()) == 1
    with pytest.raises(UserError, match="E0212"):
        locator("x = " + "-" * (deepest + 1) + "y").parse()


def test_functions_are_read_with_names_unresolved() -> None:
    found = read_functions(tiny("pass\n", "def halves(x):\n    half = x // 2\n    return half, x - half\n"))
    half, rest = Binary("//", Name("x"), Const(2)), Binary("-", Name("x"), Name("half"))
    (function,) = found.functions.values()
    assert function == Function("halves", ("x",), (("half", half),), (Name("half"), rest), function.span)


def test_a_function_that_returns_nothing_is_a_procedure() -> None:
    found = read_functions(tiny("pass\n", "def clear(at, n):\n    for i in range(n):\n        one[at + i] = 0\n"))
    assert (found.procedures["clear"].params, dict(found.functions)) == (("at", "n"), {})


@pytest.mark.parametrize(
    ("functions", "code"),
    [
        ("x = 1\n", "E0203"),
        ("def f(x=1):\n    return x\n", "E0203"),
        ("def f(x):\n    if x:\n        return x\n", "E0203"),
        ("def f(x):\n    return x\ndef f(y):\n    return y\n", "E0205"),
        ("def min(x):\n    return x\n", "E0205"),
    ],
)
def test_functions_hold_assignments_and_one_return(functions: str, code: str) -> None:
    with pytest.raises(UserError, match=code):
        read_functions(tiny("pass\n", functions))


def again(machine: Machine, name: str, text: str) -> str:
    """The canonical text of a canonical text."""
    instruction = machine.instruction[name]
    return unparse_semantics(read_semantics(machine, replace(instruction, semantics=Text(text, instruction.semantics.span, 0))))


@pytest.mark.parametrize("target", sorted(list_targets()))
def test_canonical_text_of_every_machine_reads_as_itself(target: str) -> None:
    machine = load_machine(target)
    for name, semantics in machine_semantics(machine).items():
        text = unparse_semantics(semantics)
        assert again(machine, name, text) == text


@pytest.mark.parametrize("source", [*TEXTS.values()], ids=[*TEXTS])
def test_canonical_text_reads_as_itself(source: str) -> None:
    machine = tiny(source, HALVES)
    text = unparse_semantics(machine_semantics(machine)["OP"])
    assert again(machine, "OP", text) == text


def test_canonical_texts(golden: Callable[[str, str], None]) -> None:
    texts = [f"# {name}\n{unparse_semantics(machine_semantics(tiny(source, HALVES))['OP'])}" for name, source in TEXTS.items()]
    golden("isa/semantics_unparse.txt", "\n".join(texts))


BELOW_ZERO = re.compile(r"[(,] ?-\d")
"""A constant below zero is read as a minus and a constant: the same number in another tree."""


def test_same_tree_where_no_element_has_a_name() -> None:
    machine = load_machine("stcp920")
    texts = {name: unparse_semantics(semantics) for name, semantics in machine_semantics(machine).items()}
    assert [name for name, text in texts.items() if BELOW_ZERO.search(text)] == ["HFUNC"]
    for name, text in texts.items():
        instruction = machine.instruction[name]
        if not BELOW_ZERO.search(text):
            found = read_semantics(machine, replace(instruction, semantics=Text(text, instruction.semantics.span, 0)))
            assert found.body == machine_semantics(machine)[name].body
