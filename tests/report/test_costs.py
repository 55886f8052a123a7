"""Rows of a table by time add up to what the summary of a built model says, part by part."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.report.networks import Case, cases
from toolchain.report.costs import CostTable, cost_rows
from toolchain.report.placement import HOST, MACHINE
from toolchain.runtime.timing import modelled, region_times, samples_of
from toolchain.spec.model import Host, Machine, Quantity

CASES = ("split on vta", "split on dpuv3", "nothing on vta")


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Case]:
    return cases(tmp_path_factory.mktemp("cases"))


def costs_of(case: Case, machine: Machine) -> CostTable:
    regions = case.built.bundle.manifest.regions
    times = region_times({machine.name: machine}, case.built.bundle.manifest)
    return cost_rows(machine, case.built.partitioned, {}, times, samples_of(regions))


@pytest.mark.drawn(1)
@pytest.mark.parametrize("name", CASES)
@given(rates=st.lists(st.floats(0.01, 1000), min_size=7, max_size=7))
def test_rows_add_up_to_the_modelled_time_at_any_price(name: str, rates: list[float], known: dict[str, Case]) -> None:
    case, found = known[name], [Quantity(rate, "test") for rate in rates]
    host = Host(dict(zip(("conv2d", "dense", "default"), found[:3], strict=True)), *found[3:])
    machine = replace(case.built.machine, host=host)
    costs, manifest = costs_of(case, machine), case.built.bundle.manifest
    total = modelled({machine.name: machine}, manifest)
    assert costs.host_ms == pytest.approx(total.host_ms)
    assert costs.machine_ms == pytest.approx(total.execute_ms)
    assert costs.transfers.ms == pytest.approx(total.transfer_ms)
    assert costs.launches.ms == pytest.approx(total.launch_ms)
    assert costs.total_ms == pytest.approx(total.total_ms) == pytest.approx(sum(row.ms for row in costs.rows))
    assert [row.ms for row in costs.rows] == sorted((row.ms for row in costs.rows), reverse=True)
    assert sum(row.macs for row in costs.on(HOST)) == costs.samples * sum(work.macs for s in manifest.hosts for work in s.work.values())


@pytest.mark.parametrize("name", CASES)
def test_every_node_has_one_row(name: str, known: dict[str, Case]) -> None:
    case = known[name]
    costs = costs_of(case, case.built.machine)
    names = [node for row in costs.rows for node in row.nodes]
    assert len(set(names)) == len(names)
    assert {node.node for node in case.placement.computed} == set(names)
    assert {row.name for row in costs.on(MACHINE)} == {region.name for region in case.built.bundle.manifest.regions}
    assert costs.conversions.count == case.placement.conversions


def test_borders_name_the_other_side(known: dict[str, Case]) -> None:
    case = known["split on vta"]
    costs = costs_of(case, case.built.machine)
    sides = [(border.region, border.inward, border.other) for border in costs.borders]
    assert sides == [("region0", True, ""), ("region0", False, "gate"), ("region1", True, "gate"), ("region1", False, "")]
    assert all(border.convert_ms > 0 and border.copy_ms > 0 and border.converted > border.bytes > 0 for border in costs.borders)


def test_a_machine_without_costs_of_a_host_has_its_own_time(known: dict[str, Case]) -> None:
    case = known["split on vta"]
    costs = costs_of(case, replace(case.built.machine, host=None))
    assert not costs.priced
    assert costs.total_ms == costs.machine_ms > 0
    assert costs.losing == []


def test_a_region_loses_where_the_host_is_quicker(known: dict[str, Case]) -> None:
    case = known["split on vta"]
    fast = Host({}, Quantity(1e9, "test"), *(Quantity(value, "test") for value in (1.0, 1.0, 1.0)))
    slow = Host({"default": Quantity(1e-6, "test")}, Quantity(1e9, "test"), *(Quantity(value, "test") for value in (1.0, 1.0, 1.0)))
    assert len(costs_of(case, replace(case.built.machine, host=fast)).losing) == 2
    assert costs_of(case, replace(case.built.machine, host=slow)).losing == []
