"""Float layers that an optimiser fused into one operator (com.microsoft's BiasGelu, SkipLayerNormalization, Attention and their like), and the
standard's Attention, written as operators that the passes know, spelled as exporters spell them.

What an operator may have and no rule says (a cache of keys, a packed projection, heads of another number) leaves it as it is, for the host.
Sources: ONNX Runtime's ContribOperators.md; ONNX's operator set 23.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from toolchain.graph.importing.foreign_operators import CONVOLUTION, VENDOR, Key, Writer
from toolchain.graph.importing.resolve import infer_partly
from toolchain.graph.nodes import replace_nodes
from toolchain.graph.rewrite import BY_HEADS, KEYS_LAST, ONNX_DOMAINS

UNSEEN = -10_000.0
"""Added to the score of a key that may not be seen, as ONNX Runtime does by default: its share is 0 in float32."""
QUICK = 1.702
"""QuickGelu's default factor inside the logistic function."""
SWAPPED = (0, 1, 3, 2)


class Known(NamedTuple):
    """The type and shape of a tensor, by inference. shape: None for an extent that is open."""

    type: int
    shape: tuple[int | None, ...]


@dataclass(frozen=True)
class Facts:
    """tensors: by name; those of which nothing is known are not there. makers: the kind of the operator that makes a tensor."""

    tensors: Mapping[str, Known]
    makers: Mapping[str, str]


class Layer(Writer):
    """Collects what stands for one fused layer."""

    def __init__(self, node: onnx.NodeProto, facts: Facts) -> None:
        super().__init__(node)
        self.facts, self.constants = facts, list[onnx.TensorProto]()
        self.given: dict[str, Any] = {a.name: helper.get_attribute_value(a) for a in node.attribute}

    def operand(self, number: int) -> str:
        """The name of an operand; empty where there is none."""
        return self.node.input[number] if number < len(self.node.input) else ""

    def has(self, *numbers: int) -> bool:
        return any(self.operand(number) for number in numbers)

    def rank(self, name: str) -> int | None:
        return len(self.facts.tensors[name].shape) if name in self.facts.tensors else None

    def element_type(self, name: str) -> int:
        """An element type of ONNX; 0 where it is not known."""
        return self.facts.tensors[name].type if name in self.facts.tensors else TensorProto.UNDEFINED

    def hands_out(self, *numbers: int) -> bool:
        """Whether the node has one of these results."""
        return any(number < len(self.node.output) and bool(self.node.output[number]) for number in numbers)

    def constant(self, word: str, value: object, dtype: type[np.generic] = np.float32) -> str:
        name = f"{self.node.output[0]}/{word}"
        self.constants.append(numpy_helper.from_array(np.asarray(value, dtype), name))
        return name

    def total(self, names: Sequence[str], word: str, output: str = "") -> str:
        """The sum of all tensors that are there."""
        first, *others = filter(None, names)
        for number, other in enumerate(others):
            first = self.add("Add", [first, other], f"{word}{number}", output if number == len(others) - 1 else "")
        return first


Rule = Callable[[Layer], bool]
"""Adds the nodes; whether it could."""


def write_layers(proto: onnx.ModelProto) -> None:
    """Rewrites every fused layer that has a rule, as far as inference tells what the rule must know. Subgraphs stay as they are."""
    while any(_rule(node) for node in proto.graph.node) and _write(proto.graph, _facts(proto)):
        pass  # behind what is written out, inference tells more


def _rule(node: onnx.NodeProto) -> Rule | None:
    return _RULES.get(("" if node.domain in ONNX_DOMAINS else node.domain, node.op_type))


def _write(graph: onnx.GraphProto, facts: Facts) -> bool:
    nodes, found = list[onnx.NodeProto](), False
    for node in graph.node:
        layer = _written(node, facts)
        nodes += [node] if layer is None else layer.nodes
        graph.initializer.extend([] if layer is None else layer.constants)
        found |= layer is not None
    if found:
        replace_nodes(graph, nodes)
    return found


