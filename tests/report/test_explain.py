"""An explanation before a build and the report after it say the same, but for the device's own cycles."""

import json
from pathlib import Path

import pytest

from tests.report.networks import Case, case, cases, split
from toolchain.graph.regions import region_calls, region_function
from toolchain.passes.leave import WIDENED
from toolchain.passes.templates import default_templates
from toolchain.report.explain import Explanation, Widened, explain, find_widened
from toolchain.report.summary import built_costs
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
