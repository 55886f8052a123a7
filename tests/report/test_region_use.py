import numpy as np
import pytest

from tests.c_networks import clib
from tests.codegen.test_c99 import integer_region
from tests.graph_networks import built, engine, regions
from tests.verify.regions import small
from toolchain.codegen.graphs import graph_cycles
from toolchain.graph.store import read_stage
from toolchain.report.placement import HOST, MACHINE, place_nodes
from toolchain.report.region_use import covered, use_calls, use_graph, use_region
from toolchain.schedule.calls import plan_calls
from toolchain.verify.built import stage_before


@pytest.mark.parametrize(
    ("ranges", "count"),
    [([], 0), ([(2, 5)], 3), ([(2, 5), (2, 5)], 3), ([(4, 9), (0, 2), (1, 6)], 9), ([(0, 10), (1, 2), (3, 4), (12, 13)], 11), ([(0, 2), (2, 3)], 3)],
)
def test_ranges_that_overlap_count_once(ranges: list[tuple[int, int]], count: int) -> None:
    start, stop = (np.array([pair[k] for pair in ranges], np.int64) for k in (0, 1))
    assert covered(start, stop) == count


def test_operations_share_the_cycles_and_the_instructions() -> None:
    tested, _ = small()
    found = use_region(tested)
    early, late = found.operations
    assert (early.operation, late.operation) == ("early", "late")
    assert (early.macs, late.macs) == (17 * 30 * 20 * 9, 24 * 30 * 17)
    assert early.instructions + late.instructions == int((tested.owner >= 0).sum())
    assert early.cycles + late.cycles <= found.cycles
    assert found.cycles - early.cycles - late.cycles < 100
    assert 0 < found.bound <= found.cycles
    assert found.images == 1


def test_an_operation_cannot_beat_the_peak_of_the_unit_that_it_keeps() -> None:
    found = use_region(small()[0])
    assert {use.unit for use in found.operations} <= {"load", "compute", "store"}
    assert all(0 < use.busy <= found.bound for use in found.operations)
    assert all(use.macs <= 256 * use.busy for use in found.operations)


def test_bytes_and_room_follow_from_the_footprints() -> None:
    tested, _ = small()
    found = use_region(tested)
    rooms = {room.memory: room for room in found.memories}
    assert set(rooms) == {"dram", "uop", "inp", "wgt", "acc"}
    assert not rooms["dram"].on_chip
    assert rooms["dram"].written == (2 + 2) * 30 * 16
    assert sum(use.bytes for use in found.operations) == rooms["dram"].read + rooms["dram"].written
    assert all(0 < room.used <= room.of for room in rooms.values())
    assert rooms["wgt"].used <= rooms["wgt"].written
    assert any(basis.assumed for basis in found.constants)


def test_calls_cost_what_their_kernels_say() -> None:
    own = integer_region()
    found, plan = use_calls(clib(), own), plan_calls(clib(), own)
    assert found.cycles == found.bound == sum(plan.cycles)
    assert [use.cycles for use in found.operations] == list(plan.cycles)
    assert found.instructions == len(own.operations)
    (memory,) = found.memories
    assert not memory.on_chip
    assert memory.read + memory.written == sum(use.bytes for use in found.operations)
    first = found.operations[0]
    assert first.operation == "conv"
    assert first.bytes == 3 * 12 * 10 + 18 * 3 * 3 * 3 + 3 * 4 * 18 + 18 * 6 * 10


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
