import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.tiny_machine import tiny
from tests.tiny_programs import HALVES, TEXTS
from toolchain.isa.semantics.machine import machine_semantics, read_semantics
from toolchain.isa.semantics.unparse import unparse_semantics
from toolchain.spec.load import list_targets, load_machine
from toolchain.spec.model import Machine, Text


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
