"""Every change of an operator up to the operator set used here is decided: by a rule, or because it only added something."""

from collections import defaultdict
from itertools import pairwise
from typing import Any

import pytest
from onnx import defs, helper

from toolchain.graph.importing.opsets.rules import RULES, due
from toolchain.graph.importing.versions import OPSET

MEANING = {
    "Dropout": 12, "GroupNormalization": 21, "Hardmax": 13, "LogSoftmax": 13, "PRelu": 7, "Resize": 13, "RoiAlign": 16, "Scan": 9, "Softmax": 13,
}  # fmt: skip
"""Operators whose results changed though the form may be the same."""


def histories() -> dict[str, list[defs.OpSchema]]:
    found = defaultdict[str, list[defs.OpSchema]](list)
    for schema in defs.get_all_schemas_with_history():
        if not schema.domain and schema.since_version <= OPSET:
            found[schema.name].append(schema)
    return {name: sorted(schemas, key=lambda schema: schema.since_version) for name, schemas in found.items()}


def default(attribute: defs.OpSchema.Attribute) -> Any:
    return helper.get_attribute_value(attribute.default_value) if attribute.default_value.type else None


def breaks(old: defs.OpSchema, new: defs.OpSchema) -> bool:
    """Whether a node of the old form may be none of the new one, or one with other attributes."""
    before = {name: attribute for name, attribute in old.attributes.items() if name != "consumed_inputs"}
    after = new.attributes
    required = [str(operand.option) for operand in new.inputs].count("FormalParameterOption.Single")
    return (
        new.deprecated
        or any(name not in after or str(after[name].type) != str(attribute.type) for name, attribute in before.items())
        or any(default(after[name]) != default(attribute) for name, attribute in before.items())
        or any(attribute.required and not (name in before and before[name].required) for name, attribute in after.items())
        or required > old.min_input
        or new.max_input < old.max_input
        or new.max_output < old.max_output
    )


STEPS = [(name, old, new) for name, schemas in histories().items() for old, new in pairwise(schemas)]


@pytest.mark.parametrize(("name", "new"), [(name, new.since_version) for name, old, new in STEPS if breaks(old, new)])
def test_every_change_of_form_has_a_rule(name: str, new: int) -> None:
    assert any(before >= new for before, _ in RULES[name])


def test_every_change_of_meaning_has_a_rule() -> None:
    assert {name: max(before for before, _ in RULES[name]) for name in MEANING} == MEANING


def test_rules_are_for_operators_that_changed_then() -> None:
    known = {(name, new.since_version) for name, _, new in STEPS} | {("GroupNormalization", 21)}
    for name, rules in RULES.items():
        assert [before for before, _ in rules] == sorted(before for before, _ in rules)
        assert {(name, before) for before, _ in rules} <= known


def test_rules_that_are_due() -> None:
    assert len(due("Split", 1, 6)) == 2
    assert len(due("Split", 6, 21)) == 2
    assert len(due("Split", 13, 21)) == 1
    assert due("Split", 18, 21) == due("Relu", 7, 21) == []
