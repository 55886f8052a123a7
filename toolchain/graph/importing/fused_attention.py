"""Fused attention (com.microsoft's Attention and MultiHeadAttention, the standard's Attention) written as exporters spell it, products of heads
around a softmax.

Sources: ONNX Runtime's ContribOperators.md; ONNX's operator set 23.
"""

from collections.abc import Sequence

import numpy as np
from onnx import TensorProto, helper

from toolchain.graph.importing.foreign_operators import Layer
from toolchain.graph.rewrite import BY_HEADS, KEYS_LAST

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
    return attend(layer, biased, int(layer.given["num_heads"]), [*masked, layer.operand(5)], bool(layer.given.get("unidirectional")))


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
        added.append(unless(layer, mask, "seen"))
    elif mask and layer.element_type(mask) == TensorProto.FLOAT:
        added.append(mask)
    elif mask:
        return False
    return attend(layer, list(layer.node.input[:3]), heads, added, bool(layer.given.get("is_causal")), counts[0] // counts[1], counts[0])


def _mask_of_keys(layer: Layer, mask: str) -> tuple[str, ...] | None:
    """Tensors to add to scores for a mask [batch, keys] of ones for keys that count; None for another form, such as a count for each sample."""
    if not mask:
        return ()
    if layer.rank(mask) != 2:
        return None
    rows = layer.add("Unsqueeze", [mask, layer.constant("mask.axes", [1, 2], np.int64)], "mask.rows")
    counts = layer.add("Cast", [rows], "mask.counts", to=TensorProto.BOOL)
    return (unless(layer, counts, "mask", layer.given.get("mask_filter_value", UNSEEN)),)


def unless(layer: Layer, counts: str, word: str, drops: float = UNSEEN) -> str:
    """0 where a condition holds, far below elsewhere."""
    return layer.add("Where", [counts, layer.constant(f"{word}.plain", 0), layer.constant(f"{word}.drops", drops)], word)


def attend(layer: Layer, sequences: Sequence[str], heads: int, added: Sequence[str], causal: bool, share: int = 1, of_queries: int = 0) -> bool:
    """Shares of keys, and values by shares. sequences: queries, keys and values [batch, rows, channels], by heads already where `heads` is 0.
    share: queries' heads to a head of keys and values. of_queries: heads of queries, where they may be more."""
    if heads:
        counts = (heads, heads // share, heads // share)
        split = [apart(layer, each, count, word) for each, count, word in zip(sequences, counts, "qkv", strict=True)]
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


def apart(layer: Layer, sequence: str, heads: int, word: str) -> str:
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
    return unless(layer, seen, "later")
