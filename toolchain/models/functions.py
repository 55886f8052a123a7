"""Functions that layers call: a library in ONNX's own text form, for the parts of a network that are no layers, such as the end of a detector."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import onnx
import onnx.parser

from toolchain.models.files import present_file
from toolchain.models.operators import Value
from toolchain.spec.errors import Span, fail, nearest
from toolchain.spec.files import read_limited
from toolchain.spec.yaml_nodes import Node

DOMAIN = "local"
OPSET = 21
MAX_BYTES = 1 << 20
MAX_NESTING = 32
_HEADING = f'<ir_version: 10, opset_import: ["": {OPSET}, "{DOMAIN}": 1]> functions () => () {{}} '
"""The parser reads models: this one has no nodes, and the library's functions follow it on the same line."""
_PLACE = re.compile(r"line: (\d+) column: (\d+)\)\]\\?n?(.*)", re.DOTALL)


@dataclass(frozen=True)
class LayerFunction:
    """takes: how many operands. attributes: names; a call gives all of them. gives: how many results."""

    name: str
    takes: int
    attributes: tuple[str, ...]
    gives: int


@dataclass(frozen=True)
class FunctionLibrary:
    """text: of the file."""

    text: str = field(repr=False)
    functions: Mapping[str, LayerFunction]

    def check(self, name: str, operands: int, attributes: Mapping[str, Value], span: Span) -> None:
        """Raises UserError E0814 where there is no such function, or it takes something else."""
        function = self.functions.get(name)
        if function is None:
            known = list(self.functions)
            raise fail("E0814", f"there is no function '{name}'", span, nearest(name, known) or f"known: {', '.join(known)}")
        if (operands, 1) != (function.takes, function.gives):
            text = f"'{name}' has {function.takes} operands and {function.gives} results; a call with {operands} and one result does not fit"
            raise fail("E0814", text, span)
        if sorted(attributes) != sorted(function.attributes):
            given, wanted = ", ".join(sorted(attributes)) or "none", ", ".join(sorted(function.attributes)) or "none"
            raise fail("E0814", f"'{name}' has the attributes {wanted}; given are {given}", span)


def function_protos(text: str) -> list[onnx.FunctionProto]:
    """All functions of a library's text, to become a model's own."""
    return list(_parsed(text).functions)


def load_library(node: Node, path: Path) -> FunctionLibrary:
    """The library that the model file `path` names. Raises UserError E0001 (no such file) and E0813 for one that cannot be read."""
    file = present_file(node, path)
    try:
        text = read_limited(file, MAX_BYTES, "the file of functions").decode()
    except UnicodeDecodeError as error:
        raise fail("E0813", f"the file is not UTF-8 text at byte {error.start:#x}", place=str(file)) from None
    if _depth(text) > MAX_NESTING:
        raise fail("E0813", f"graphs nest deeper than {MAX_NESTING}", place=str(file))
    try:
        found = _parsed(text).functions
    except onnx.parser.ParseError as error:
        raise _unreadable(error, file) from None
    for function in found:
        if function.domain != DOMAIN:
            raise fail(
                "E0813", f"the function '{function.name}' is of the domain '{function.domain}'", hint=f'write domain: "{DOMAIN}"', place=str(file)
            )
    return FunctionLibrary(text, {each.name: LayerFunction(each.name, len(each.input), tuple(each.attribute), len(each.output)) for each in found})


def _parsed(text: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(_HEADING + text)


def _depth(text: str) -> int:
    """The depth of braces, as the parser calls itself for each."""
    depth = deepest = 0
    for mark in re.findall(r"[{}]", text):
        depth += 1 if mark == "{" else -1
        deepest = max(deepest, depth)
    return deepest


def _unreadable(error: onnx.parser.ParseError, file: Path) -> Exception:
    said = error.args[0].decode(errors="replace") if isinstance(error.args[0], bytes) else str(error.args[0])
    match = _PLACE.search(said)
    if match is None:
        return fail("E0813", said.strip(), place=str(file))
    line, column = int(match[1]), int(match[2])
    column -= len(_HEADING) if line == 1 else 0
    return fail("E0813", " ".join(match[3].split("\n")[-1].split()) or "this is no function", place=f"{file}:{line}:{max(column, 1)}")
