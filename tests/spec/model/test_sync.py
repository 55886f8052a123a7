"""Sync rules name fields in every part that a program can change."""

from tests.spec.small import small
from toolchain.spec.expr import Const, Name, walk
from toolchain.spec.model import SyncRule


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
