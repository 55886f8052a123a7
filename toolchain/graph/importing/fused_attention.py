"""Fused attention written out: com.microsoft's Attention and MultiHeadAttention and the standard's Attention as exporters spell it, products of heads
around a softmax; and com.microsoft's GroupQueryAttention, several heads of queries to a head of keys and values, on sequences [batch, rows,
channels]: a prompt alone, or rows behind those that caches of keys and values hold.

Caches are [batch, heads, rows, channels of a head]. New rows stand at the places that `seqlens_k` names. Rows behind them, which no query sees, stay
as they were, as in a buffer that past and present share; ONNX Runtime has zeros there where they share none. Sources: ONNX Runtime's
ContribOperators.md; its CPU kernel, measured on 1.32; ONNX's operator set 23.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from onnx import TensorProto, helper

from toolchain.graph.importing.foreign_operators import Layer
from toolchain.graph.importing.fused_rotary import cut, sequence, table_rows
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


QUERY, KEY, VALUE, PAST_KEY, PAST_VALUE, LAST, TOTAL, COSINES, SINES, PLACES, BIAS = range(11)
"""Operands by number: LAST is the place of the last key of each sample, TOTAL the number of keys."""
CACHE, SEQUENCE = 4, 3
"""Axes of a cache, and of a sequence."""
PLAIN = MappingProxyType(
    {
        "causal": 1,
        "k_quant_type": b"NONE",
        "kv_cache_bit_width": 0,
        "local_window_size": -1,
        "qk_output": 0,
        "sliding_window_cache": 0,
        "smooth_softmax": 0,
        "softcap": 0.0,
        "v_quant_type": b"NONE",
    }
)
"""The values that a rule wants of attributes which change the scores or the results that are kept."""
NAMED = frozenset(("num_heads", "kv_num_heads", "scale", "do_rotary", "rotary_interleaved", *PLAIN))


@dataclass(frozen=True)
class Grouped:
    """batch: None where it is open. rows: of queries. heads, shared: of queries, and of keys and values. inner: channels of a head. past: rows of the
    caches before, None where there are none; total: rows of those behind."""

    batch: int | None
    rows: int
    heads: int
    shared: int
    inner: int
    past: int | None
    total: int


def grouped_attention(layer: Layer) -> bool:
    """Operands: queries, keys and values, or all three side by side as the first; caches of keys and values; the place of the last key, and the
    number of keys; tables of cosines and sines, and places by which rows of them are taken. The other results are the caches with the new rows."""
    found = _sizes(layer)
    refusal = found if isinstance(found, str) else _refusal(layer, found)
    if refusal or isinstance(found, str):
        return layer.refuse(refusal)
    q, k, v = _sequences(layer, found)
    first = "" if found.past is None else _first(layer, found)
    places = _places(layer, found, first)
    if layer.given.get("do_rotary"):
        q, k = _turned(layer, found, (q, k), places)
    if found.past is not None:
        k, v = (_kept(layer, found, number, new, word, first) for number, new, word in ((PAST_KEY, k, "k"), (PAST_VALUE, v, "v")))
    for number, each, word in ((1, k, "k"), (2, v, "v")):
        if layer.hands_out(number):
            layer.add("Transpose", [apart(layer, each, found.shared, f"{word}.kept")], f"{word}.kept.heads", layer.node.output[number], perm=BY_HEADS)
    seen = [unless(layer, _seen(layer, found, places), "seen")] if found.past is not None else []
    return attend(layer, [q, k, v], found.heads, seen, found.past is None, found.heads // found.shared, found.heads)


def _sizes(layer: Layer) -> Grouped | str:
    """The reason why there are none, where they are not known or fit no rule."""
    q, past, total = layer.shape(layer.operand(QUERY)), layer.shape(layer.operand(PAST_KEY)), layer.facts.counts.get(layer.operand(TOTAL))
    heads, shared = (int(layer.given.get(name, 0)) for name in ("num_heads", "kv_num_heads"))
    if len(q) != SEQUENCE or q[1] is None or q[2] is None or not shared or heads % shared:
        return "the shape of its queries is not known"
    if total is None or total.size != 1:
        return "the number of keys (total_sequence_length) is no constant"
    packed = not layer.has(KEY)
    inner, count = q[2] // (heads + 2 * shared if packed else heads), int(total.ravel()[0])
    if not layer.has(PAST_KEY) or past[2:3] == (0,):
        return Grouped(q[0], q[1], heads, shared, inner, None, count)
    if len(past) != CACHE or past[2] is None:
        return "the shape of its caches is not known"
    return Grouped(q[0], q[1], heads, shared, inner, past[2], max(count, past[2]))


def _refusal(layer: Layer, found: Grouped) -> str:
    """Why no rule writes it out; empty where one does."""
    for name, value in layer.given.items():
        if name not in NAMED or value != PLAIN.get(name, value):
            return f"its attribute {name} is {value.decode() if isinstance(value, bytes) else value}"
    if layer.has(*range(BIAS, len(layer.node.input))) or layer.hands_out(PARTS):
        return "it has an operand or a result beside caches, places and tables"
    if layer.element_type(layer.operand(QUERY)) != TensorProto.FLOAT:
        return "it computes in another type than float32"
    if layer.given.get("do_rotary") and {layer.rank(layer.operand(number)) for number in (COSINES, SINES)} != {2}:
        return "its tables of cosines and sines have no two axes"
    count, last = (layer.facts.counts.get(layer.operand(number)) for number in (TOTAL, LAST))
    prompt = count is not None and bool((count == found.rows).all())
    if found.past is None:
        whole = prompt and last is not None and bool((last == found.rows - 1).all())
        return "" if whole and not layer.has(PLACES) else "it is a prompt of which some rows may not count"
    if prompt:
        return "it is a prompt beside caches of earlier keys"
    if found.total not in (found.past, found.past + found.rows):
        return "the number of keys is neither that of its caches nor that of all rows"
    return "" if found.rows == 1 or found.batch == 1 else "it has several rows of several samples"


def _sequences(layer: Layer, found: Grouped) -> Sequence[str]:
    """Queries, keys and values."""
    if layer.has(KEY):
        return [layer.operand(number) for number in (QUERY, KEY, VALUE)]
    q, kv = found.heads * found.inner, found.shared * found.inner
    bounds = ((0, q), (q, q + kv), (q + kv, q + 2 * kv))
    return [cut(layer, layer.operand(QUERY), f"{word}.own", *ends) for word, ends in zip("qkv", bounds, strict=True)]


def _first(layer: Layer, found: Grouped) -> str:
    """The place [batch, 1] of the first new row of each sample, once for all layers."""
    last = layer.operand(LAST)
    whole = layer.add_once("Cast", [last], f"{last}/whole", to=TensorProto.INT64)
    column = layer.add_once("Reshape", [whole, layer.once(f"{last}/column", [-1, 1], np.int64)], f"{last}/last")
    before = layer.once(f"{last}/{found.rows}.before", [found.rows - 1], np.int64)
    return layer.add_once("Sub", [column, before], f"{last}/{found.rows}.first")


def _places(layer: Layer, found: Grouped, first: str) -> str:
    """The place [batch, rows] of each new row among the keys; of a prompt one for all samples, a constant."""
    if not first:
        return layer.once(f"prompt.{found.rows}.places", [range(found.rows)], np.int64)
    steps = layer.once(f"{first}.steps", [range(found.rows)], np.int64)
    return layer.add_once("Add", [first, steps], f"{first}.places")


def _turned(layer: Layer, found: Grouped, sequences: Sequence[str], places: str) -> Sequence[str]:
    """Queries and keys by the rows of the tables that stand at their places."""
    rows = [table_rows(layer, layer.operand(number), layer.operand(PLACES) or places) for number in (COSINES, SINES)]
    pairs = layer.shape(layer.operand(COSINES))[-1]
    width = 0 if pairs is None or 2 * pairs == found.inner else 2 * pairs
    near, counts = bool(layer.given.get("rotary_interleaved")), (found.heads, found.shared)
    return [sequence(layer, each, rows, count, f"{word}.turn", width, near) for each, count, word in zip(sequences, counts, "qk", strict=True)]


def _kept(layer: Layer, found: Grouped, number: int, new: str, word: str, first: str) -> str:
    """A cache [batch, total, channels] with the new rows in their places. number: of the operand that is the cache before."""
    by_rows = layer.add("Transpose", [layer.operand(number)], f"{word}.past.rows", perm=BY_HEADS)
    past = layer.add("Reshape", [by_rows, layer.constant(f"{word}.past.joined", [0, 0, -1], np.int64)], f"{word}.past")
    last = layer.facts.counts.get(layer.operand(LAST))
    if last is not None and found.past is not None and (last == found.past + found.rows - 1).all():
        return layer.add("Concat", [past, new], f"{word}.next", axis=1)
    if found.rows == 1 and found.past == found.total:
        return layer.add("Where", [_is_new(layer, found, first), new, past], f"{word}.next")
    both = layer.add("Concat", [past, new], f"{word}.both", axis=1)
    return layer.add("GatherND", [both, _sources(layer, found, first)], f"{word}.next", batch_dims=1)


def _slots(layer: Layer, found: Grouped) -> str:
    """The places [1, total] of all keys."""
    return layer.once(f"{layer.operand(LAST)}/{found.total}.slots", [range(found.total)], np.int64)


def _is_new(layer: Layer, found: Grouped, first: str) -> str:
    """Whether a row is the new one [batch, total, 1], once for all layers."""
    same = layer.add_once("Equal", [_slots(layer, found), first], f"{first}.{found.total}.same")
    return layer.add_once("Unsqueeze", [same, layer.once(f"{first}.axis", [2], np.int64)], f"{first}.{found.total}.new")


def _sources(layer: Layer, found: Grouped, first: str) -> str:
    """For each key [batch, total, 1] its row among those of the cache before and the new ones behind them, once for all layers."""
    name = f"{first}.{found.total}.{found.past}"

    def limit(word: str, number: int) -> str:
        return layer.once(f"{name}.{word}", number, np.int64)

    slots, past = _slots(layer, found), found.past or 0
    beyond = layer.add_once("Sub", [slots, first], f"{name}.beyond")
    begun = layer.add_once("GreaterOrEqual", [beyond, limit("zero", 0)], f"{name}.begun")
    within = layer.add_once("Less", [beyond, limit("rows", found.rows)], f"{name}.within")
    new = layer.add_once("And", [begun, within], f"{name}.new")
    behind = layer.add_once("Add", [beyond, limit("past", past)], f"{name}.behind")
    stays = layer.add_once("Min", [slots, limit("last", past - 1)], f"{name}.stays")
    chosen = layer.add_once("Where", [new, behind, stays], f"{name}.chosen")
    return layer.add_once("Unsqueeze", [chosen, layer.once(f"{name}.axis", [2], np.int64)], f"{name}.sources")


def _seen(layer: Layer, found: Grouped, places: str) -> str:
    """Whether a query sees a key [batch, 1, rows, total], once for all layers."""
    column = layer.add_once("Unsqueeze", [places, layer.once(f"{places}.axes", [1, 3], np.int64)], f"{places}.column")
    return layer.add_once("LessOrEqual", [_slots(layer, found), column], f"{places}.{found.total}.seen")