def _written(node: onnx.NodeProto, facts: Facts) -> Layer | None:
    """None for a node that stays as it is."""
    if (rule := _rule(node)) is None:
        return None
    layer = Layer(node, facts)
    return layer if rule(layer) else None


def _facts(proto: onnx.ModelProto) -> Facts:
    graph = infer_partly(proto).graph
    found = {each.name: Known(each.data_type, tuple(each.dims)) for each in graph.initializer}
    for entry in (*graph.input, *graph.value_info):
        tensor = entry.type.tensor_type
        if tensor.HasField("shape"):
            shape = tuple(d.dim_value if d.HasField("dim_value") else None for d in tensor.shape.dim)
            found[entry.name] = Known(tensor.elem_type, shape)
    return Facts(found, {name: node.op_type for node in proto.graph.node for name in node.output})


def _gelu(layer: Layer) -> bool:
    approximate = {"approximate": "tanh"} if layer.node.op_type == "FastGelu" else {}
    x = layer.total([layer.operand(0), layer.operand(1)], "biased")
    layer.add("Gelu", [x], "gelu", layer.node.output[0], **approximate)
    return True


def _quick_gelu(layer: Layer) -> bool:
    x = layer.operand(0)
    inside = layer.add("Mul", [x, layer.constant("alpha", layer.given.get("alpha", QUICK))], "inside")
    layer.add("Mul", [x, layer.add("Sigmoid", [inside], "gate")], "gelu", layer.node.output[0])
    return True


def _skip_norm(layer: Layer) -> bool:
    """Operands: x, what is added to it, scale, offset and bias, the last two optional; the fourth result is the sum."""
    if layer.hands_out(1, 2):
        return False
    x = _skipped(layer, layer.operand(4))
    own = [name for name in (layer.operand(2), layer.operand(3)) if name]
    layer.add("LayerNormalization", [x, *own], "norm", layer.node.output[0], axis=-1, epsilon=layer.given.get("epsilon", 1e-12))
    return True


def _skipped(layer: Layer, bias: str) -> str:
    """The sum of the first two operands and a bias, which the fourth result hands out."""
    product = next((name for name in layer.node.input[:2] if layer.facts.makers.get(name) == "MatMul"), layer.operand(0))
    other = layer.operand(1) if product == layer.operand(0) else layer.operand(0)
    biased = layer.total([product, bias], "biased")  # a bias belongs to a layer's product, which a machine computes with it
    return layer.total([biased, other], "sum", layer.node.output[3] if layer.hands_out(3) else "")


def _root_norm(layer: Layer) -> bool:
    """Operands: x and scale, or x, what is added to it, scale and bias; the fourth result is the sum."""
    skip = layer.node.op_type == "SkipSimplifiedLayerNormalization"
    if layer.given.get("axis", -1) != -1 or layer.hands_out(1, 2):
        return False
    x, scale = layer.operand(0), layer.operand(1)
    if skip:
        x, scale = _skipped(layer, layer.operand(3)), layer.operand(2)
    power = layer.add("Pow", [x, layer.constant("two", 2)], "squares")
    mean = layer.add("ReduceMean", [power, layer.constant("axis", [-1], np.int64)], "power")
    small = layer.constant("epsilon", layer.given.get("epsilon", 1e-12 if skip else 1e-5))
    root = layer.add("Sqrt", [layer.add("Add", [mean, small], "shifted")], "root")
    layer.add("Mul", [layer.add("Div", [x, root], "normal"), scale], "norm", layer.node.output[0])
    return True


