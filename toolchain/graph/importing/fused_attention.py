"""Fused attention (com.microsoft's Attention, MultiHeadAttention and GroupQueryAttention, the standard's Attention) written as exporters spell it,
products of heads around a softmax; and rotary positions as one operator, written out by parts: with a and b the channels of a pair,
a * cos - b * sin and b * cos + a * sin.

Sources: ONNX Runtime's ContribOperators.md; ONNX's operator set 23.
"""

from collections.abc import Sequence
from types import MappingProxyType

import numpy as np
from onnx import TensorProto, helper

from toolchain.graph.importing.foreign_operators import Layer
from toolchain.graph.rewrite import BY_HEADS, KEYS_LAST

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
        tables = [layer.add("Gather", [table, positions], f"{word}.rows", axis=0) for table, word in zip(tables, ("cos", "sin"), strict=True)]
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
    rows = [layer.add("Gather", [table, positions], f"{word}.rows", axis=0) for table, word in zip(tables, ("cos", "sin"), strict=True)]
    return _write(layer, x, rows, heads)


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
    front = _cut(layer, x, f"{word}.front", 0, width) if width else x
    if interleaved:
        a, b = (_cut(layer, front, f"{word}.{name}", first, END, 2) for first, name in enumerate(("first", "second")))
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
    return layer.add("Concat", [whole, _cut(layer, x, f"{word}.rest", width, END)], f"{word}.whole", output, axis=-1) if width else whole


def _times(layer: Layer, x: str, table: str, word: str) -> str:
    return layer.add("Mul", [x, table], word)


def _cut(layer: Layer, x: str, word: str, first: int, stop: int, step: int = 1) -> str:
    """Some channels."""
    ends = [layer.constant(f"{word}.{end}", [number], np.int64) for end, number in (("start", first), ("stop", stop), ("axis", -1), ("step", step))]
    return layer.add("Slice", [x, *ends], word)


UNSEEN = -10_000.0
"""Added to the score of a key that may not be seen, as ONNX Runtime does by default: its share is 0 in float32."""
SWAPPED = (0, 1, 3, 2)
PARTS = 3
"""Queries, keys and values."""


def packed_attention(layer: Layer) -> bool:
    """Operands: x, the weights and biases of queries, keys and values side by side, a mask, a cache, and what is added to the scores."""
    if layer.has(4, 6) or layer.hands_out(1) or any(layer.given.get(name) for name in ("do_rotary", "qkv_hidden_sizes", "past_present_share_buffer")):
        return False
    x, weights, bias = (layer.operand(number) for number in range(3))
    products = [layer.add("MatMul", [x, own], f"{kind}.product") for kind, own in zip("qkv", _thirds(layer, weights, "weight"), strict=True)]
    return _attend_to_keys(layer, products, bias, layer.operand(3))


def separate_attention(layer: Layer) -> bool:
    """Operands: queries, keys, values, their biases side by side, a mask of keys, and what is added to the scores."""
    q, k, v, bias = (layer.operand(number) for number in range(4))
    ranks = {layer.rank(name) if name else None for name in (q, k, v)}
    if layer.has(6, 7, 8, 9) or layer.hands_out(1, 2, 3) or ranks != {3}:
        return False
    return _attend_to_keys(layer, (q, k, v), bias, layer.operand(4))


def _thirds(layer: Layer, packed: str, word: str) -> list[str]:
    """The parts of queries, keys and values of a tensor that has them side by side; empty names where there is none."""
    if not packed:
        return [""] * 3
    names = [f"{layer.node.output[0]}/{kind}.{word}" for kind in "qkv"]
    layer.split(packed, names, word, -1)
    return names


def _attend_to_keys(layer: Layer, sequences: Sequence[str], bias: str, mask: str) -> bool:
    """sequences: queries, keys and values [batch, rows, channels]. bias: theirs side by side. mask: of keys; its other forms stay with the host."""
    if (masked := _mask_of_keys(layer, mask)) is None:
        return False
    biased = [layer.total(both, kind) for kind, *both in zip("qkv", sequences, _thirds(layer, bias, "bias"), strict=True)]
    return _attend(layer, biased, int(layer.given["num_heads"]), [*masked, layer.operand(5)], bool(layer.given.get("unidirectional")))


