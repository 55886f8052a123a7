"""Section views: other ways to look at a memory's bytes."""

from collections.abc import Mapping

from toolchain.spec.checks.scope import Scope, problems
from toolchain.spec.context import Context
from toolchain.spec.errors import UserError, fail
from toolchain.spec.findings import gather
from toolchain.spec.model import ElementType, Memory, View
from toolchain.spec.sections.index_maps import read_map
from toolchain.spec.sections.storage import absent, element, number_in
from toolchain.spec.yaml_nodes import Node


def views(context: Context, known: Mapping[str, ElementType], memories: tuple[Memory, ...]) -> tuple[View, ...]:
    """Every memory's own view, then the declared ones. Raises UserError E0107, E0112 (see `_offsets`), E0139."""
    own = [View(m.name, m.name, m.element, 0 if m.banks > 1 else m.element.bytes, m.element.row_major) for m in memories if m.kind != "register"]
    gone = absent(context)
    wanted = [item for item in context.root.members("views") if item[0].partition(".")[0] not in gone]
    return (*own, *gather(lambda item: _view(context, *item, known, memories), wanted))


def _view(context: Context, name: str, node: Node, known: Mapping[str, ElementType], memories: tuple[Memory, ...]) -> View:
    base = name.partition(".")[0]
    memory = next((m for m in memories if m.name == base), None)
    if memory is None:
        raise fail("E0107", f"unknown memory '{base}'", node.key_span, context.near(base, [m.name for m in memories]))
    if memory.kind == "register":
        raise fail("E0137", f"'{base}' is a register, which has no views", node.key_span)
    kind = element(context, node.value["type"], known)
    if kind.bytes % memory.granule or kind.bytes > memory.bytes:
        text = f"an element of {kind.bytes} bytes is not a multiple of the {memory.granule} bytes that '{base}' moves at least, or does not fit it"
        raise fail("E0139", text, node.value["type"].span)
    bytes_of = kind.bytes if memory.kind == "dram" else memory.element.bytes
    unit = node.get("unit")
    step = number_in(context, unit, 1, memory.bytes, "the unit") if unit else 0 if memory.banks > 1 else bytes_of
    offsets = _offsets(context, node.value["map"], kind) if node.get("map") else kind.row_major
    return View(name, memory.name, kind, step, offsets, node.text("doc"))


def _offsets(context: Context, node: Node, element: ElementType) -> tuple[int, ...]:
    """`o c -> EXPR`: the byte of every lane. Raises UserError E0112 unless each stored scalar has exactly one lane."""
    import numpy as np  # only where a machine rearranges lanes

    from toolchain.spec.arrays import evaluate_arrays

    names, body = read_map(node)
    if len(body) != 1:
        raise fail("E0112", f"a view's map gives one number, not {len(body)}", node.span)
    if len(names) != len(element.dims):
        raise fail("E0112", f"the map names {len(names)} lanes, the type has {len(element.dims)}", node.span)
    lanes = dict(zip(names, (part.ravel() for part in np.indices(element.dims, dtype=np.int64)), strict=True))
    expr = context.resolve(body[0])
    found = list(problems(expr, Scope(frozenset(names))))
    if found:
        raise UserError(*found)
    step = element.scalar.bits // 8
    offsets = tuple(int(place) * step for place in evaluate_arrays(expr, lanes))
    if sorted(offsets) != list(range(0, element.bytes, step)):
        raise fail("E0112", "the map does not give every stored element exactly one source", node.span)
    return offsets
