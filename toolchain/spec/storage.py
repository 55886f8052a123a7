"""Sections topology, types, memories, views and units."""

import itertools
from collections.abc import Mapping

from toolchain.spec.context import Context
from toolchain.spec.errors import fail
from toolchain.spec.evaluate import constant
from toolchain.spec.expr import parse_expr
from toolchain.spec.model import ElementType, Level, Memory, RecordField, ScalarType, Unit, View
from toolchain.spec.types import parse_element, parse_scalar
from toolchain.spec.yaml_nodes import Node


def _items(context: Context, section: str) -> list[tuple[str, Node]]:
    node = context.root.get(section)
    return list(node.items()) if node else []


def _get(node: Node, key: str, default: object) -> object:
    found = node.get(key)
    return found.value if found else default


def levels(context: Context) -> tuple[Level, ...]:
    return tuple(
        Level(name, context.number(node.value["count"]), bool(_get(node, "lockstep", False)), bool(_get(node, "streams", False)))
        for name, node in _items(context, "topology")
    )


def types(context: Context) -> dict[str, ElementType]:
    return {name: _record(context, node) if isinstance(node.value, dict) else _element(context, node, {}) for name, node in _items(context, "types")}


def _record(context: Context, node: Node) -> ElementType:
    fields: list[RecordField] = []
    lsb = 0
    for name, kind in node.items():
        if name != "bits":
            scalar = parse_scalar(kind.value, context.names, kind.locate, stored=False)
            fields.append(RecordField(name, lsb, scalar))
            lsb += scalar.bits
    bits = context.number(node.value["bits"])
    if lsb > bits:
        widest = fields[-1].name
        raise fail("E0111", f"the fields need {lsb} bits, the record has {bits}: '{widest}' does not fit", node.value[widest].span)
    return ElementType(ScalarType(False, bits), (), tuple(fields))


def _element(context: Context, node: Node, known: Mapping[str, ElementType]) -> ElementType:
    if node.value in known:
        return known[node.value]
    return parse_element(str(node.value), context.names, node.locate)


def memories(context: Context, known: Mapping[str, ElementType]) -> tuple[Memory, ...]:
    return tuple(_memory(context, name, node, known) for name, node in _items(context, "memories") if _present(context, node))


def _present(context: Context, node: Node) -> bool:
    """Whether this configuration has the memory at all."""
    return bool(context.number(present)) if (present := node.get("present")) else True


def _absent(context: Context) -> frozenset[str]:
    return frozenset(name for name, node in _items(context, "memories") if not _present(context, node))


def _memory(context: Context, name: str, node: Node, known: Mapping[str, ElementType]) -> Memory:
    kind = node.get("type")
    element = _element(context, kind, known) if kind else ElementType(ScalarType(True, 64))
    banks = context.number(n) if (n := node.get("banks")) else 1
    depth = node.get("depth")
    depths = tuple(context.number(depth, {"bank": b}) if depth else 1 for b in range(banks))
    return Memory(
        name, str(node.value["kind"].value), element, depths,
        scope=str(_get(node, "scope", "device")), control=bool(_get(node, "control", False)),
        granule=context.number(n) if (n := node.get("granule")) else element.bytes, latches=str(_get(node, "latches", "")),
        host=bool(_get(node, "host", False)), names=_names(node, "names"), consumed=bool(_get(node, "consumed", False)),
        overflow=str(_get(node, "overflow", "error")), hazard=str(_get(node, "hazard", "error")),
        doc=str(_get(node, "doc", "")), span=node.key_span,
    )  # fmt: skip


def views(context: Context, known: Mapping[str, ElementType], memories: tuple[Memory, ...]) -> tuple[View, ...]:
    """Every memory's own view, then the declared ones."""
    own = [View(m.name, m.name, m.element, 0 if m.banks > 1 else m.element.bytes, row_major(m.element)) for m in memories if m.kind != "register"]
    absent = _absent(context)
    return (*own, *(_view(context, name, node, known, memories) for name, node in _items(context, "views") if name.partition(".")[0] not in absent))


def row_major(element: ElementType) -> tuple[int, ...]:
    return tuple(range(0, element.bytes, element.scalar.bits // 8))


def _view(context: Context, name: str, node: Node, known: Mapping[str, ElementType], memories: tuple[Memory, ...]) -> View:
    memory = next((m for m in memories if m.name == name.partition(".")[0]), None)
    if memory is None:
        raise fail("E0107", f"unknown memory '{name.partition('.')[0]}'", node.key_span, context.near(name, [m.name for m in memories]))
    element = _element(context, node.value["type"], known)
    unit = node.get("unit")
    bytes_of = element.bytes if memory.kind == "dram" else memory.element.bytes
    step = context.number(unit) if unit else 0 if memory.banks > 1 else bytes_of
    offsets = _map(context, node.value["map"], element) if node.get("map") else row_major(element)
    return View(name, memory.name, element, step, offsets, str(_get(node, "doc", "")))


def _map(context: Context, node: Node, element: ElementType) -> tuple[int, ...]:
    """`o c -> EXPR`: the byte of every lane. Raises E0112 unless each byte has exactly one lane."""
    names_text, _, body = str(node.value).partition("->")
    names = names_text.split()
    expr = parse_expr(body, lambda line, column: node.locate(line, column + len(names_text) + 3))
    if len(names) != len(element.dims):
        raise fail("E0112", f"the map names {len(names)} lanes, the type has {len(element.dims)}", node.span)
    step = element.scalar.bits // 8
    offsets = tuple(
        constant(expr, {**context.names, **dict(zip(names, lanes, strict=True))}) * step for lanes in itertools.product(*map(range, element.dims))
    )
    if sorted(offsets) != list(range(0, element.bytes, step)):
        raise fail("E0112", "the map does not give every stored element exactly one source", node.span)
    return offsets


def units(context: Context) -> tuple[Unit, ...]:
    absent = _absent(context)
    return tuple(
        Unit(
            name, tuple(m for m in _names(node, "reads") if m not in absent), tuple(m for m in _names(node, "writes") if m not in absent),
            context.number(depth) if (depth := node.get("depth")) else None,
            bool(_get(node, "overlaps", False)), str(_get(node, "doc", "")),
        )
        for name, node in _items(context, "units")
    )  # fmt: skip


def _names(node: Node, key: str) -> tuple[str, ...]:
    found = node.get(key)
    return tuple(n.value for n in found.value) if found else ()
