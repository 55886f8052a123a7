"""Common parts become part of the kernels that name them."""

import pytest

from toolchain.schedule.kernels.kernel_common import with_common
from toolchain.spec.errors import Source, UserError
from toolchain.spec.yaml_nodes import Node, parse_yaml

TEXT = """
common:
  ends: {doc: how it ends, let: {a: 1}, steps: [{store: y}, {load: x}], end: last}
  limited: {let: {b: a}, requires: [{that: b}], where: [{that: c}]}
kernels:
  one:
    computes: add
    common: [ends, limited]
    doc: own
    let: {c: b}
    tile: {n: 1}
    places: {}
    tensors: {}
    requires: [{that: d}]
    steps: [{finish: y}, {compute: y}, {compute: z}]
  two: {computes: add, tile: {n: 1}, places: {}, tensors: {}, steps: [{store: y}, {load: x}], end: here}
"""


def joined(text: str, name: str = "one") -> Node:
    root = parse_yaml(Source("kernels.yaml", text))
    return with_common(root, dict(root.members("kernels"))[name])


def test_common_entries_stand_first_and_steps_in_the_order_of_a_tile() -> None:
    kernel = joined(TEXT).plain()
    assert list(kernel["let"]) == ["a", "b", "c"]
    assert [entry["that"] for entry in kernel["requires"]] == ["b", "d"]
    assert kernel["where"] == [{"that": "c"}]
    assert kernel["steps"] == [{"load": "x"}, {"compute": "y"}, {"compute": "z"}, {"finish": "y"}, {"store": "y"}]
    assert kernel["end"] == "last"
    assert "common" not in kernel


def test_a_kernel_without_common_parts_is_as_it_stands() -> None:
    kernel = joined(TEXT, "two").plain()
    assert kernel["steps"] == [{"store": "y"}, {"load": "x"}]
    assert kernel["end"] == "here"


@pytest.mark.parametrize(
    ("old", "new", "message", "line"),
    [
        ("[ends, limited]", "[ends, limitd]", "E1002 there is no common part 'limitd'; did you mean 'limited'?", 8),
        ("let: {c: b}", "let: {a: b}", "E1002 'a' stands in the kernel and in a common part, or in two", 10),
        ("let: {c: b}", "end: other", "E1002 'end' stands in the kernel and in a common part, or in two", 10),
        ("[ends, limited]", "[limited]", "E1002 a kernel needs 'end'", 6),
        ("computes: add\n    common", "common", "E1002 a kernel needs 'computes'", 6),
    ],
)
def test_faults_are_told_with_their_place(old: str, new: str, message: str, line: int) -> None:
    with pytest.raises(UserError) as caught:
        joined(TEXT.replace(old, new, 1))
    assert message in str(caught.value)
    assert [d.span.line for d in caught.value.diagnostics if d.span] == [line]
