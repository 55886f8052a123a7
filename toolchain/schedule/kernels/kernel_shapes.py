"""Places of a kernel that are shaped like others: a shape's text, with the place's own words for the names that it takes."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from toolchain.schedule.kernels.kernel_common import known_word
from toolchain.spec.context import Context
from toolchain.spec.errors import Diagnostic, UserError, fail, nearest
from toolchain.spec.expr import Call, Expr, Member, Name, rewrite
from toolchain.spec.yaml_nodes import Node

WORD = re.compile(r"[A-Za-z_]\w*")
PLACE = ("memory", "by", "size", "names", "starts", "whole", "onto")


@dataclass(frozen=True)
class ShapeCall:
    """Instructions that a shape says of a place. sequence: `takes` and `do`. given: the place's own entries."""

    name: str
    sequence: Node
    given: Node


def shaped(context: Context, shapes: Mapping[str, Node], name: str, node: Node) -> tuple[Node, Mapping[str, Expr]]:
    """A place with the entries of its shape, and the meaning of the names that the shape takes. shapes: of the file, by name.

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
    own = ("shape", "by", "over", "onto", *(() if shape.get("memory") else ("memory",)))
    takes, given = dict(shape.members("arguments")), {key: value for key, value in node.items() if key not in own}
    for key, value in given.items():
        if key not in takes:
            raise fail("E1002", f"shape '{called.value}' takes no '{key}'", value.where(), nearest(key, takes) or f"it takes: {', '.join(takes)}")
    lacking = next((key for key, value in takes.items() if key not in given and value.value is None), None)
    lacking = lacking or ("" if shape.get("memory") or node.get("memory") else "memory")
    if lacking:
        raise fail("E1002", f"shape '{called.value}' needs '{lacking}'", node.where())
    bound = {key: context.parse(given.get(key, value)) for key, value in takes.items()}
    whole, over = shape.get("whole"), node.get("over")
    said = {"whole": Node({**whole.value, "over": over}, whole.span, whole.path)} if whole and over else {}
    said |= {key: found for key in ("onto", "memory") if (found := node.get(key))}
    return Node({**shape.value, **said}, node.span, node.path, key_span=node.key_span), {**bound, "place": Name(name)}


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


def step_of_shape(shape: Node, name: str, kind: str, place: Node) -> ShapeCall | None:
    """The instructions of a `load` or `store` that a shape says, with the words of the place that they name; None where it says none."""
    body = shape.get(kind)
    if body is None:
        return None
    named = {word for text in _texts(body) for word in WORD.findall(text)}
    takes = {key: value for key, value in shape.members("arguments") if key in named}
    given = {key: value for key, value in place.items() if key in takes}
    called = Node(given, place.span, place.path, key_span=place.key_span)
    return ShapeCall(
        f"{kind} of shape '{name}'", Node({"arguments": Node(takes, shape.span, shape.path), "do": body}, shape.span, shape.path), called
    )


def _texts(node: Node) -> Iterator[str]:
    """Every scalar below a node."""
    if isinstance(node.value, dict | list):
        for child in node.children():
            yield from _texts(child)
    else:
        yield str(node.value)
