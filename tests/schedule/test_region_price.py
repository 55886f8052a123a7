"""What a region saves and costs, by a host whose numbers are easy to multiply."""

from dataclasses import replace
from functools import cache, partial
from pathlib import Path

import onnx_ir as ir
import pytest
from onnx import helper

from tests.graph.imported import imported, normal
from tests.operations.made import load_machine
from tests.runtime import small
from toolchain.graph.importing.versions import OPSET
from toolchain.graph.integers.calls import reasons_of
from toolchain.graph.integers.functions import INTEGER, kind_of
from toolchain.graph.quantisation.table import calibrate
from toolchain.passes.context import Context, Device
from toolchain.passes.fuse import Fuse
from toolchain.passes.join_recurrent import SplitRecurrent
from toolchain.passes.pipeline import run_passes
from toolchain.passes.quantize import Quantize
from toolchain.report.costs import cost_rows
from toolchain.runtime.timing import region_times
from toolchain.schedule.kernel_selection import images_per_run
from toolchain.schedule.region_price import recurrence_reason, region_price, tariff
from toolchain.spec.model import Host, Machine, Quantity
from toolchain.spec.model.quantisation import Numerics
from toolchain.spec.reasons import text_of

n = helper.make_node


def number(value: float) -> Quantity:
    return Quantity(value, "made up")


HOST = Host({"conv2d": number(2.0), "default": number(1.0)}, number(4.0), number(100), number(10), number(8.0))


@cache
def machine() -> Machine:
    return replace(load_machine("vta"), host=HOST)


def network(folder: Path) -> list[ir.Node]:
    """Two convolutions, a host operator between them; the integer calls that are no conversions."""
    nodes = [n("Conv", ["x", "w"], ["a"], "one"), n("Sin", ["a"], ["b"]), n("Conv", ["b", "w"], ["c"], "two"), n("Conv", ["c", "w"], ["y"], "three")]
    base = imported(folder, nodes, (1, 8, 6, 6), {"w": normal(0, 8, 8, 1, 1)})
    table = calibrate(base, {"x": normal(1, 2, 1, 8, 6, 6)})
    model = run_passes(base, [Fuse(), Quantize()], Context(numerics=Numerics(), table=table))
    return [node for node in model.graph if node.domain == INTEGER and kind_of(node) == "conv2d"]


def test_a_recurrence_says_what_its_products_would_cost(tmp_path: Path) -> None:
    """Five steps of four numbers, three states in four gates, either way: products of inputs in one run, those of states in one for each step."""
    nodes = [n("LSTM", ["x", "w", "r"], ["y"], "lstm", hidden_size=3, direction="bidirectional")]
    graph = imported(tmp_path, nodes, (5, 1, 4), {"w": normal(0, 2, 12, 4), "r": normal(1, 2, 12, 3)})
    (lstm,) = graph.graph
    reason, run = recurrence_reason(machine(), lstm), (100 + 2 * 10) / 1e3 / images_per_run(machine())
    assert reason is not None
    given, peak = reason.arguments, machine().timing.peak_macs * machine().timing.clock_khz
    border = 1 / 8.0 / 1e6 + 5 / 4.0 / 1e6
    assert given["steps"] == 5
    assert given["loop_ms"] == 0
    slow = recurrence_reason(replace(machine(), host=replace(HOST, step_us=number(3))), lstm)
    assert slow is not None
    assert slow.arguments == {**given, "loop_ms": pytest.approx(2 * 5 * 3 / 1e3)}
    assert given["inputs_host_ms"] == pytest.approx(5 * 2 * 12 * 4 / 1.0 / 1e6)
    assert given["states_host_ms"] == pytest.approx(5 * 2 * 12 * 3 / 1.0 / 1e6)
    assert given["inputs_machine_ms"] == pytest.approx(5 * (4 + 2 * 12) * border + run + 5 * 2 * 12 * 4 / peak, rel=1e-5)
    assert given["states_machine_ms"] == pytest.approx(5 * 2 * (3 + 12) * border + 10 * run + 5 * 2 * 12 * 3 / peak, rel=1e-5)
    Fuse().run(graph, Context(device=Device("vta", lambda _: (), recurrence=partial(recurrence_reason, machine()))))
    assert reasons_of(lstm) == (reason,)
    assert "of its 5 steps the products with the inputs alone would take" in text_of(reason)
    assert recurrence_reason(replace(machine(), host=None), lstm) is None


def split(folder: Path) -> tuple[ir.Model, list[ir.Node]]:
    """An LSTM of both directions as a product and two loops, and these."""
    nodes = [n("LSTM", ["x", "w", "r"], ["y"], "lstm", hidden_size=3, direction="bidirectional")]
    graph = imported(folder, nodes, (5, 1, 4), {"w": normal(0, 2, 12, 4), "r": normal(1, 2, 12, 3)})
    SplitRecurrent().run(graph, Context())
    return graph, [node for node in graph.graph if node.op_type == "Scan"]


