"""Common parts become part of the kernels that name them. A mistake in the parts that kernels share is told at its own line."""

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from toolchain.schedule.kernels.kernel_file import load_kernels
from toolchain.schedule.kernels.kernel_parts import naming, with_common
from toolchain.spec.errors import Source, Span, UserError, fail
from toolchain.spec.load import load_machine
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

TARGETS = Path(__file__).resolve().parents[3] / "targets"
OWN = "  fm: {banks: 8}\n"
MISTAKES = (
    "  fm: {banks: 7}", "  fm: {banks: 0}", "  fm: {banks: -8}", "  pm: {banks: 4}", "  fn: {banks: 8}", "  ddr: {banks: 1}", "  base: {banks: 1}",
    "  fm: {banks: FM_BANKS}", "  fm: {banks: 1 // 0}", "  fm: {banks: 2.5}", "  fm: {banks: [8]}", "  fm: {bank: 8}", "  fm: {banks: 8, size: 4}",
    "  fm: {}", "  fm: 8", "  fm:", "  - fm", "  fm: {banks: 8}\n  fm: {banks: 4}", "  fm: {banks: 8}\n  fn: {banks: 8}",
)  # fmt: skip


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


def told(folder: Path, pools: str) -> str:
    """The whole message for a machine whose kernels have these pools."""
    path = folder / "dpuv3" / "kernels.yaml"
    text = (TARGETS / "dpuv3" / "kernels.yaml").read_text()
    assert OWN in text
    path.write_text(text.replace(OWN, f"{pools}\n", 1))
    try:
        load_kernels(load_machine(str(folder / "dpuv3.yaml")))
    except UserError as error:
        return re.sub(r"(?m)^\S*/", "", f"{error}\n")
    return "taken\n"


def test_every_mistake_in_the_pools_of_banks_is_told_at_its_line(tmp_path: Path, golden: Callable[[str, str], None]) -> None:
    """At the memory, the number or the key that is wrong, never at a kernel."""
    shutil.copytree(TARGETS / "dpuv3", tmp_path / "dpuv3")
    shutil.copy(TARGETS / "dpuv3.yaml", tmp_path)
    golden("schedule/pools.txt", "\n".join(told(tmp_path, pools) for pools in MISTAKES))
    line = (TARGETS / "dpuv3" / "kernels.yaml").read_text().splitlines().index(OWN.rstrip("\n")) + 1
    for pools in MISTAKES:
        assert told(tmp_path, pools).startswith(f"kernels.yaml:{line + pools.count(chr(10))}:")
