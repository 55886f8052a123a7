"""Memories: banks of their own depth, elements of every kind, views that turn lanes.

Sync rules name fields in every part that a program can change.
"""

import pytest

from tests.spec.small import small
from toolchain.spec.expr import Const, Name, walk
from toolchain.spec.model import ElementType, Level, Memory, RecordField, ScalarType, SyncRule
from toolchain.spec.model.structure import neighbours, stream_levels

BYTE, WORD = ScalarType(True, 8), ScalarType(False, 32)
RECORD = ElementType(WORD, (), (RecordField("a", 0, BYTE),))


@pytest.mark.parametrize(
    ("element", "size"),
    [
        (ElementType(BYTE), 1),
        (ElementType(BYTE, (3, 4)), 12),
        (ElementType(WORD, (4,)), 16),
        (RECORD, 4),
    ],
)
def test_an_instance_holds_the_elements_of_all_its_banks(element: ElementType, size: int) -> None:
    memory = Memory("m", "ring", element, (8, 4, 1))
    assert memory.banks == 3
    assert memory.bytes == 13 * size


def test_row_major_lanes_stand_one_after_another() -> None:
    assert ElementType(WORD, (2, 3)).row_major == (0, 4, 8, 12, 16, 20)


def test_streams_count_over_the_levels_around_them() -> None:
    outer, streams, inner = Level("cluster", 4), Level("core", 2, streams=True), Level("lane", 8, lockstep=True)
    assert stream_levels((outer, streams, inner)) == (outer, streams)
    assert stream_levels((outer, inner)) == ()
    assert neighbours((outer, streams, inner)) == 2
    assert neighbours((streams, inner)) == 2
    assert neighbours((outer, inner)) == 1


def test_the_expressions_of_a_rule_are_its_condition_its_counter_its_amount_and_its_masks() -> None:
    when, index, amount, mask = Name("wait"), Const(1), Name("count"), Name("mask")
    rule = SyncRule("post", "done", when, index, amount, ("load",), ("MOVE",), (("core", mask),))
    assert rule.expressions == (when, index, amount, mask)


def test_rules_of_a_machine_name_fields_of_their_instructions() -> None:
    machine = small()
    assert {rule.kind for rule in machine.sync} == {"wait", "post"}
    places = {level.name for level in machine.levels}
    for rule in machine.sync:
        named = {e.id for part in rule.expressions for e in walk(part) if isinstance(e, Name)} - places
        for name in rule.instructions:
            assert named <= {field.name for field in machine.instruction[name].fields}
