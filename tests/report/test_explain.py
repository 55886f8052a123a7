"""An explanation before a build agrees with the report after it, and the model's metadata hold the placement of every node."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.reasons import against
from tests.report.networks import Case, case, cases, split
from tests.report.test_summary import summary as summary  # a fixture
from toolchain.graph.regions import REGION, ROW_BY_ROW, region_calls, region_function
from toolchain.passes.leave import WIDENED
from toolchain.passes.templates import default_templates
from toolchain.report.costs import CostRow, CostTable, Crossings
from toolchain.report.explain import (
    LARGE,
    Explanation,
    Widened,
    annotated,
    explain,
    find_widened,
    helped_remarks,
    peak_remarks,
    remarks_of,
    run_remarks,
    stream_remarks,
)
from toolchain.report.placement import FOLDED, HOST, MACHINE, NodePlaces, Placed
from toolchain.report.region_use import OperationUse, RegionUse
from toolchain.report.summary import Summary, built_costs
from toolchain.report.summary_text import summary_data, summary_text
from toolchain.report.tables import share_text
from toolchain.runtime.timing import Modelled
from toolchain.spec.load import load_machine
from toolchain.spec.model import Machine
from toolchain.spec.reason import reasons_json
from toolchain.spec.reasons import Why
from toolchain.spec.typed_json import from_json, to_json

NAMES = "m", "t", "on paper", "t --set A=1"


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Case]:
    return cases(tmp_path_factory.mktemp("cases"))


def explained(one: Case) -> Explanation:
    return explain(one.built.backends, default_templates(), one.built.partitioned, one.placement, NAMES)


@pytest.mark.parametrize("name", ["split on vta", "split on dpuv3", "nothing on vta"])
def test_all_but_the_cycles_is_what_the_built_model_costs(name: str, known: dict[str, Case]) -> None:
    one = known[name]
    found, built = explained(one), built_costs(one.built, one.placement)
    assert found.costs.samples == built.samples
    assert found.costs.host_ms == pytest.approx(built.host_ms)
    assert (found.costs.conversions, found.costs.transfers, found.costs.launches) == (built.conversions, built.transfers, built.launches)
    assert found.costs.machine_ms == pytest.approx(built.machine_ms, rel=1.0)
    assert {row.name: row.host_ms for row in found.costs.rows} == {row.name: row.host_ms for row in built.rows}
    assert sum(operation.ms for operation in found.operations) == pytest.approx(found.costs.machine_ms)


def test_everything_is_in_the_json(known: dict[str, Case]) -> None:
    found = explained(known["split on dpuv3"])
    data = json.loads(json.dumps(to_json(found), allow_nan=False))
    assert from_json(Explanation, data) == found
    assert [row["name"] for row in data["costs"]["rows"]] == [row.name for row in found.costs.rows]


def test_every_node_on_the_host_has_a_reason(known: dict[str, Case]) -> None:
    found = explained(known["nothing on vta"])
    assert sorted(name for reason in found.reasons for name in reason.nodes) == ["gate", "product", "soft"]
    assert all(reason.ways and all(reason.ways) and reason.change for reason in found.reasons)
    assert found.operations == ()


def test_what_is_widened_is_told(known: dict[str, Case]) -> None:
    model = known["split on vta"].built.partitioned.clone()
    assert find_widened(model) == []
    inner = next(iter(region_function(model, region_calls(model)[0])))
    inner.metadata_props[WIDENED] = "-1 to 2"
    assert find_widened(model) == [Widened("first", "-1 to 2")]


KEEPING = """\
model: {name: kept, summary: for a test, sources: [here]}
onnx: split.onnx
inputs: {x: [1, 4, 12, 12]}
host: [first]
"""


def test_what_a_user_keeps_is_told(tmp_path: Path) -> None:
    split(tmp_path / "split.onnx")
    (tmp_path / "kept.yaml").write_text(KEEPING)
    found = explained(case("vta", tmp_path / "kept.yaml", tmp_path / "build"))
    assert found.kept == ("first",)
    assert any(reason.change.startswith("Take its pattern out of `host`") for reason in found.reasons)


def test_rows_name_the_operators_of_the_model(known: dict[str, Case]) -> None:
    one = known["split on vta"]
    rows = built_costs(one.built, one.placement).rows
    assert {row.name: row.operators for row in rows} == {"region0": "1 Conv, 1 Relu", "gate": "Sigmoid", "region1": "1 Conv"}


def test_programs_that_stand_idle_are_said_with_the_variable_that_uses_them() -> None:
    machine = load_machine("stcp920")
    (remark,) = remarks_of(stream_remarks(machine, 1), "stcp920")
    assert remark.reason == Why.UNUSED_STREAMS(used=1, streams=32)
    advice = "Build it with `batch=32`: so many images side by side, as takes least time; or with `streams=32`: all share the work of one."
    assert remark.text == f"1 of the machine's 32 programs at a time work on it. {advice}"
    assert [*stream_remarks(machine, 32), *stream_remarks(machine, 13), *stream_remarks(load_machine("vta"), 1), *stream_remarks(machine, 0)] == []


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


NONE = Crossings(0, 0.0, 0)
PLACED = (
    Placed("same", "Identity", FOLDED, "", "", "", "taken away by the pass remove_identity", 0, 0),
    Placed("layer", "Conv", MACHINE, "layer", "conv2d", "region0", "", 64, 128, "vta"),
    Placed("gate", "Sigmoid", HOST, "", "", "", "it has no such operation", 0, 64, refusals={"dpuv3": against("nor has this one")}),
)
ROWS = (
    CostRow("region0", MACHINE, "Conv", ("layer",), 1.5, 0.25, 0.5, 0.25, 4.0, 64, 128, "", "vta"),
    CostRow("gate", HOST, "Sigmoid", ("gate",), 0.5, 0.0, 0.0, 0.0, 0.5, 0, 64, "it has no such operation"),
)
FOUND = Explanation("m", "vta", "", NodePlaces(PLACED, 0), CostTable(1, True, ROWS, (), NONE, NONE, NONE), (), (), (), (), {})


def stored(folder: Path) -> Path:
    """Its weight stands in a file beside it."""
    nodes = [
        helper.make_node("Identity", ["x"], ["i"], "same"),
        helper.make_node("Conv", ["i", "w"], ["a"], "layer"),
        helper.make_node("Sigmoid", ["a"], ["y"], "gate"),
        helper.make_node("Identity", ["y"], ["z"], "unknown"),
    ]
    x, z = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 4, 4, 4]) for name in "xz")
    graph = helper.make_graph(nodes, "g", [x], [z], [numpy_helper.from_array(np.ones((4, 4, 1, 1), np.float32), "w")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    onnx.save(model, folder / "m.onnx", save_as_external_data=True, location="m.bin", size_threshold=0)
    return folder / "m.onnx"


def test_every_node_says_where_it_is_and_what_it_costs_on_each_side(tmp_path: Path) -> None:
    model = annotated(onnx.load(stored(tmp_path), load_external_data=False), FOUND)
    told = {node.name: {entry.key.removeprefix("tilewright."): entry.value for entry in node.metadata_props} for node in model.graph.node}
    assert told == {
        "same": {"where": "folded", "reason": "taken away by the pass remove_identity", "macs": "0"},
        "layer": {
            "where": "machine", "target": "vta", "region": "region0", "operation": "layer", "computes": "conv2d", "macs": "64",
            "region_ms": "1.5", "region_border_ms": "1", "region_host_ms": "4",
        },
        "gate": {
            "where": "host", "reason": "it has no such operation", "macs": "0", "refusal.dpuv3": "nor has this one", "ms": "0.5", "border_ms": "0",
        },
        "unknown": {},
    }  # fmt: skip
    assert model.graph.doc_string == "m on vta: 3 ms for a run, estimated"


def test_the_file_is_whole_without_the_weights(tmp_path: Path) -> None:
    model = annotated(onnx.load(stored(tmp_path), load_external_data=False), FOUND)
    onnx.checker.check_model(model, full_check=True)
    assert [value.name for value in model.graph.input] == ["x", "w"]
    assert not model.graph.initializer


def test_copies_that_help_one_image_are_said_with_its_own_time() -> None:
    alone = Modelled(1, 2636.0, 0.002, 0.0, 0.02, 0.01)
    (remark,) = remarks_of(helped_remarks(4, alone), "stcp920")
    assert remark.reason == Why.HELPED(used=4, milliseconds=alone.total_ms)
    assert remark.text.startswith(
        "4 programs share the loads of weights, so that one image takes least time, and a run has room for 4: one alone takes 0.032 ms"
    )
    assert [*helped_remarks(1, alone)] == []
