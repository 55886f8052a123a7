"""Brings a model to the operator set that all later stages work on, node by node, without a change of meaning.

RULES has the operators that need rewriting, and up to which operator set. Every other change since the first one only added types, attributes or
inputs.
"""

from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType

import onnx
from onnx import defs, helper

from toolchain.graph.importing import opset_attributes as attributes
from toolchain.graph.importing import opset_rewrites as rewrites
from toolchain.graph.importing.opset_site import Adapter, Journey, KnownTensors, Names, Site, changed, fault
from toolchain.graph.importing.resolve import infer_partly
from toolchain.graph.nodes import all_nodes, node_text, replace_nodes, subgraphs
from toolchain.spec.errors import fail, nearest

Rules = tuple[tuple[int, Adapter], ...]

LEGACY = ("Add", "And", "Div", "Equal", "Greater", "Less", "Mul", "Or", "Pow", "Sub", "Xor")
REDUCTIONS = ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "SumSquare")

RULES: Mapping[str, Rules] = MappingProxyType(
    {
        **dict.fromkeys(LEGACY, ((7, rewrites.aligned),)),
        **{f"Reduce{kind}": ((18, attributes.as_input("axes")),) for kind in REDUCTIONS},
        **{kind: ((7, attributes.without("output_sequence")),) for kind in ("LSTM", "RNN")},
        **dict.fromkeys(("Hardmax", "LogSoftmax", "Softmax"), ((13, rewrites.coerced),)),
        "BatchNormalization": ((14, rewrites.batch_norm),),
        "Cast": ((6, attributes.cast_by_name),),
        "Clip": ((6, attributes.open_clip), (11, attributes.clip_limits)),
        "Concat": ((4, attributes.explicit(axis=1)),),
        "DFT": ((20, attributes.transform_axis),),
        "Dropout": ((12, rewrites.dropout),),
        "GRU": ((3, attributes.forward), (7, attributes.without("output_sequence"))),
        "Gemm": ((7, attributes.without("broadcast")),),
        "GlobalLpPool": ((2, attributes.whole_power),),
        "GridSample": ((20, attributes.grid_mode),),
        "GroupNormalization": ((21, rewrites.group_norm),),
        "LpPool": ((2, attributes.lp_window),),
        "PRelu": ((7, rewrites.slope),),
        "Pad": ((2, attributes.pad_name), (11, attributes.pad_sizes)),
        "ReduceSum": ((13, attributes.as_input("axes")),),
        "Reshape": ((5, attributes.reshape_attribute),),
        "Resize": ((11, rewrites.early_resize), (13, rewrites.resize)),
        "RoiAlign": ((16, attributes.explicit(coordinate_transformation_mode="output_half_pixel")),),
        "Scan": ((9, rewrites.batched_scan),),
        "Scatter": ((11, attributes.scatter_elements),),
        "Selu": ((6, attributes.explicit(alpha=1.6732, gamma=1.0507)),),
        "Slice": ((10, attributes.slice_ranges),),
        "Split": ((2, attributes.split_sizes_attribute), (13, attributes.as_input("split")), (18, attributes.split_count)),
        "Squeeze": ((13, attributes.squeeze_axes),),
        "Tile": ((6, attributes.tile_axis),),
        "TopK": ((10, attributes.top_k),),
        "Unsqueeze": ((13, attributes.unsqueeze_axes),),
        "Upsample": ((10, rewrites.upsample),),
    }
)


def due(kind: str, version: int, target: int) -> list[Adapter]:
    """The adapters that take an operator from one operator set to another, in order."""
    adapters = [adapter for before, adapter in RULES.get(kind, ()) if version < before <= target]
    return [attributes.without("consumed_inputs"), *adapters] if version < 6 <= target else adapters


INFERRED = 6
"""The first operator set that tells every operator's shapes; older models come here first."""


@dataclass(frozen=True)
class _Step:
    """From one operator set to another, on the way that the journey is."""

    version: int
    target: int
    names: Names
    journey: Journey


def upgrade(proto: onnx.ModelProto, path: Path, target: int) -> onnx.ModelProto:
    """The model at the operator set `target` (at most 21), or itself if it is there; the one given stays as it is.

    Nodes and tensors keep their names; ONNX's own domain has to be the empty one. Raises UserError E0906: a node that its operator set has not,
    or one without an equal form.
    """
    version = next(entry.version for entry in proto.opset_import if not entry.domain)
    journey = Journey(path, version, target)
    for stop in sorted({min(INFERRED, target), target}):
        if version < stop:
            proto = _stepped(proto, version, stop, journey)
            version = stop
    return proto


def _stepped(proto: onnx.ModelProto, version: int, target: int, journey: Journey) -> onnx.ModelProto:
    result = onnx.ModelProto()
    result.CopyFrom(proto)
    known = KnownTensors(proto.graph, lambda: infer_partly(proto).graph)
    _rewrite(result.graph, known, _Step(version, target, _names(proto.graph), journey))
    for entry in result.opset_import:
        if not entry.domain:
            entry.version = target
    return result