def standard_attention(layer: Layer) -> bool:
    """Operands: queries, keys, values, by heads already or with the numbers of heads as attributes, and a mask of scores or of truths."""
    heads, others = layer.given.get("q_num_heads", 0), layer.given.get("kv_num_heads", 0)
    plain = not layer.given.get("softcap") and not layer.given.get("softmax_precision")
    shapes = [layer.facts.tensors[name].shape for name in layer.node.input[:3] if name in layer.facts.tensors]
    if layer.has(4, 5, 6) or layer.hands_out(1, 2, 3) or not plain or {len(shape) for shape in shapes} != {3 if heads else 4}:
        return False
    counts = [heads, others, others] if heads else [shape[1] or 0 for shape in shapes]
    if not all(counts) or counts[0] % counts[1] or counts[1] != counts[2]:
        return False
    added, mask = list[str](), layer.operand(3)
    if mask and layer.element_type(mask) == TensorProto.BOOL:
        added.append(_unless(layer, mask, "seen"))
    elif mask and layer.element_type(mask) == TensorProto.FLOAT:
        added.append(mask)
    elif mask:
        return False
    return _attend(layer, list(layer.node.input[:3]), heads, added, bool(layer.given.get("is_causal")), counts[0] // counts[1], counts[0])


GROUPED = MappingProxyType({"local_window_size": -1, "softcap": 0.0, "smooth_softmax": 0})
"""What a rule wants of attributes that change the scores."""
NAMED = frozenset(("num_heads", "kv_num_heads", "scale", "do_rotary", "rotary_interleaved", *GROUPED))


def grouped_attention(layer: Layer) -> bool:
    """Operands: queries, keys, values, earlier keys and values, the last key's place in each sample, the number of keys, and tables of cosines and
    sines; the other results are the keys, turned, and the values, by heads. A prompt alone, all of whose rows count, is written out: what
    ONNX Runtime makes of others is no function of their rows alone."""
    q, k, v = (layer.operand(number) for number in range(3))
    shapes = [layer.facts.tensors[name].shape for name in (q, k, v) if name in layer.facts.tensors]
    heads, others = int(layer.given.get("num_heads", 0)), int(layer.given.get("kv_num_heads", 0))
    if len(shapes) != PARTS or {len(shape) for shape in shapes} != {3} or layer.has(3, 4, 9, 10, 11) or not others or heads % others:
        return False
    rows = shapes[0][1]
    if rows is None or not _is_prompt(layer, rows) or {shape[1] for shape in shapes} != {rows}:
        return False
    if layer.given.get("do_rotary"):
        tables = _tables(layer, rows)
        if not tables:
            return False
        near = bool(layer.given.get("rotary_interleaved"))
        width = _turned_channels(layer, shapes[0][2], heads)
        q, k = (sequence(layer, each, tables, count, f"{word}.turn", width, near) for each, count, word in ((q, heads, "q"), (k, others, "k")))
    for number, each, word in ((1, k, "k"), (2, v, "v")):
        if layer.hands_out(number):
            layer.add("Transpose", [_apart(layer, each, others, f"{word}.kept")], f"{word}.kept.heads", layer.node.output[number], perm=BY_HEADS)
    return _attend(layer, [q, k, v], heads, [], True, heads // others, heads)


def _is_prompt(layer: Layer, rows: int) -> bool:
    """Whether all rows count, as constants say, and no attribute is there that changes the scores."""
    last, total = (layer.facts.counts.get(layer.operand(number)) for number in (5, 6))
    whole = last is not None and total is not None and bool((last == rows - 1).all()) and bool((total == rows).all())
    plain = all(layer.given.get(name, wanted) == wanted for name, wanted in GROUPED.items())
    return whole and plain and layer.given.keys() <= NAMED


def _tables(layer: Layer, rows: int) -> list[str]:
    """Cosines and sines [batch, rows, pairs]; none where the operands have other axes."""
    cos, sin = (layer.operand(number) for number in (7, 8))
    if {layer.rank(cos), layer.rank(sin)} != {2}:
        return []
    bounds = [layer.constant(f"prompt.{word}", [number], np.int64) for word, number in (("first", 0), ("stop", rows), ("axis", 0))]
    first = [layer.add("Slice", [table, *bounds], f"{word}.rows") for table, word in ((cos, "cos"), (sin, "sin"))]
    return [layer.add("Unsqueeze", [table, bounds[0]], f"{word}.table") for table, word in zip(first, ("cos", "sin"), strict=True)]


def _turned_channels(layer: Layer, channels: int | None, heads: int) -> int:
    """Channels of a head that the tables turn; 0 for all."""
    pairs = layer.facts.tensors[layer.operand(7)].shape[-1]
    return 0 if pairs is None or channels is None or 2 * pairs == channels // heads else 2 * pairs


def _mask_of_keys(layer: Layer, mask: str) -> tuple[str, ...] | None:
    """Tensors to add to scores for a mask [batch, keys] of ones for keys that count; None for another form, such as a count for each sample."""
    if not mask:
        return ()
    if layer.rank(mask) != 2:
        return None
    rows = layer.add("Unsqueeze", [mask, layer.constant("mask.axes", [1, 2], np.int64)], "mask.rows")
    counts = layer.add("Cast", [rows], "mask.counts", to=TensorProto.BOOL)
    return (_unless(layer, counts, "mask", layer.given.get("mask_filter_value", UNSEEN)),)


def _unless(layer: Layer, counts: str, word: str, drops: float = UNSEEN) -> str:
    """0 where a condition holds, far below elsewhere."""
    return layer.add("Where", [counts, layer.constant(f"{word}.plain", 0), layer.constant(f"{word}.drops", drops)], word)


def _attend(layer: Layer, sequences: Sequence[str], heads: int, added: Sequence[str], causal: bool, share: int = 1, of_queries: int = 0) -> bool:
    """Shares of keys, and values by shares. sequences: queries, keys and values [batch, rows, channels], by heads already where `heads` is 0.
    share: queries' heads to a head of keys and values. of_queries: heads of queries, where they may be more."""
    if heads:
        counts = (heads, heads // share, heads // share)
        split = [_apart(layer, each, count, word) for each, count, word in zip(sequences, counts, "qkv", strict=True)]
        perms = zip(split, "qkv", (BY_HEADS, KEYS_LAST, BY_HEADS), strict=True)
        q, k, v = (layer.add("Transpose", [each], f"{word}.heads", perm=perm) for each, word, perm in perms)
    else:
        q, k, v = sequences[0], layer.add("Transpose", [sequences[1]], "k.heads", perm=SWAPPED), sequences[2]
    if share > 1:
        k, v = (_repeated(layer, each, word, share, of_queries) for each, word in ((k, "k"), (v, "v")))
    scores = layer.add("MatMul", [q, k], "scores")
    if scale := layer.given.get("scale"):
        scores = layer.add("Mul", [scores, layer.constant("scale", scale)], "scaled")
    else:
        inner = layer.add("Cast", [layer.add("Shape", [q], "inner", start=3, end=4)], "inner.float", to=TensorProto.FLOAT)
        scores = layer.add("Div", [scores, layer.add("Sqrt", [inner], "root")], "scaled")
    if causal:
        added = [*added, _later(layer, q, k)]
    for number, each in enumerate(filter(None, added)):
        scores = layer.add("Add", [scores, each], f"masked{number}")
    sums = layer.add("MatMul", [layer.add("Softmax", [scores], "shares", axis=-1), v], "sums", "" if heads else layer.node.output[0])
    if heads:
        turned = layer.add("Transpose", [sums], "turned", perm=BY_HEADS)
        layer.add("Reshape", [turned, layer.constant("joined", [0, 0, -1], np.int64)], "context", layer.node.output[0])
    return True


def _apart(layer: Layer, sequence: str, heads: int, word: str) -> str:
    return layer.add("Reshape", [sequence, layer.constant(f"{word}.by_heads", [0, 0, heads, -1], np.int64)], f"{word}.apart")


def _repeated(layer: Layer, x: str, word: str, share: int, heads: int) -> str:
    """Each head of [batch, heads, ...] for as many heads of queries as share it."""
    single = layer.add("Unsqueeze", [x, layer.constant(f"{word}.axis", [2], np.int64)], f"{word}.single")
    spread = layer.add("Expand", [single, layer.constant(f"{word}.times", [1, 1, share, 1, 1], np.int64)], f"{word}.spread")
    sizes = [layer.constant(f"{word}.all_heads", [0, heads], np.int64), layer.add("Shape", [x], f"{word}.sizes", start=2, end=4)]
    return layer.add("Reshape", [spread, layer.add("Concat", sizes, f"{word}.shape", axis=0)], f"{word}.all")


def _later(layer: Layer, q: str, k: str) -> str:
    """The mask [queries, keys] of a decoder: no query sees a key behind it."""
    rows, keys = layer.add("Shape", [q], "queries", start=2, end=3), layer.add("Shape", [k], "keys", start=3, end=4)
    square = layer.add("Concat", [rows, keys], "square", axis=0)
    ones = layer.add("ConstantOfShape", [square], "ones", value=helper.make_tensor("one", TensorProto.FLOAT, [1], [1.0]))
    seen = layer.add("Cast", [layer.add("Trilu", [ones], "below", upper=0)], "seen.before", to=TensorProto.BOOL)
    return _unless(layer, seen, "later")
