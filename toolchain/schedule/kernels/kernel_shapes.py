"""Places of a kernel that are shaped like others: a shape's text, with the place's own words for the names that it takes."""

from collections.abc import Mapping

from toolchain.schedule.kernels.kernel_common import known_word
from toolchain.spec.context import Context
from toolchain.spec.errors import Diagnostic, UserError, fail
from toolchain.spec.expr import Call, Expr, Member, Name, rewrite
from toolchain.spec.suggest import nearest
from toolchain.spec.yaml_nodes import Node

PLACE = ("memory", "by", "size", "names", "starts", "whole", "onto")


def shaped(context: Context, shapes: Mapping[str, Node], name: str, node: Node) -> tuple[Node, Mapping[str, Expr]]:
    """A place with what its shape says of it, and what the names that the shape takes stand for. shapes: of the file, by name.

    Raises UserError E0108, E0109 for a place without a shape that is not whole, E1002 for a shape that is not there or takes something else.
    """
    called = node.get("shape")
    if called is None:
        strange = next((key for key, _ in node.items() if key not in PLACE), None)
        lacking = next((key for key in ("memory", "size") if node.get(key) is None), None)
        if strange or lacking:
            fault = Diagnostic("E0108", f"unknown key '{strange}'", node.value[strange].where(), nearest(strange, PLACE)) if strange else None
            raise UserError(fault or Diagnostic("E0109", f"missing key '{lacking}' in place '{name}'", node.where()))
        return node, {}
    shape = shapes[known_word(called, shapes, "shape")]
    takes, given = dict(shape.members("takes")), {key: value for key, value in node.items() if key not in ("shape", "by", "over", "onto")}
    for key, value in given.items():
        if key not in takes:
            raise fail("E1002", f"shape '{called.value}' takes no '{key}'", value.where(), nearest(key, takes) or f"it takes: {', '.join(takes)}")
    lacking = next((key for key, value in takes.items() if key not in given and value.value is None), None)
    if lacking:
        raise fail("E1002", f"shape '{called.value}' needs '{lacking}'", node.where())
    bound = {key: context.parse(given.get(key, value)) for key, value in takes.items()}
    whole, over = shape.get("whole"), node.get("over")
    said = {"whole": Node({**whole.value, "over": over}, whole.span, whole.path)} if whole and over else {}
    said |= {"onto": onto} if (onto := node.get("onto")) else {}
    return Node({**shape.value, **said, "by": node.value["by"]}, node.span, node.path, key_span=node.key_span), {**bound, "place": Name(name)}


def with_words(expr: Expr, bound: Mapping[str, Expr]) -> Expr:
    """The expression with names replaced; `place.NAME` is PLACE_NAME."""

    def change(e: Expr) -> Expr | None:
        match e:
            case Member(base=Name(id="place"), name=name) if isinstance(own := bound.get("place"), Name):
                return Name(f"{own.id}_{name}", span=e.span)
            case Name(id=name) if name in bound:
                return bound[name]
            case Call(function=function, args=args):
                return Call(function, tuple(rewrite(arg, change) for arg in args), span=e.span)
            case _:
                return None

    return rewrite(expr, change)
