"""Float layers that an optimiser fused into one operator (com.microsoft's BiasGelu, SkipLayerNormalization, Attention and their like), and the
standard's Attention and RotaryEmbedding, written as operators that the passes know, spelled as exporters spell them.

What an operator may have and no rule says (a bias of scores beside a cache, heads of another number) leaves it as it is, for the host.
Sources: ONNX Runtime's ContribOperators.md; ONNX's operator set 23.
"""

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from toolchain.graph.importing.foreign_operators import CONVOLUTION, VENDOR, Facts, Key, Known, Layer, LayerRule
from toolchain.graph.importing.fused_attention import (
    grouped_attention,
    packed_attention,
    separate_attention,
    standard_attention,
)
from toolchain.graph.importing.fused_rotary import standard_rotary, vendor_rotary
from toolchain.graph.importing.resolve import infer_partly
from toolchain.graph.nodes import REASON, replace_nodes
from toolchain.graph.rewrite import ONNX_DOMAINS
from toolchain.spec.reason import reasons_json
from toolchain.spec.reasons import Why

WHOLE, FEW = (TensorProto.INT32, TensorProto.INT64), 1024
"""Constants whose numbers rules may ask for: their types, and the most elements."""
LENT = ("SimplifiedLayerNormalization",)
"""Operators of ONNX Runtime's that its files name as the standard's."""
QUICK = 1.702
"""QuickGelu's default factor inside the logistic function."""


def lend_layers(proto: onnx.ModelProto) -> None:
    """Gives operators of ONNX Runtime's that its files name as the standard's to com.microsoft, so that no operator set is asked for them."""
    lent = [node for node in proto.graph.node if node.domain in ONNX_DOMAINS and node.op_type in LENT]
    for node in lent:
        node.domain = VENDOR
    if lent and VENDOR not in {entry.domain for entry in proto.opset_import}:
        proto.opset_import.append(helper.make_opsetid(VENDOR, 1))


def write_layers(proto: onnx.ModelProto) -> None:
    """Rewrites every fused layer that has a rule, as far as inference tells what the rule must know. Subgraphs stay as they are."""
    while has_layers(proto) and _write(proto.graph, _facts(proto)):
        pass  # behind what is written out, inference tells more
    for node in proto.graph.node:
        if (node.domain, node.op_type) in {(VENDOR, kind) for kind in LENT}:
            node.ClearField("domain")  # as ONNX Runtime knows it


def has_layers(proto: onnx.ModelProto) -> bool:
    """Whether there are fused layers that have a rule."""
    return any(_rule(node) for node in proto.graph.node)


def _rule(node: onnx.NodeProto) -> LayerRule | None:
    return _RULES.get(("" if node.domain in ONNX_DOMAINS else node.domain, node.op_type))


def _write(graph: onnx.GraphProto, facts: Facts) -> bool:
    """Nodes that several layers share are there once, where the first of them stands."""
    nodes, found = list[onnx.NodeProto](), False
    made, held = {name for node in graph.node for name in node.output}, {each.name for each in graph.initializer}
    for node in graph.node:
        layer = _written(node, facts)
        found |= layer is not None
        if layer is None:
            nodes.append(node)
            continue
        made.difference_update(node.output)
        nodes += [each for each in layer.nodes if _is_first(each.output, made)]
        graph.initializer.extend(each for each in layer.constants if _is_first([each.name], held))
    if found:
        replace_nodes(graph, nodes)
    return found


def _is_first(names: Sequence[str], known: set[str]) -> bool:
    """Whether a tensor of these names is not there yet; it is from now on."""
    first = not known.issuperset(names)
    known.update(names)
    return first


def _written(node: onnx.NodeProto, facts: Facts) -> Layer | None:
    """None for a node that stays as it is."""
    if (rule := _rule(node)) is None:
        return None
    layer = Layer(node, facts)
    if rule(layer):
        return layer
    if layer.refusal:
        _note(node, layer.refusal)
    return None


def _note(node: onnx.NodeProto, refusal: str) -> None:
    """Keeps why a layer stays as it is, in place of an earlier reason."""
    for number, entry in reversed([*enumerate(node.metadata_props)]):
        if entry.key == REASON:
            del node.metadata_props[number]
    node.metadata_props.add(key=REASON, value=reasons_json((Why.UNWRITTEN(operator=node.op_type, note=refusal),)))


def _facts(proto: onnx.ModelProto) -> Facts:
    graph = infer_partly(proto).graph
    found = {each.name: Known(each.data_type, tuple(each.dims)) for each in graph.initializer}
    for entry in (*graph.input, *graph.value_info):
        tensor = entry.type.tensor_type
        if tensor.HasField("shape"):
            shape = tuple(d.dim_value if d.HasField("dim_value") else None for d in tensor.shape.dim)
            found[entry.name] = Known(tensor.elem_type, shape)
    counts = {each.name: numpy_helper.to_array(each) for each in graph.initializer if each.data_type in WHOLE and math.prod(each.dims) <= FEW}
    return Facts(found, {name: node.op_type for node in proto.graph.node for name in node.output}, counts)


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
    layer.add("Mul", [scale, layer.add("Div", [x, root], "normal")], "norm", layer.node.output[0])  # a scale of ones behind it would be taken out
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


_RULES: Mapping[Key, LayerRule] = MappingProxyType(
    {
        ("", "Attention"): standard_attention,
        ("", "RotaryEmbedding"): standard_rotary,
        (VENDOR, "RotaryEmbedding"): vendor_rotary,
        (VENDOR, "GroupQueryAttention"): grouped_attention,
        ("", "RMSNormalization"): _root_norm,
        **{(VENDOR, kind): _root_norm for kind in (*LENT, "SkipSimplifiedLayerNormalization")},
        **{(VENDOR, kind): _gelu for kind in ("BiasGelu", "FastGelu", "Gelu")},
        (VENDOR, "Attention"): packed_attention,
        (VENDOR, "EmbedLayerNormalization"): _embed_norm,
        (VENDOR, "FusedConv"): _convolution,
        (VENDOR, "FusedMatMul"): _product,
        (VENDOR, "MultiHeadAttention"): separate_attention,
        (VENDOR, "QuickGelu"): _quick_gelu,
        (VENDOR, "SkipLayerNormalization"): _skip_norm,
    }
)
