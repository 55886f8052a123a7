from tests.graph_networks import built, engine, regions
from toolchain.codegen.json_graph import graph_cycles
from toolchain.graph.files.stage_file import read_stage
from toolchain.report.graph_use import use_graph
from toolchain.report.placement import HOST, MACHINE, place_nodes
from toolchain.verify.built import stage_before


def test_operators_cost_what_the_file_says() -> None:
    region, _ = regions()
    found = use_graph(engine(), region)
    assert found.cycles == graph_cycles(engine(), region) == sum(use.cycles for use in found.operations)
    assert [use.kind for use in found.operations] == ["Conv", "Clip", "LeakyRelu", "Reshape"]
    assert found.operations[0].macs == 2 * 4 * 4 * 4 * 27
    assert {basis.name for basis in found.constants} == {"clock_khz", "peak_macs", "dram bytes_per_cycle"}


def test_every_node_of_a_graph_is_on_the_machine() -> None:
    found = built()
    stages = stage_before(found.folder, "fuse", "partition")
    placement = place_nodes(read_stage(stages), found.partitioned, found.folder)
    assert {node.node for node in placement.on(MACHINE)} == {"conv", "clip", "leaky", "rows", "product", "softmax"}
    assert [node.node for node in placement.on(HOST)] == ["sums"]
    assert placement.mac_percent == 100
