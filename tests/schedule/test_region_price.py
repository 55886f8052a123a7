"""What partitioning believes of a region's border is no more than what the region will cost, and hardly less."""

from dataclasses import replace

import onnx_ir as ir
import pytest

from tests.runtime.small import Builder, bundle, network
from toolchain.graph.versions import OPSET
from toolchain.report.costs import cost_rows
from toolchain.runtime.timing import program_time
from toolchain.schedule.region_price import region_price
from toolchain.schedule.selection import images_per_run
from toolchain.spec.load import load_machine
from toolchain.spec.model import Machine


def region_nodes(machine: Machine) -> list[ir.Node]:
    """The convolutions of the first region of `network`, before it is one."""
    x = ir.Value(name="x", shape=ir.Shape((1, 3, 8, 8)), type=ir.TensorType(ir.DataType.FLOAT))
    build = Builder(machine, ir.Model(ir.Graph([x], [], nodes=[], opset_imports={"": OPSET}, name="g"), ir_version=8), {})
    limits = {"low": -128, "high": 127}
    q = build.call("quantize", [x], {"scale": 0.125, **limits}, "q", (1, 3, 8, 8), ir.DataType.INT8)
    last = build.conv(build.conv(q, 20, "conv1"), 16, "conv2")
    build.model.graph.outputs.append(build.call("dequantize", [last], {"scale": 0.125}, "d", (1, 16, 8, 8), ir.DataType.FLOAT))
    return [node for node in build.model.graph if node.name in ("conv1", "conv2")]


@pytest.mark.parametrize("target", ["vta", "dpuv3"])
def test_a_border_costs_what_was_believed_or_a_little_more(target: str) -> None:
    machine, model, _ = network(target)
    images, programs = images_per_run(machine), bundle(target).manifest.regions
    times = {region.name: program_time(machine, region, images) for region in programs}
    row = next(row for row in cost_rows(machine, model, {}, times, images).rows if row.name == "region0")
    price = region_price(machine, region_nodes(machine))
    assert price is not None
    assert 0.8 * row.border_ms < images * price.border <= row.border_ms * (1 + 1e-9)
    assert images * price.machine <= row.compute_ms
    assert images * price.host == pytest.approx(row.host_ms)


def test_rearranging_is_part_of_the_price() -> None:
    machine = load_machine("dpuv3")
    free = replace(machine, layouts=tuple(replace(layout, gb_per_s=None) for layout in machine.layouts))
    prices = [region_price(each, region_nodes(machine)) for each in (machine, free)]
    stored = 3 * 64 + 16 * 64
    assert prices[0] is not None
    assert prices[1] is not None
    assert prices[0].border - prices[1].border == pytest.approx(stored / 5e6)


def test_no_host_is_no_price() -> None:
    machine = load_machine("vta")
    assert region_price(replace(machine, host=None), region_nodes(machine)) is None
