from tests.graph_networks import engine, regions
from toolchain.codegen.json_graph import graph_cycles
from toolchain.report.graph_use import use_graph


def test_operators_cost_what_the_file_says() -> None:
    region, _ = regions()
    found = use_graph(engine(), region)
    assert found.cycles == graph_cycles(engine(), region) == sum(use.cycles for use in found.operations)
    assert [use.kind for use in found.operations] == ["Conv", "Clip", "LeakyRelu", "Reshape"]
    assert found.operations[0].macs == 2 * 4 * 4 * 4 * 27
    assert {basis.name for basis in found.constants} == {"clock_khz", "peak_macs", "dram bytes_per_cycle"}