def _rewrite(graph: onnx.GraphProto, known: KnownTensors, step: _Step) -> None:
    """Rewrites the nodes of a graph in place; `known` is a view of the graph as it was."""
    nodes, grown = list[onnx.NodeProto](), False
    for number, node in enumerate(graph.node):
        for place, inner in enumerate(subgraphs(node)):
            _rewrite(inner, known.inner(number, place), step)
        site = _adapted(node, known, step)
        nodes.extend([*site.before, node, *site.after] if site else [node])
        graph.initializer.extend(site.constants if site else [])
        grown = grown or bool(site and (site.before or site.after))
    if grown:
        replace_nodes(graph, nodes)


def _adapted(node: onnx.NodeProto, known: KnownTensors, step: _Step) -> Site | None:
    """The site of a node that was rewritten; None for one that keeps its form."""
    if node.domain or not changed(node.op_type, step.version, step.target):
        return None
    if reason := fault(node, step.version):
        text = f"{node_text(node)}: not as operator set {step.journey.origin} has it: {reason}"
        raise fail("E0906", text, place=str(step.journey.path))
    adapters = due(node.op_type, step.version, step.target)
    if not adapters:
        return None
    site = Site(node, step.version, known, step.names, step.journey)
    for adapter in adapters:
        adapter(site)
    return site


def _names(graph: onnx.GraphProto) -> Names:
    read = frozenset(_read(graph))
    return Names({*read, *_made(graph)}, read)


def _read(graph: onnx.GraphProto) -> Iterator[str]:
    yield from (entry.name for entry in graph.output)
    for node in graph.node:
        yield from node.input
        for inner in subgraphs(node):
            yield from _read(inner)


def _made(graph: onnx.GraphProto) -> Iterator[str]:
    yield from (entry.name for entry in (*graph.input, *graph.initializer, *graph.value_info))
    for node in graph.node:
        yield from (node.name, *node.output)
        for inner in subgraphs(node):
            yield from _made(inner)


OPSET = 21
"""The oldest operator set that goes on from here; a newer one stays."""
IR_VERSION = 10
"""The oldest format that can say OPSET."""


def to_opset(proto: onnx.ModelProto, path: Path) -> onnx.ModelProto:
    """The model, which has no local functions, at OPSET or the newer operator set that it has.

    Raises UserError E0906: unknown version or operator, or a node that has no equal form at OPSET.
    """
    _shorten_domains(proto)
    version = _version(proto, path)
    _check_operators(proto.graph, version, {entry.domain for entry in proto.opset_import}, path)
    proto = upgrade(proto, path, OPSET)
    needed = helper.find_min_ir_version_for([helper.make_opsetid("", max(version, OPSET))])
    proto.ir_version = max(needed, IR_VERSION)
    return proto


def _shorten_domains(proto: onnx.ModelProto) -> None:
    """Writes ONNX's own domain in one way: onnx does not infer shapes for the other."""
    for node in all_nodes(proto.graph.node):
        if node.domain == "ai.onnx":
            node.domain = ""
    for entry in proto.opset_import:
        if entry.domain == "ai.onnx":
            entry.domain = ""


def _version(proto: onnx.ModelProto, path: Path) -> int:
    versions = sorted({entry.version for entry in proto.opset_import if not entry.domain})
    if not versions:  # no operator is one of ONNX's own; those that come later are
        proto.opset_import.append(helper.make_opsetid("", OPSET))
        return OPSET
    if len(versions) > 1:
        raise fail("E0906", f"the model names several operator sets of ONNX: {', '.join(map(str, versions))}", place=str(path))
    if not 1 <= versions[0] <= defs.onnx_opset_version():
        text = f"operator set {versions[0]} is not known; the installed onnx package knows 1 to {defs.onnx_opset_version()}"
        raise fail("E0906", text, hint="export the model at an older operator set", place=str(path))
    return versions[0]


def _check_operators(graph: onnx.GraphProto, version: int, domains: Container[str], path: Path) -> None:
    for node in graph.node:
        if node.domain not in domains:
            raise fail("E0906", f"{node_text(node)}: the model names no operator set of the domain '{node.domain}'", place=str(path))
        if not node.domain and not _has(node.op_type, version):
            hint = _hint(node.op_type, version)
            raise fail("E0906", f"{node_text(node)}: operator set {version} has no such operator", hint=hint, place=str(path))
        for inner in subgraphs(node):
            _check_operators(inner, version, domains, path)


@cache
def _has(kind: str, version: int) -> bool:
    """Whether an operator set has an operator, and has not given it up for good."""
    return defs.has(kind, version, "") and not (defs.get_schema(kind, version, "").deprecated and defs.get_schema(kind, OPSET, "").deprecated)


def _hint(kind: str, version: int) -> str:
    """The operator sets that have the operator, or one of a similar name."""
    known = [schema for schema in defs.get_all_schemas_with_history() if not schema.domain]
    since = [schema.since_version for schema in known if schema.name == kind]
    if not since:
        return nearest(kind, {schema.name for schema in known if not schema.deprecated})
    return f"it came with operator set {min(since)}" if version < min(since) else f"operator set {max(since) - 1} was the last to have it"
