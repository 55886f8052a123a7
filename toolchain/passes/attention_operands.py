"""Operands of an attention: what a Reshape, Transposes and numbers made of a sequence, heads that are repeated for all their queries, and the chains
of operators around the products.
"""

from dataclasses import dataclass

import onnx_ir as ir

from toolchain.graph.rewrite import constant, ints, is_operator, known_shape, single_use

AXES = 4
"""Of [batch, heads, rows, channels]."""


@dataclass(frozen=True)
class Operand:
    """A tensor that was split into heads, each repeated `share` times. factor: of all its elements."""

    source: ir.Value
    heads: int
    factor: float
    share: int
    taken: tuple[ir.Node, ...]


@dataclass(frozen=True)
class Scaled:
    """value: before it was multiplied by a number."""

    value: ir.Value | None
    factor: float
    taken: tuple[ir.Node, ...]


def scaled(value: ir.Value | None) -> Scaled:
    """A tensor that nothing else reads, without a product or quotient by a number that made it."""
    node = value.producer() if value is not None else None
    if value is not None and node is not None and is_operator(node, "Mul", "Div") and single_use(value):
        for source, number in ((node.inputs[0], node.inputs[1]), (node.inputs[1], node.inputs[0])):
            array = constant(number)
            if array is not None and array.size == 1 and (is_operator(node, "Mul") or number is node.inputs[1]) and array.ravel()[0]:
                factor = float(array.ravel()[0])
                return Scaled(source, factor if is_operator(node, "Mul") else 1 / factor, (node,))
    return Scaled(value, 1.0, ())


def chain(value: ir.Value, *kinds: str) -> tuple[ir.Node, ...]:
    """Operators of these kinds that read a tensor one after the other, alone; the last one first, none where they do not."""
    found: list[ir.Node] = []
    for kind in kinds:
        node = only_reader(found[-1].outputs[0] if found else value, kind)
        if node is None:
            return ()
        found.append(node)
    return tuple(reversed(found))


def made_by(value: ir.Value | None, *kinds: str) -> ir.Node | None:
    """The operator of one of these kinds that makes a tensor which nothing else reads."""
    node = value.producer() if value is not None and single_use(value) else None
    return node if node is not None and is_operator(node, *kinds) else None


def only_reader(value: ir.Value, kind: str) -> ir.Node | None:
    readers = [node for node, _ in value.uses()]
    return readers[0] if len(readers) == 1 and not value.is_graph_output() and is_operator(readers[0], kind) else None


def split(value: ir.Value | None, wanted: tuple[int, ...]) -> Operand | None:
    """An operand [batch, heads, ...] of a product that a Reshape and Transposes, and perhaps numbers, made of a sequence."""
    taken, factor, share, order = list[ir.Node](), 1.0, 1, (0, 1, 2, 3)
    while True:
        part, repeated = scaled(value), _repeated(value)
        if repeated is not None:
            value, share = repeated.source, share * repeated.share
            taken += repeated.taken
            continue
        value, factor = part.value, factor * part.factor
        taken += part.taken
        moved = made_by(value, "Transpose")
        if moved is None and not part.taken:
            break
        if moved is not None:
            perm = ints(moved, "perm", ())
            if len(perm) != len(order):
                return None
            order = tuple(perm[axis] for axis in order)
            taken.append(moved)
            value = moved.inputs[0]
    reshape = made_by(value, "Reshape")
    source = reshape.inputs[0] if reshape is not None else None
    after, before = known_shape(reshape.outputs[0]) if reshape is not None else None, known_shape(source)
    if reshape is None or source is None or after is None or before is None or order != wanted or len(after) != 4 or len(before) != 3:
        return None
    if (after[0], after[1], after[2] * after[3]) != before:
        return None
    return Operand(source, after[2], factor, share, (*taken, reshape))


@dataclass(frozen=True)
class _Repeated:
    """source: [batch, heads, rows, channels] before each head was repeated."""

    source: ir.Value
    share: int
    taken: tuple[ir.Node, ...]


def _repeated(value: ir.Value | None) -> _Repeated | None:
    """A tensor whose heads an Unsqueeze, an Expand and a Reshape repeated, each behind itself, as exporters write it where several queries share a
    head of keys."""
    joined = made_by(value, "Reshape")
    spread = made_by(joined.inputs[0], "Expand") if joined is not None else None
    single = made_by(spread.inputs[0], "Unsqueeze", "Reshape") if spread is not None else None
    if joined is None or spread is None or single is None or (source := single.inputs[0]) is None:
        return None
    before, *after = (known_shape(each) or () for each in (source, single.outputs[0], spread.outputs[0], joined.outputs[0]))
    if len(before) != AXES or len(after[-1]) != AXES:
        return None
    (batch, heads, *rest), share = list(before), after[-1][1] // before[1]
    wanted = [(batch, heads, 1, *rest), (batch, heads, share, *rest), (batch, heads * share, *rest)]
    return _Repeated(source, share, (joined, spread, single)) if after == wanted else None
