"""Remarks on a build: idle programs, regions that run many times, a peak that does not go with the timing; and no figure above all there is."""

from dataclasses import replace

import onnx_ir as ir
import pytest

from tests.report.test_summary import summary as summary  # a fixture
from toolchain.graph.regions import REGION, ROW_BY_ROW
from toolchain.report.region_use import OperationUse, RegionUse
from toolchain.report.remarks import LARGE, peak_remarks, remarks_of, run_remarks, stream_remarks
from toolchain.report.summary import Summary
from toolchain.report.summary_text import summary_data, summary_text
from toolchain.report.tables import share_text
from toolchain.spec.load import load_machine
from toolchain.spec.model import Machine
from toolchain.spec.reason import reasons_json
from toolchain.spec.reasons import Why


def test_programs_that_stand_idle_are_said_with_the_variable_that_uses_them() -> None:
    machine = load_machine("stcp920")
    (remark,) = remarks_of(stream_remarks(machine, 1), "stcp920")
    assert remark.reason == Why.UNUSED_STREAMS(used=1, streams=32)
    advice = "Build it with `images=32`: each has an image of its own; or with `streams=32`: they share the work of one."
    assert remark.text == f"1 of the machine's 32 programs at a time work on it. {advice}"
    assert [*stream_remarks(machine, 32), *stream_remarks(load_machine("vta"), 1), *stream_remarks(machine, 0)] == []


def region(reason: tuple[object, ...]) -> ir.Model:
    value = ir.Value(name="x")
    call = ir.node("region0", [value], domain=REGION, num_outputs=1)
    inner = ir.Value(name="a")
    function = ir.Function(REGION, "region0", graph=ir.Graph([inner], [inner], nodes=[]), attributes=[])
    if reason:
        function.metadata_props[ROW_BY_ROW] = reasons_json(reason)  # type: ignore[arg-type]
    graph = ir.Graph([value], [call.outputs[0]], nodes=[call], opset_imports={"": 17, REGION: 1})
    return ir.Model(graph, ir_version=8, functions=[function])


def test_a_region_that_runs_once_a_row_says_so_and_why() -> None:
    why = Why.REQUIRES(kernel="dense", note="it takes one row")
    (remark,) = remarks_of(run_remarks(region((why,)), {"region0": (25, 1)}), "vta")
    assert remark.reason == Why.ROW_RUNS([why], region="region0", runs=25)
    assert remark.text.startswith("'region0' runs 25 times, once for each row: kernel 'dense' cannot do this: it takes one row. ")
    (plain,) = run_remarks(region(()), {"region0": (75, 4)})
    assert plain == Why.RUNS(region="region0", runs=75, images=4, batch=300)
    assert list(run_remarks(region((why,)), {"region0": (1, 25)})) == []


def used(machine: Machine, rate: float, streams: int = 1) -> RegionUse:
    """Of one operation with so many multiply-accumulates a cycle."""
    operation = OperationUse("conv", "conv2d", 10, 2e6, "compute", 1e6, round(rate * 1e6), 0)
    return RegionUse("region0", machine.name, 1, 10, 2e6, 1e6, "compute", (operation,), (), (), streams, machine.timing.peak_macs)


@pytest.mark.parametrize(("share", "code"), [(0.95, None), (0.61, None), (0.5, "unreached_peak"), (1.0, None), (1.5, "exceeded_peak")])
def test_a_changed_peak_is_seen_beside_the_timing(share: float, code: str | None) -> None:
    machine = load_machine("vta")
    found = list(peak_remarks(machine, [used(machine, share * (machine.timing.peak_macs or 0))]))
    assert [reason.code for reason in found] == ([code] if code else [])


def test_cores_that_stand_idle_are_not_the_peak_s_fault_and_small_networks_say_nothing() -> None:
    machine = load_machine("stcp920")
    peak = machine.timing.peak_macs or 0
    assert list(peak_remarks(machine, [used(machine, peak / machine.streams)])) == []
    small = used(machine, peak / 1000)
    few = replace(small.operations[0], macs=LARGE - 1, busy=1e9)
    assert list(peak_remarks(machine, [replace(small, operations=(few,))])) == []


def test_no_share_is_above_all_there_is(summary: Summary) -> None:
    assert [share_text(share, 1) for share in (None, 99.94, 100.04, 100.06, 238.0)] == ["-", "99.9", "100.0", ">100", ">100"]
    low = replace(summary, peak_macs=1, regions=tuple(replace(each, peak_macs=1) for each in summary.regions))
    text = summary_text(low)
    assert "multiply-accumulates a cycle, more than the 1 that the machine's file declares" in text
    assert "no schedule of these instructions" not in text


def test_a_region_that_runs_often_bounds_no_schedule_above_its_cycles(summary: Summary) -> None:
    """Cycles are of all runs, and so is the bound."""
    runs = 25
    often = replace(
        summary, time=replace(summary.time, cycles=runs * summary.time.cycles), regions=tuple(replace(r, runs=runs) for r in summary.regions)
    )
    bound = summary_text(often).partition("no schedule of these instructions uses more than ")[2].partition(" %")[0]
    once = summary_text(summary).partition("no schedule of these instructions uses more than ")[2].partition(" %")[0]
    assert float(bound) == pytest.approx(float(once) / runs, abs=0.1)


def test_figures_have_the_whole_at_the_top(summary: Summary) -> None:
    data = summary_data(summary)
    assert (data["cycles"], data["total_ms"], data["machine_ms"]) == (summary.time.cycles, summary.time.total_ms, summary.time.execute_ms)