def test_a_loop_says_what_the_products_of_its_steps_would_cost(tmp_path: Path) -> None:
    graph, loops = split(tmp_path)
    peak, run = machine().timing.peak_macs * machine().timing.clock_khz, (100 + 2 * 10) / 1e3 / images_per_run(machine())
    for device in (machine(), replace(machine(), host=None)):
        for loop in loops:
            reason = recurrence_reason(device, loop)
            assert reason is not None
            given = reason.arguments
            assert (given["steps"], given["macs"]) == (5, 12 * 3)
            if device.host is not None:
                assert given["host_ms"] == pytest.approx(5 * 12 * 3 / 1.0 / 1e6)
                border = 5 * (3 + 12) * (1 / 8.0 + 5 / 4.0) / 1e6
                assert given["machine_ms"] == pytest.approx(border + 5 * run + 5 * 12 * 3 / peak, rel=1e-5)
    Fuse().run(graph, Context(device=Device("vta", lambda _: (), recurrence=partial(recurrence_reason, machine()))))
    assert [reasons_of(loop) for loop in loops] == [(recurrence_reason(machine(), loop),) for loop in loops]
    assert "each of its 5 steps needs the state after the step before" in text_of(reasons_of(loops[0])[0])


def test_a_product_on_the_machine_pays_for_the_loops_behind_it(tmp_path: Path) -> None:
    graph, _ = split(tmp_path)
    table = calibrate(graph, {"x": normal(1, 2, 5, 1, 4)})
    model = run_passes(graph, [Fuse(), Quantize()], Context(numerics=Numerics(), table=table))
    (product,) = (node for node in model.graph if kind_of(node) == "linear")
    dear = replace(machine(), host=replace(HOST, step_us=number(1000)))
    prices = [region_price(each, [product]) for each in (machine(), dear)]
    free, paid = (price for price in prices if price is not None)
    assert paid.border - free.border == pytest.approx(2 * 5 * 1.0)
    crossings = [known.crossing(product.outputs[0]) for each in (machine(), dear) if (known := tariff(each)) is not None]
    assert crossings[1] - crossings[0] == pytest.approx(2 * 5 * 1.0)
    assert paid.host == free.host


MACS, ELEMENTS = 8 * 8 * 36, 8 * 36


def test_a_region_between_two_conversions(tmp_path: Path) -> None:
    one, *_ = network(tmp_path)
    price = region_price(machine(), [one])
    assert price is not None
    assert price.host == pytest.approx(MACS / 2.0 / 1e6)
    assert price.machine == pytest.approx(MACS / machine().timing.peak_macs / machine().timing.clock_khz)
    crossing = ELEMENTS / 8.0 / 1e6 + ELEMENTS * 5 / 4.0 / 1e6
    assert price.border == pytest.approx(2 * crossing + (100 + 2 * 10) / 1e3 / images_per_run(machine()))


def test_regions_share_a_border_only_with_what_is_outside(tmp_path: Path) -> None:
    _, two, three = network(tmp_path)
    both, alone = region_price(machine(), [two, three]), region_price(machine(), [two])
    assert both is not None
    assert alone is not None
    assert both.host == pytest.approx(2 * alone.host)
    assert both.border - alone.border == pytest.approx(ELEMENTS * 5 / 4.0 / 1e6)  # `c` is stored on, never converted; `y` is


def test_a_machine_that_does_not_say_what_the_host_costs_has_no_price(tmp_path: Path) -> None:
    assert region_price(replace(machine(), host=None), network(tmp_path)[:1]) is None


def test_a_faster_host_and_a_dearer_launch_are_told_apart(tmp_path: Path) -> None:
    nodes = network(tmp_path)[:1]
    fast = replace(HOST, gmac_per_s={"conv2d": number(4.0), "default": number(1.0)})
    dear = replace(HOST, launch_us=number(1100))
    prices = [region_price(replace(machine(), host=host), nodes) for host in (HOST, fast, dear)]
    plain, quick, late = (price for price in prices if price is not None)
    assert quick.host == pytest.approx(plain.host / 2)
    assert quick.border == plain.border
    assert late.border - plain.border == pytest.approx(1.0 / images_per_run(machine()))
    assert late.machine == quick.machine == plain.machine


def region_nodes(machine: Machine) -> list[ir.Node]:
    """The convolutions of the first region of `small.network`, before it is one."""
    x = ir.Value(name="x", shape=ir.Shape((1, 3, 8, 8)), type=ir.TensorType(ir.DataType.FLOAT))
    build = small.Builder(machine, ir.Model(ir.Graph([x], [], nodes=[], opset_imports={"": OPSET}, name="g"), ir_version=8), {})
    limits = {"low": -128, "high": 127}
    q = build.call("quantize", [x], {"scale": 0.125, **limits}, "q", (1, 3, 8, 8), ir.DataType.INT8)
    last = build.conv(build.conv(q, 20, "conv1"), 16, "conv2")
    build.model.graph.outputs.append(build.call("dequantize", [last], {"scale": 0.125}, "d", (1, 16, 8, 8), ir.DataType.FLOAT))
    return [node for node in build.model.graph if node.name in ("conv1", "conv2")]


@pytest.mark.parametrize("target", ["vta", "dpuv3"])
def test_a_border_costs_what_was_believed_or_a_little_more(target: str) -> None:
    machine, model, _ = small.network(target)
    images, times = images_per_run(machine), region_times({machine.name: machine}, small.bundle(target).manifest)
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


def test_a_price_is_the_sum_of_its_tariff_and_a_launch(tmp_path: Path) -> None:
    one, *_ = network(tmp_path)
    price, rates = region_price(machine(), [one]), tariff(machine())
    assert price is not None
    assert rates is not None
    cost, data = rates.node(one), next(value for value in one.inputs if value is not None)
    assert (cost.host, cost.machine) == (price.host, price.machine)
    launch = 100 / 1e3 / images_per_run(machine())
    assert price.border == pytest.approx(rates.crossing(data) + rates.crossing(one.outputs[0]) + launch)
    assert tariff(replace(machine(), host=None)) is None
