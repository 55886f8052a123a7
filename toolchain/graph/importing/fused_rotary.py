"""Rotary positions as one operator, the standard's and com.microsoft's, written out by parts: with a and b the channels of a pair, a * cos - b * sin
and b * cos + a * sin.

Sources: ONNX Runtime's ContribOperators.md; ONNX's operator set 23.
"""

from collections.abc import Sequence

import numpy as np

from toolchain.graph.importing.foreign_operators import Layer

SEQUENCE, OF_HEADS = 3, 4
"""Axes of [batch, rows, channels], and of [batch, heads, rows, channels]."""
END = np.iinfo(np.int64).max


def standard_rotary(layer: Layer) -> bool:
    """Operands: x, the tables of cosines and sines, and positions [batch, rows], by which rows of the tables are taken."""
    x, *tables, positions = (layer.operand(number) for number in range(4))
    ranks = {layer.rank(table) for table in tables}
    if ranks != {2 if positions else 3}:
        return False
    if positions:
        tables = [table_rows(layer, table, positions) for table in tables]
    return _write(layer, x, tables, layer.given.get("num_heads", 0))


def vendor_rotary(layer: Layer) -> bool:
    """Operands: x, positions [batch, rows] or the first one alone, and the tables. Heads are as many as the tables' channels make, where the node
    does not say."""
    x, positions, *tables = (layer.operand(number) for number in range(4))
    rank, heads = layer.rank(positions), layer.given.get("num_heads", 0)
    if layer.given.get("is_packed_batching") or layer.given.get("scale", 1.0) != 1 or rank not in (1, 2) or layer.rank(x) not in (SEQUENCE, OF_HEADS):
        return False
    if layer.rank(x) == SEQUENCE and not heads:
        channels, angles = (layer.facts.tensors[name].shape[-1] if name in layer.facts.tensors else None for name in (x, tables[0]))
        if not channels or not angles:
            return False
        heads = channels // (2 * angles)
    if rank == 1:
        positions = _from(layer, positions, x)
    return _write(layer, x, [table_rows(layer, table, positions) for table in tables], heads)


def table_rows(layer: Layer, table: str, places: str) -> str:
    """The rows of a table that stand at places [batch, rows], once for all layers that turn by them."""
    return layer.add_once("Gather", [table, places], f"{table}/{places}.rows", axis=0)


def _from(layer: Layer, first: str, x: str) -> str:
    """Positions [1, rows] from the first one on."""
    axis = 1 if layer.rank(x) == SEQUENCE else 2
    count = layer.add("Squeeze", [layer.add("Shape", [x], "length", start=axis, end=axis + 1)], "rows")
    steps = layer.add("Range", [layer.constant("zero", 0, np.int64), count, layer.constant("step", 1, np.int64)], "steps")
    return layer.add("Unsqueeze", [layer.add("Add", [steps, first], "places"), layer.constant("batch", [0], np.int64)], "positions")


def _write(layer: Layer, x: str, tables: Sequence[str], heads: int) -> bool:
    """tables: cosines and sines [batch, rows, pairs]. heads: of a sequence."""
    rank, width, interleaved = layer.rank(x), int(layer.given.get("rotary_embedding_dim", 0)), bool(layer.given.get("interleaved"))
    if rank not in (SEQUENCE, OF_HEADS) or (rank == SEQUENCE and not heads):
        return False
    channels = layer.facts.tensors[x].shape[-1]
    if channels is None:
        return False
    width = 0 if width == (channels if rank == OF_HEADS else channels // heads) else width
    if rank == OF_HEADS:
        turned(layer, x, tables, 1, "x", width, interleaved, layer.node.output[0])
    else:
        sequence(layer, x, tables, heads, "x", width, interleaved, layer.node.output[0])
    return True


def sequence(layer: Layer, x: str, tables: Sequence[str], heads: int, word: str, width: int, interleaved: bool, output: str = "") -> str:
    """A sequence [batch, rows, channels] whose heads are turned, as `turned` does it."""
    apart = layer.add("Reshape", [x, layer.constant(f"{word}.by_heads", [0, 0, heads, -1], np.int64)], f"{word}.apart")
    whole = turned(layer, apart, tables, 2, word, width, interleaved)
    return layer.add("Reshape", [whole, layer.constant(f"{word}.joined", [0, 0, -1], np.int64)], f"{word}.sequence", output)


def turned(layer: Layer, x: str, tables: Sequence[str], axis: int, word: str, width: int, interleaved: bool, output: str = "") -> str:
    """The pairs of every head, turned. tables: cosines and sines [batch, rows, pairs]. axis: of the heads in x. width: channels of a head that are
    turned, 0 for all. interleaved: whether a pair stands side by side."""
    heads = layer.constant(f"{word}.axis", [axis], np.int64)
    cos, sin = (layer.add("Unsqueeze", [table, heads], f"{word}.{name}") for table, name in zip(tables, ("cos", "sin"), strict=True))
    front = cut(layer, x, f"{word}.front", 0, width) if width else x
    if interleaved:
        a, b = (cut(layer, front, f"{word}.{name}", first, END, 2) for first, name in enumerate(("first", "second")))
    else:
        a, b = f"{layer.node.output[0]}/{word}.first", f"{layer.node.output[0]}/{word}.second"
        layer.split(front, [a, b], f"{word}.parts", -1)
    low = layer.add("Sub", [_times(layer, a, cos, f"{word}.first.kept"), _times(layer, b, sin, f"{word}.second.taken")], f"{word}.low")
    high = layer.add("Add", [_times(layer, b, cos, f"{word}.second.kept"), _times(layer, a, sin, f"{word}.first.added")], f"{word}.high")
    last = "" if width else output
    if interleaved:
        side = layer.constant(f"{word}.side", [-1], np.int64)
        sides = [layer.add("Unsqueeze", [each, side], f"{word}.{name}.side") for each, name in ((low, "low"), (high, "high"))]
        stack = layer.add("Concat", sides, f"{word}.stack", axis=-1)
        whole = layer.add("Reshape", [stack, layer.constant(f"{word}.flat", [0, 0, 0, -1], np.int64)], f"{word}.turned", last)
    else:
        whole = layer.add("Concat", [low, high], f"{word}.turned", last, axis=-1)
    return layer.add("Concat", [whole, cut(layer, x, f"{word}.rest", width, END)], f"{word}.whole", output, axis=-1) if width else whole


def _times(layer: Layer, x: str, table: str, word: str) -> str:
    return layer.add("Mul", [x, table], word)


def cut(layer: Layer, x: str, word: str, first: int, stop: int, step: int = 1) -> str:
    """Some channels."""
    ends = [layer.constant(f"{word}.{end}", [number], np.int64) for end, number in (("start", first), ("stop", stop), ("axis", -1), ("step", step))]
    return layer.add("Slice", [x, *ends], word)
