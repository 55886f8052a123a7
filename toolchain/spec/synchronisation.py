"""Section sync: counters, and which fields wait and post."""

from collections.abc import Sequence

from toolchain.spec.context import Context
from toolchain.spec.errors import fail
from toolchain.spec.expr import Binary, Const, Expr, Name
from toolchain.spec.model import Counter, Illegal, Instruction, SyncRule, Unit
from toolchain.spec.yaml_nodes import Node


def sync(
    context: Context, units: Sequence[Unit], instructions: Sequence[Instruction]
) -> tuple[tuple[Counter, ...], tuple[SyncRule, ...], tuple[Illegal, ...]]:
    """Counters of pairs are named `name.source.target`."""
    node = context.root.get("sync")
    if node is None:
        return (), (), ()
    counters = tuple(c for name, item in node.value["counters"].items() for c in _counters(context, name, item))
    known = {c.name for c in counters}
    rules: list[SyncRule] = []
    illegal: list[Illegal] = []
    everything = tuple(u.name for u in units)
    for kind, section in (("wait", "waits"), ("post", "posts")):
        for name, item in node.value[section].items() if node.get(section) else ():
            carriers = tuple(i.name for i in instructions if any(f.name == name for f in i.fields))
            if item.get("mask"):
                rules += _mask(kind, name, item, everything, carriers)
            else:
                rules += [SyncRule(kind, c.value, Name(name), Const(0), Const(1), (u,), carriers) for u, c in item.items()]
                illegal += [Illegal(name, 0, u) for u in everything if u not in item.value]
    rules += [_rule(context, item, everything, instructions) for item in (node.value["rules"].value if node.get("rules") else ())]
    for rule in rules:
        if rule.counter not in known:
            raise fail("E0115", f"no counter '{rule.counter}'", node.span, context.near(rule.counter, known))
    return counters, tuple(rules), tuple(illegal)


def _counters(context: Context, name: str, node: Node) -> list[Counter]:
    def number(key: str, default: int | None) -> int | None:
        item = node.get(key)
        return default if item is None or item.value == "unbounded" else context.number(item)

    def text(key: str, default: str = "") -> str:
        item = node.get(key)
        return str(item.value) if item else default

    shape = (
        number("depth", None),
        number("initial", 0) or 0,
        number("count", 1) or 1,
        text("scope", "device"),
        text("mode", "counting"),
        text("doc"),
    )
    pairs = node.get("pairs")
    if pairs is None:
        return [Counter(name, text("from"), text("to"), *shape)]
    ends = [n.value for n in pairs.value]
    return [Counter(f"{name}.{a}.{b}", a, b, *shape) for a in ends for b in ends]


def _mask(kind: str, field: str, node: Node, units: tuple[str, ...], carriers: tuple[str, ...]) -> list[SyncRule]:
    """Bit i of the field stands for the unit named i-th; the pair runs from producer to consumer."""
    counter = node.value["counter"].value
    rules: list[SyncRule] = []
    for bit, other in enumerate(n.value for n in node.value["mask"].value):
        when: Expr = Binary("&", Binary(">>", Name(field), Const(bit)), Const(1))
        for unit in units:
            source, target = (other, unit) if kind == "wait" else (unit, other)
            rules.append(SyncRule(kind, f"{counter}.{source}.{target}", when, Const(0), Const(1), (unit,), carriers))
    return rules


def _rule(context: Context, node: Node, units: tuple[str, ...], instructions: Sequence[Instruction]) -> SyncRule:
    kind = "wait" if node.get("wait") else "post"
    over = node.get("over")
    chosen = node.get("instructions")
    return SyncRule(
        kind, node.value[kind].value, context.optional(node.get("when"), 1), context.optional(node.get("index")), context.optional(node.get("amount"), 1),
        units, tuple(n.value for n in chosen.value) if chosen else tuple(i.name for i in instructions),
        tuple((level, context.expr(mask)) for level, mask in over.items()) if over else (),
    )  # fmt: skip
