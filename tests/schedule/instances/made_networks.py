"""Networks of made-up operations: windows that slide over pictures, whole channels, and the stages of the GraphTurbo paper."""

from collections.abc import Sequence

import networkx as nx
from hypothesis import strategies as st

from toolchain.schedule.instances.network import AXES, Extents, Network, Operand, Span, Work, span_of

IMAGES, CHANNELS = 0, 1


def same(extent: int) -> Span:
    return span_of(range(extent), range(1, extent + 1))


def everything(count: int, extent: int) -> Span:
    return span_of([0] * count, [extent] * count)


def window(count: int, extent: int, stride: int, reach: int, pad: int) -> Span:
    firsts = [min(max(at * stride - pad, 0), extent - 1) for at in range(count)]
    return span_of(firsts, [max(min(at * stride - pad + reach, extent), first + 1) for at, first in enumerate(firsts)])


def operand(tensor: str, made: Extents, read: Extents, windows: Sequence[Span], mixed: bool = True) -> Operand:
    """windows: of rows and columns. mixed: each channel of the result needs all channels."""
    own = [same(made[IMAGES]), everything(made[CHANNELS], read[CHANNELS]) if mixed else same(made[CHANNELS]), *windows]
    spans = tuple(tuple(own[axis] if axis == along else everything(made[axis], read[along]) for along in AXES) for axis in AXES)
    return Operand(tensor, spans)


def convolution(name: str, tensor: str, read: Extents, channels: int, stride: int = 1, reach: int = 3, cycles: float = 1.0) -> Work:
    """Padded so that rows and columns are divided by the stride, where the kernel is not the stride itself."""
    made = read[0], channels, -(-read[2] // stride), -(-read[3] // stride)
    windows = [window(made[axis], read[axis], stride, reach, 0 if reach == stride else reach // 2) for axis in (2, 3)]
    return Work(name, name, made, (operand(tensor, made, read, windows),), cycles)


def total(name: str, tensors: Sequence[str], extents: Extents) -> Work:
    """A sum, element by element."""
    windows = [same(extents[2]), same(extents[3])]
    return Work(name, name, extents, tuple(operand(tensor, extents, extents, windows, mixed=False) for tensor in tensors), 1.0)


def stages(images: int = 8) -> Network:
    """The four stages of figure 3: each leaves half as many elements of an image as the one before."""
    rows = [1024, 512, 256, 128, 64]
    shapes: list[Extents] = [(images, 1, count, 1) for count in rows]
    works = tuple(convolution(f"stage{n + 1}", f"stage{n}" if n else "picture", shapes[n], 1, stride=2, reach=2) for n in range(4))
    return Network(works, frozenset({"stage4"}))


STAGE = 1024 + 512
"""Elements of an image that stage 1 needs at once."""


def blocks(images: int = 8) -> Network:
    """The convolution block and the identity block of figure 5, from one entry."""
    shape: Extents = (images, 4, 1, 1)
    works = [
        convolution(name, read, shape, 4, reach=1)
        for name, read in (("a1", "in"), ("a2", "a1"), ("a3", "a2"), ("short", "in"))
    ]  # fmt: skip
    works += [total("relu", ("a3", "short"), shape)]
    works += [convolution(name, read, shape, 4, reach=1) for name, read in (("b1", "relu"), ("b2", "b1"), ("b3", "b2"))]
    return Network((*works, total("relu2", ("b3", "relu"), shape)), frozenset({"relu2"}))


@st.composite
def networks(draw: st.DrawFn) -> Network:
    """Convolutions and sums, each of any tensors before that have the right shape."""
    shapes: dict[str, Extents] = {"in": (draw(st.integers(1, 3)), draw(st.integers(1, 4)), draw(st.integers(1, 20)), draw(st.integers(1, 6)))}
    works: list[Work] = []
    for number in range(draw(st.integers(1, 7))):
        tensor = draw(st.sampled_from(sorted(shapes)))
        alike = [name for name, shape in shapes.items() if shape == shapes[tensor]]
        if len(alike) > 1 and draw(st.booleans()):
            works.append(total(f"t{number}", draw(st.permutations(alike))[:2], shapes[tensor]))
        else:
            channels, stride, reach = draw(st.integers(1, 4)), draw(st.integers(1, 2)), draw(st.integers(1, 3))
            works.append(convolution(f"t{number}", tensor, shapes[tensor], channels, stride, reach, draw(st.floats(0.0, 9.0))))
        shapes[f"t{number}"] = works[-1].extents
    return Network(tuple(works), frozenset({works[-1].name}))


def graph_of(network: Network) -> "nx.DiGraph[int]":
    graph: nx.DiGraph[int] = nx.DiGraph()
    graph.add_nodes_from(range(len(network.works)))
    graph.add_edges_from(network.edges())
    return graph
