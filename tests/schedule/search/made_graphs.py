"""Random graphs of operations, and blocks of branches that real networks have."""

import itertools
from dataclasses import replace

import networkx as nx
import numpy as np

from tests.operations import made
from tests.schedule.convolutions import convolution
from toolchain.abi.dram_map import Shape
from toolchain.schedule.kernels.kernel_file import load_kernels
from toolchain.schedule.options import Options
from toolchain.schedule.regions.region import Bound, Region
from toolchain.schedule.search.draft import Space

SIZE = (1, 32, 14, 14)


def random_graph(seed: int, nodes: int) -> "nx.DiGraph[int]":
    """Edges go from lower to higher numbers, as in a region."""
    rng = np.random.default_rng(seed)
    graph: nx.DiGraph[int] = nx.DiGraph()
    graph.add_nodes_from(range(nodes))
    graph.add_edges_from((a, b) for b in range(nodes) for a in range(b) if rng.random() < 1.6 / nodes)
    return graph


def inception(batch: int = 1) -> Region:
    """Four branches of one tensor and their concatenation, branch by branch: 1x1; 1x1 and 3x3; 1x1 and 5x5; a pool and 1x1."""
    size = (batch, *SIZE[1:])
    names = {"stem": 1, "one": 1, "narrow3": 1, "three": 3, "narrow5": 1, "five": 5, "last": 1}
    found = {name: replace(convolution(size, (32, k, k), seed, 200, pads=(k // 2,) * 4), name=name) for seed, (name, k) in enumerate(names.items())}
    pool = made.max_pool("pool", size, made.Window((3, 3), pads=(1, 1, 1, 1)))
    bound = (
        Bound(found["stem"], {"x": "in", "y": "x"}), Bound(found["one"], {"x": "x", "y": "a"}),
        Bound(found["narrow3"], {"x": "x", "y": "b0"}), Bound(found["three"], {"x": "b0", "y": "b"}),
        Bound(found["narrow5"], {"x": "x", "y": "c0"}), Bound(found["five"], {"x": "c0", "y": "c"}),
        Bound(pool, {"x": "x", "y": "d0"}), Bound(found["last"], {"x": "d0", "y": "d"}),
    )  # fmt: skip
    tensors = dict.fromkeys(("in", "x", "a", "b0", "b", "c0", "c", "d0", "d"), Shape(*size))
    return Region("block", tensors, ("in",), ("a", "b", "c", "d"), bound, {})


def space_on(name: str) -> Space:
    machine = made.load_machine(name)
    return Space(machine, load_kernels(machine), inception(machine.lockstep), Options(check=False))


def packed() -> Space:
    """A chain on dpuv3 with 14 rows, the last six of which a kernel copies on chip, and a pool to 7 rows, which are one tile."""
    names = "xabcd"
    sizes = {"x": (4, 64, 14, 14), "a": (4, 64, 14, 14), "b": (4, 64, 14, 14), "c": (4, 64, 7, 7), "d": (4, 64, 7, 7)}
    layers = [replace(convolution(sizes["x"], (64, k, k), seed, 500, pads=(k // 2,) * 4), name=f"conv{seed}") for seed, k in enumerate((1, 3))]
    pool, last = made.max_pool("pool", sizes["b"], made.Window((2, 2), (2, 2))), replace(convolution(sizes["c"], (64, 1, 1), 2, 500), name="last")
    pairs = zip([*layers, pool, last], itertools.pairwise(names), strict=True)
    bound = tuple(Bound(each, {"x": before, "y": after}) for each, (before, after) in pairs)
    region = Region("packed", {name: Shape(*size) for name, size in sizes.items()}, ("x",), ("d",), bound, {})
    machine = made.load_machine("dpuv3")
    return Space(machine, load_kernels(machine), region, Options())
