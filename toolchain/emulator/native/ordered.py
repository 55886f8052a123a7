"""Sums of products that add in the order of the text, all sums of an element side by side: each keeps its order, and none waits for another.

One factor is the same for all sums. The other one is packed with the sums as neighbours, and packed elements are kept while the instruction runs.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from toolchain.emulator.native.function import Function, straddles
from toolchain.emulator.native.packs import Key, Pack
from toolchain.isa.semantics import ir
from toolchain.isa.semantics.traverse import statements
from toolchain.spec import expr as ex
from toolchain.spec.expr import Expr

SINGLE = (32, 23)
"""Bits, and bits of the fraction, of a C float."""


@dataclass(frozen=True, slots=True)
class Ordered:
    """A sum over the lanes `over` for each of the lanes `kept`. shared: the factor without the lanes `kept`; own: the other one, of `access`."""

    kept: tuple[str, ...]
    over: tuple[str, ...]
    shared: Expr
    own: Expr
    access: ir.Access


def ordered_products(function: Function, e: ir.FloatReduce) -> Ordered | None:
    """The sum's parts where it has this shape, and the packed factor's memory stays as it is while the instruction runs."""
    product = e.value
    if (
        e.op != "in_order"
        or function.replicas > 1
        or (e.type.bits, e.type.fraction) != SINGLE
        or not isinstance(product, ir.Float)
        or product.op != "mul"
    ):
        return None
    written = {stmt.access.view.memory for stmt in statements(function.semantics.body) if isinstance(stmt, ir.Store)}
    for shared, own in (product.values, product.values[::-1]):
        access = _plain_load(function, own)
        if access is None or access.view.memory in written:
            continue
        lanes = [str(lane) for lane in access.lanes or ()]
        kept = tuple(lane for lane in lanes if lane not in e.over)
        if kept and len({*lanes}) == len(lanes) and {*e.over} <= {*lanes} and _free(shared, e.over):
            return Ordered(kept, tuple(e.over), shared, own, access)
    return None


def _plain_load(function: Function, e: Expr) -> ir.Access | None:
    """The access of a factor that is an element as it is stored, or in another format."""
    inner = e.value if isinstance(e, ir.ToFloat) and e.source is not None else e
    if not isinstance(inner, ir.Load) or straddles(function.machine, inner.access.view):
        return None
    return inner.access if inner.access.lanes and all(isinstance(lane, str) for lane in inner.access.lanes) else None


def _free(e: Expr, over: Sequence[str]) -> bool:
    """Whether an expression has no lanes but those of the sum."""
    for part in ex.walk(e):
        match part:
            case ir.Reduce():
                return False
            case ir.Load(access=access):
                lanes = [lane for lane in access.lanes or () if isinstance(lane, str)]
            case ir.Temp(lanes=held):
                lanes = list(held)
            case ir.Lane(name=name):
                lanes = [name]
            case _:
                continue
        if not {*lanes} <= {*over}:
            return False
    return True


def pack_of(packs: dict[Key, Pack], found: Ordered, extents: Mapping[str, int]) -> Pack:
    """The room for the packed factor: one for all sums that pack a view in the same way."""
    source = found.own.source.name if isinstance(found.own, ir.ToFloat) and found.own.source else ""
    lanes = tuple(found.over.index(lane) if lane in found.over else -1 - found.kept.index(lane) for lane in map(str, found.access.lanes or ()))
    terms, sums = (math.prod(extents[lane] for lane in names) for names in (found.over, found.kept))
    return packs.setdefault((found.access.view.name, source, lanes, terms, sums), Pack(len(packs), found.access.view, terms, sums))


def lane_nest(lanes: Sequence[str], extents: Mapping[str, int]) -> str:
    """Loops over lanes, the last one fastest."""
    return " ".join(f"for (int l_{lane} = 0; l_{lane} < {extents[lane]}; l_{lane}++)" for lane in lanes)


def ordered_lines(name: str, pack: Pack, parts: tuple[Sequence[str], Sequence[str]], places: tuple[str, str], where: str) -> list[str]:
    """The sums NAME_sum[kept]. parts: lines that set tw_x to the shared factor's bits, and to the own one's, inside the loops over their lanes.

    places: row-major numbers of the current lanes `over` and `kept`. where: the byte of the packed element in its memory.
    """
    over, kept = places
    shared, own = parts
    return [
        f"float {name}_shared[{pack.terms}] __attribute__((aligned(64))), {name}_sum[{pack.sums}] __attribute__((aligned(64)));",
        *shared[:1], "{", *shared[1:], f"{name}_shared[{over}] = tw_f32(tw_x);", "}",
        f"const int64_t {name}_key = {where};",
        f"const int64_t {name}_slot = (uint64_t){name}_key / {pack.view.element.bytes} % {pack.slots};",
        f"float *const {name}_own = {pack.name}s + {name}_slot * {pack.terms * pack.sums};",
        f"if ({pack.name}[{name}_slot] != {name}_key) {{",
        f"{pack.name}[{name}_slot] = {name}_key;",
        *own[:1], "{", *own[1:], f"{name}_own[({over}) * {pack.sums} + {kept}] = tw_f32(tw_x);", "}",
        "}",
        f"tw_ordered({name}_sum, {name}_shared, {name}_own, {pack.terms}, {pack.sums});",
    ]  # fmt: skip
