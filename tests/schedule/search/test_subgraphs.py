"""`search=subgraphs`: convolutions take tiles of convolutions, programs are exact and free of races on two clusters of two cores, and no slower than
without; what was tried is in the record."""

import json
from functools import cache

import numpy as np
import pytest

from tests.operations import made
from tests.schedule.convolutions import convolution
from tests.schedule.search.made_graphs import inception
from tests.schedule.test_compile_region import proven
from tests.schedule.tiling.fused_chains import PICTURE, chain, conv, pool
from toolchain.schedule.compile_region import compile_region, search_schedule
from toolchain.schedule.kernels.kernel_file import load_kernels
from toolchain.schedule.options import Options
from toolchain.schedule.program import CompiledRegion
from toolchain.schedule.regions.region import Region
from toolchain.schedule.search.contest import write_record
from toolchain.schedule.search.cover import operation_graph
from toolchain.schedule.search.draft import Draft, Space
from toolchain.schedule.search.policies import draft_by_estimate
from toolchain.schedule.search.subgraphs import Coarse, coarse_drafts
from toolchain.spec.errors import UserError

MACHINE = made.load_machine("stcp920", "paper", {"CLUSTERS": "2", "CORES": "2", "L1_KIB": "32", "LOG_LLB": "18", "LOG_DDR": "22"})
KERNELS = load_kernels(MACHINE)
WIDE, NARROW = (1, 96, 20, 16), (1, 32, 20, 16)


@cache
def bottleneck() -> Region:
    """Wide between its convolutions, as in MobileNet, and read once more by the sum."""
    rng = np.random.default_rng(2)
    weight, bias = rng.integers(-128, 128, (96, 3, 3), np.int8), rng.integers(-500, 500, 96).astype(np.int32)
    middle = made.depthwise("taps", WIDE, weight, bias, made.Window((3, 3), pads=(1, 1, 1, 1)), made.Requantise(7, 0, 127))
    return chain(
        NARROW, (convolution(NARROW, (96, 1, 1), 1), {"x": "t"}), (middle, {"x": "t0"}),
        (convolution(WIDE, (32, 1, 1), 3), {"x": "t1"}), (made.add("add", NARROW), {"x": "t2", "z": "t"}),
    )  # fmt: skip


def compiled(search: str, effort: int, streams: int = 1, copies: int = 1) -> CompiledRegion:
    return compile_region(MACHINE, KERNELS, bottleneck(), Options(search=search, effort=effort, streams=streams, copies=copies))


def passed(found: CompiledRegion) -> list[str]:
    return [operation.kernel for group in found.schedule.groups for operation in group.operations if KERNELS[operation.kernel].passed]


@pytest.mark.parametrize(("streams", "copies"), [(1, 1), (2, 1), (1, 4), (2, 2)])
def test_programs_are_exact_and_no_slower_than_without(streams: int, copies: int) -> None:
    found = compiled("subgraphs", 2, streams, copies)
    assert proven(found, MACHINE)
    assert all(proven(found, MACHINE, seed) for seed in (3, 4))
    assert found.cycles <= compiled("greedy", 2, streams, copies).cycles


def test_a_convolution_takes_the_tile_of_another_one_where_that_is_quicker() -> None:
    found, plain = compiled("subgraphs", 2), compiled("climb", 2)
    assert "conv2d_passed" in passed(found)
    assert not any(kernel.endswith("_passed") for kernel in passed(plain))
    assert found.cycles < plain.cycles


@pytest.mark.parametrize("name", ["vta", "dnnvm:zu9"])
def test_other_machines_keep_their_results(name: str) -> None:
    """None of their kernels makes a result beside a tile that another operation has left."""
    machine = made.load_machine(name)
    kernels, options = load_kernels(machine), Options(search="subgraphs", effort=3)
    region = chain(PICTURE, (conv(1), {"x": "t"}), (conv(2), {"x": "t0"}), (pool(3, 2, 1), {"x": "t1"}))
    found = compile_region(machine, kernels, region, options)
    assert proven(found, machine)
    assert found.cycles <= compile_region(machine, kernels, region, Options(search="greedy")).cycles


def space(region: Region) -> Space:
    return Space(MACHINE, KERNELS, region, Options(search="subgraphs"))


def test_drafts_hold_every_operation_and_their_sub_graphs_together() -> None:
    own = space(inception())
    graph = operation_graph(own.region)
    for draft in coarse_drafts(own):
        assert sorted(draft.order) == list(graph)
        assert all(draft.order.index(a) < draft.order.index(b) for a, b in graph.edges)
        assert own.planner(draft).asked == tuple(range(draft.order.index(each[0]), draft.order.index(each[0]) + len(each)) for each in draft.together)
        assert {name for each in draft.subgraphs for name in each.names} == {bound.operation.name for bound in own.region.operations}


def test_a_draft_in_another_order_leaves_the_sets_that_it_takes_apart() -> None:
    draft = Draft((0, 1, 2, 3), together=((0, 1), (2, 3)))
    assert draft.reordered((0, 2, 1, 3), "swapped").together == ()
    assert draft.reordered((1, 0, 2, 3), "swapped").together == draft.together
    own = space(bottleneck())
    with pytest.raises(UserError, match="E1402 a draft has 2 operations together, and others between them"):
        own.planner(Draft((0, 1, 2, 3), together=((0, 2),)))


def test_the_estimate_takes_the_sub_graphs_in_the_region_s_order() -> None:
    own = space(bottleneck())
    assert draft_by_estimate(own) == Coarse(own, ruled=False).first
    plain = Space(MACHINE, KERNELS, own.region, Options())
    assert draft_by_estimate(plain) == plain.first


def test_the_record_has_every_sub_graph_with_its_split() -> None:
    _, trials = search_schedule(MACHINE, KERNELS, bottleneck(), Options(search="subgraphs", effort=3))
    found = json.loads(write_record("region0", "subgraphs", 3, trials))
    assert found["candidates"][1]["candidate"] == "free sub-graphs in the region's order"
    names = [name for each in found["subgraphs"] for name in each["operations"]]
    assert sorted(name for name in names if not name.endswith(".fetched")) == ["op0", "op1", "op2", "op3"]
    assert all(each["axis"] in "nchw" and each["factor"] >= 1 and each["split"] >= 1 for each in found["subgraphs"] if "axis" in each)
    _, plain = search_schedule(MACHINE, KERNELS, bottleneck(), Options(effort=3))
    assert "subgraphs" not in json.loads(write_record("region0", "climb", 3, plain))
