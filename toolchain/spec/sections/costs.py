"""Section costs: area, energy and static power of a machine, as numbers of pieces times a number of one piece."""

from toolchain.spec.context import Context
from toolchain.spec.errors import fail, nearest
from toolchain.spec.model.costs import RUN_COUNTS, CostTerm, MachineCosts
from toolchain.spec.yaml_nodes import Node, gather


def costs(context: Context) -> MachineCosts | None:
    """None where the file has none. Raises UserError E0105 for a negative count of pieces, E0107 for an unknown count of a run."""
    node = context.root.get("costs")
    if node is None:
        return None
    known = (*RUN_COUNTS, *(f"{name}.{way}" for name, _ in context.root.members("memories") for way in ("read", "written")))
    return MachineCosts(**{name: tuple(gather(lambda item: _term(context, *item, known), entry.items())) for name, entry in node.items()})


def _term(context: Context, name: str, node: Node, known: tuple[str, ...]) -> CostTerm:
    count = node.get("count")
    pieces = context.number(count) if count else 1
    if count and pieces < 0:
        raise fail("E0105", f"count = {pieces} is below 0", count.span)
    for word in node.entries("per"):
        if str(word.value) not in known:
            raise fail("E0107", f"a run has no count '{word.value}'", word.span, nearest(str(word.value), known) or f"known: {', '.join(known)}")
    per = tuple(str(word.value) for word in node.entries("per"))
    return CostTerm(name, float(node.value["each"].value), pieces, node.text("source"), per, node.flag("assumed"), node.text("doc"))
