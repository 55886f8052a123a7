"""Common parts become part of the kernels that name them."""

import pytest

from toolchain.schedule.kernels.kernel_common import naming, with_common
from toolchain.spec.errors import Source, Span, UserError, fail
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
    return with_common(root, name, dict(root.members("kernels"))[name])


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
    assert (kernel["computes"], kernel["end"]) == ("add", "here")


def test_a_kernel_computes_the_operation_of_its_name() -> None:
    assert joined(TEXT.replace("  two: {computes: add, ", "  conv2d: {"), "conv2d").plain()["computes"] == "conv2d"


@pytest.mark.parametrize(("line", "told"), [(4, "; in kernel 'one'"), (8, ""), (1, "; in kernel 'one'")])
def test_a_fault_in_a_common_part_names_the_kernel(line: int, told: str) -> None:
    source = Source("kernels.yaml", TEXT)
    with pytest.raises(UserError) as caught, naming("one", parse_yaml(source)):
        raise fail("E0107", "unknown name 'q'", Span(source, line, 1))
    assert str(caught.value).splitlines()[0] == f"kernels.yaml:{line}:1: E0107 unknown name 'q'{told}"