def _embed_norm(layer: Layer) -> bool:
    """Operands: tokens, segments, the tables of words, positions and segments, scale, offset, a mask and positions; the second result counts the
    mask's ones, and is 0 without a mask."""
    tokens, segments, words, places, kinds, scale, offset, mask, positions = (layer.operand(number) for number in range(9))
    if layer.given.get("mask_index_type", 1) != 1:
        return False
    if not positions:
        length = layer.add("Shape", [tokens], "length", start=1, end=2)
        places = layer.add("Slice", [places, layer.constant("first", [0], np.int64), length, layer.constant("axis", [0], np.int64)], "positions")
    else:
        places = layer.add("Gather", [places, positions], "positions", axis=0)
    parts = [layer.add("Gather", [words, tokens], "words", axis=0), places]
    if segments and kinds:
        parts.append(layer.add("Gather", [kinds, segments], "segments", axis=0))
    x = layer.total(parts, "sum", layer.node.output[2] if layer.hands_out(2) else "")
    layer.add("LayerNormalization", [x, scale, offset], "norm", layer.node.output[0], axis=-1, epsilon=layer.given.get("epsilon", 1e-12))
    if layer.hands_out(1) and mask:
        layer.add("ReduceSum", [mask, layer.constant("keys", [1], np.int64)], "counts", layer.node.output[1], keepdims=0)
    elif layer.hands_out(1):
        batch, none = layer.add("Shape", [tokens], "batch", end=1), helper.make_tensor("none", TensorProto.INT32, [1], [0])
        layer.add("ConstantOfShape", [batch], "counts", layer.node.output[1], value=none)
    return True


def _product(layer: Layer) -> bool:
    if layer.given.get("transBatchA") or layer.given.get("transBatchB"):
        return False
    operands = [layer.operand(0), layer.operand(1)]
    for number, word in enumerate("AB"):
        if layer.given.get(f"trans{word}"):
            rank = layer.rank(operands[number])
            if rank is None or rank < 2:  # ONNX Runtime leaves a vector as it is
                return False
            perm = (*range(rank - 2), rank - 1, rank - 2)
            operands[number] = layer.add("Transpose", [operands[number]], f"{word}.turned", perm=perm)
    alpha = layer.given.get("alpha", 1.0)
    product = layer.add("MatMul", operands, "product", "" if alpha != 1 else layer.node.output[0])
    if alpha != 1:
        layer.add("Mul", [product, layer.constant("alpha", alpha)], "scaled", layer.node.output[0])
    return True


ACTIVATIONS = MappingProxyType({"": (), "Relu": (), "Tanh": (), "Sigmoid": (), "LeakyRelu": ("alpha",), "HardSigmoid": ("alpha", "beta")})


def _convolution(layer: Layer) -> bool:
    """Operands: x, weights, bias, and a summand; an activation with parameters in `activation_params`."""
    kind, parameters = bytes(layer.given.get("activation", b"")).decode(), list(layer.given.get("activation_params", ()))
    limits = kind == "Clip" and len(parameters) == 2
    if kind not in ACTIVATIONS and not limits:
        return False
    plain, summed = kind == "", layer.has(3)
    out = layer.node.output[0]
    operands = [name for name in (layer.operand(number) for number in range(3)) if name]
    x = layer.add("Conv", operands, "sum", out if plain and not summed else "", **layer.keep(*CONVOLUTION))
    if summed:
        x = layer.add("Add", [x, layer.operand(3)], "joined", out if plain else "")
    if limits:
        layer.add("Clip", [x, *(layer.constant(end, value) for end, value in zip(("low", "high"), parameters, strict=True))], "limited", out)
    elif not plain:
        layer.add(kind, [x], "active", out, **dict(zip(ACTIVATIONS[kind], parameters, strict=False)))
    return True


def _packed_attention(layer: Layer) -> bool:
    """Operands: x, the weights and biases of queries, keys and values side by side, a mask, a cache, and what is added to the scores."""
    if layer.has(4, 6) or layer.hands_out(1) or any(layer.given.get(name) for name in ("do_rotary", "qkv_hidden_sizes", "past_present_share_buffer")):
        return False
    x, weights, bias = (layer.operand(number) for number in range(3))
    products = [layer.add("MatMul", [x, own], f"{kind}.product") for kind, own in zip("qkv", _thirds(layer, weights, "weight"), strict=True)]
    return _attend_to_keys(layer, products, bias, layer.operand(3))


def _separate_attention(layer: Layer) -> bool:
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
    layer.nodes.append(helper.make_node("Split", [packed], names, f"{layer.node.name}/{word}", axis=-1, num_outputs=3))
    return names


