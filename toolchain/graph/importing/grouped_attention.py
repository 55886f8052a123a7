"""com.microsoft's GroupQueryAttention, several heads of queries to a head of keys and values, written out on sequences [batch, rows, channels]: a
prompt alone, or rows behind those that caches of keys and values hold.

Caches are [batch, heads, rows, channels of a head]. New rows stand at the places that `seqlens_k` names. Rows behind them, which no query sees, stay
as they were, as in a buffer that past and present share; ONNX Runtime has zeros there where they share none.
Sources: ONNX Runtime's ContribOperators.md; its CPU kernel, measured on 1.32.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from onnx import TensorProto

from toolchain.graph.importing.foreign_operators import Layer
from toolchain.graph.importing.fused_attention import PARTS, apart, attend, unless
from toolchain.graph.importing.fused_rotary import cut, sequence, table_rows
from toolchain.graph.rewrite import BY_HEADS

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