def _attend_to_keys(layer: Layer, sequences: Sequence[str], bias: str, mask: str) -> bool:
    """sequences: queries, keys and values [batch, rows, channels]. bias: theirs side by side. mask: of keys; its other forms stay with the host."""
    if (masked := _mask_of_keys(layer, mask)) is None:
        return False
    biased = [layer.total(both, kind) for kind, *both in zip("qkv", sequences, _thirds(layer, bias, "bias"), strict=True)]
    return _attend(layer, biased, int(layer.given["num_heads"]), [*masked, layer.operand(5)], bool(layer.given.get("unidirectional")))


def _standard_attention(layer: Layer) -> bool:
    """Operands: queries, keys, values, by heads already or with the numbers of heads as attributes, and a mask of scores or of truths."""
    heads, others = layer.given.get("q_num_heads", 0), layer.given.get("kv_num_heads", 0)
    plain = not layer.given.get("softcap") and not layer.given.get("softmax_precision")
    shapes = [layer.facts.tensors[name].shape for name in layer.node.input[:3] if name in layer.facts.tensors]
    if layer.has(4, 5, 6) or layer.hands_out(1, 2, 3) or heads != others or not plain or {len(shape) for shape in shapes} != {3 if heads else 4}:
        return False
    if not heads and len({shape[1] for shape in shapes}) != 1:
        return False
    added, mask = list[str](), layer.operand(3)
    if mask and layer.element_type(mask) == TensorProto.BOOL:
        added.append(_unless(layer, mask, "seen"))
    elif mask and layer.element_type(mask) == TensorProto.FLOAT:
        added.append(mask)
    elif mask:
        return False
    return _attend(layer, list(layer.node.input[:3]), heads, added, bool(layer.given.get("is_causal")))


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


def _attend(layer: Layer, sequences: Sequence[str], heads: int, added: Sequence[str], causal: bool) -> bool:
    """Shares of keys, and values by shares. sequences: queries, keys and values [batch, rows, channels], by heads already where `heads` is 0."""
    if heads:
        apart = layer.constant("by_heads", [0, 0, heads, -1], np.int64)
        split = [layer.add("Reshape", [each, apart], f"{word}.apart") for each, word in zip(sequences, "qkv", strict=True)]
        perms = zip(split, "qkv", (BY_HEADS, KEYS_LAST, BY_HEADS), strict=True)
        q, k, v = (layer.add("Transpose", [each], f"{word}.heads", perm=perm) for each, word, perm in perms)
    else:
        q, k, v = sequences[0], layer.add("Transpose", [sequences[1]], "k.heads", perm=SWAPPED), sequences[2]
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


def _later(layer: Layer, q: str, k: str) -> str:
    """The mask [queries, keys] of a decoder: no query sees a key behind it."""
    rows, keys = layer.add("Shape", [q], "queries", start=2, end=3), layer.add("Shape", [k], "keys", start=3, end=4)
    square = layer.add("Concat", [rows, keys], "square", axis=0)
    ones = layer.add("ConstantOfShape", [square], "ones", value=helper.make_tensor("one", TensorProto.FLOAT, [1], [1.0]))
    seen = layer.add("Cast", [layer.add("Trilu", [ones], "below", upper=0)], "seen.before", to=TensorProto.BOOL)
    return _unless(layer, seen, "later")


_RULES: Mapping[Key, Rule] = MappingProxyType(
    {
        ("", "Attention"): _standard_attention,
        **{("", kind): _root_norm for kind in ("RMSNormalization", "SimplifiedLayerNormalization")},
        (VENDOR, "SkipSimplifiedLayerNormalization"): _root_norm,
        **{(VENDOR, kind): _gelu for kind in ("BiasGelu", "FastGelu", "Gelu")},
        (VENDOR, "Attention"): _packed_attention,
        (VENDOR, "EmbedLayerNormalization"): _embed_norm,
        (VENDOR, "FusedConv"): _convolution,
        (VENDOR, "FusedMatMul"): _product,
        (VENDOR, "MultiHeadAttention"): _separate_attention,
        (VENDOR, "QuickGelu"): _quick_gelu,
        (VENDOR, "SkipLayerNormalization"): _skip_norm,
    }
)
