"""The layer language: blocks, repeats and branches written out as one list of layers."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, count
from typing import TYPE_CHECKING

from toolchain.models.kinds import KINDS, Arguments, activation, bounded, number, value
from toolchain.models.operators import Add, Call, Concat, Embedding, Interaction, Layer, Normalisation, Operator, Shape, output_shape
from toolchain.spec.errors import Diagnostic, Span, UserError, fail, nearest
from toolchain.spec.yaml_nodes import Node

if TYPE_CHECKING:
    from toolchain.models.functions import FunctionLibrary

MAX_LAYERS = 20_000
MAX_STEPS = 100_000
MAX_NESTING = 16
MAX_TOLD = 20
JOINS: Mapping[str, Operator] = {"add": Add(), "concat": Concat(), "interaction": Interaction()}
CALL, EMBEDDING = "call", "embedding"
SIZES = {4: ("channels", "height", "width"), 3: ("rows", "width")}
"""Names of a tensor's sizes after the batch, by its axes; of others `channels` alone."""


@dataclass(frozen=True)
class Network:
    """Layers in an order in which they can be computed, and the names of the results."""

    layers: tuple[Layer, ...]
    outputs: tuple[str, ...]


@dataclass(frozen=True)
class _Scope:
    """The inside of one block. results: local name of a layer -> the tensor it gives."""

    prefix: str
    names: Mapping[str, int]
    depth: int = 0
    results: dict[str, str] = field(default_factory=dict[str, str])


def expand(root: Node, inputs: Mapping[str, Shape], library: "FunctionLibrary | None" = None, below: Mapping[str, int] | None = None) -> Network:
    """The network that a model file's `layers` describe. library: of the functions that layers call. below: the limits of inputs of whole numbers.

    Raises UserError E0801 to E0806, E0809 and E0810, with the place of each mistake."""
    blocks = dict(root.members("blocks"))
    for name, block in blocks.items():
        if name in (*KINDS, *JOINS, CALL, EMBEDDING):
            raise fail("E0809", f"'{name}' is the name of a kind of layer, so no block can have it", block.where())
    expansion = _Expansion(dict(inputs), blocks, {kind: dict(node.items()) for kind, node in root.members("defaults")}, library, below or {})
    scope = _Scope("", {}, results={name: name for name in inputs} | {"input": next(iter(inputs))})
    last = expansion.sequence(root.entries("layers"), next(iter(inputs)), scope)
    outputs = tuple(scope.results[node.value] if node.value in scope.results else _unknown(node, scope) for node in root.entries("outputs")) or (
        last,
    )
    _check_use(expansion.layers, outputs, root)
    return Network(tuple(expansion.layers), outputs)


def _check_use(layers: Sequence[Layer], outputs: Sequence[str], root: Node) -> None:
    """Raises UserError E0805 for a network without layers, E0810 for results that nothing reads."""
    if not layers:
        raise fail("E0805", "every layer is left out", root.value["layers"].where())
    used = {name for layer in layers for name in layer.inputs} | set(outputs)
    unused = [layer for layer in layers if layer.name not in used]
    if unused:
        raise UserError(*(Diagnostic("E0810", f"nothing uses the result of '{layer.name}'", layer.span) for layer in unused[:MAX_TOLD]))


class _Expansion:
    def __init__(
        self,
        shapes: dict[str, Shape],
        blocks: Mapping[str, Node],
        defaults: Mapping[str, Mapping[str, Node]],
        library: "FunctionLibrary | None",
        below: Mapping[str, int],
    ) -> None:
        self.layers: list[Layer] = []
        self._steps = 0
        self._shapes = shapes
        self._blocks = blocks
        self._defaults = defaults
        self._library = library
        self._below = below

    def sequence(self, entries: list[Node], current: str, scope: _Scope) -> str:
        """Applies one layer after the other to `current`; answers with the last result."""
        for entry in entries:
            kind, given, span = _entry(entry)
            current = self._repeated(kind, given, span, current, scope)
        return current

    def _repeated(self, kind: str, own: Mapping[str, Node], span: Span, current: str, scope: _Scope) -> str:
        given = {**self._defaults.get(kind, {}), **own}
        if "from" in given:
            current = _find(given["from"], scope)
        name = self._name(kind, given, scope)
        repeats = bounded(given["repeat"], self._names(scope, current), 0) if "repeat" in given else 1
        for index in range(repeats):
            self._step(span)
            names = self._names(scope, current) | ({"index": index} if "repeat" in given else {})
            if "when" not in given or number(given["when"], names):
                one = f"{name}.{index}" if "repeat" in given else name
                current = self._one(kind, one, Arguments(given, names, span), current, scope, index)
        scope.results[name] = current
        return current

    def _step(self, span: Span) -> None:
        """Counts repeats, which take time also where `when` leaves everything out."""
        self._steps += 1
        if self._steps > MAX_STEPS:
            raise fail("E0805", f"more than {MAX_STEPS} repeats", span)

    def _names(self, scope: _Scope, current: str) -> dict[str, int]:
        """The names that expressions may use: the block's parameters, index, and the incoming tensor's sizes."""
        shape = self._shapes[current]
        return dict(zip(SIZES.get(len(shape), ("channels",)), shape[1:], strict=False)) | dict(scope.names)

    @staticmethod
    def _name(kind: str, given: Mapping[str, Node], scope: _Scope) -> str:
        if "name" in given:
            name = str(given["name"].value)
            if name in scope.results:
                raise fail("E0809", f"the name '{name}' is taken", given["name"].span)
            return name
        return next(name for name in chain([kind], (f"{kind}{number}" for number in count(2))) if name not in scope.results)

    def _one(self, kind: str, name: str, arguments: Arguments, current: str, scope: _Scope, index: int) -> str:
        if kind in self._blocks:
            return self._block(kind, name, arguments, current, scope, index)
        full = scope.prefix + name
        if kind in JOINS:
            return self._finish(full, JOINS[kind], arguments, self._operands(arguments, current, scope))
        if kind == CALL:
            return self._call(full, arguments, current, scope)
        if kind == EMBEDDING:
            return self._embedding(full, arguments, current)
        if kind in KINDS:
            return self._finish(full, KINDS[kind](arguments, self._shapes[current]), arguments, (current,))
        known = [*KINDS, *JOINS, CALL, EMBEDDING, *self._blocks]
        raise fail("E0801", f"unknown layer '{kind}'", arguments.span, nearest(kind, known) or f"known: {', '.join(known)}")

    def _finish(self, name: str, operator: Operator, arguments: Arguments, inputs: tuple[str, ...]) -> str:
        """The layer itself, then the batch norm and the activation that it asks for."""
        result = self._append(name, operator, inputs, arguments.span)
        if arguments.flag("norm"):
            result = self._append(f"{name}.norm", Normalisation(), (result,), arguments.span)
        act = arguments.word("act", "none")
        return result if act == "none" else self._append(f"{name}.{act}", activation(act, arguments), (result,), arguments.span)

    def _embedding(self, name: str, arguments: Arguments, current: str) -> str:
        """A row for each number below the input's limit. Raises UserError E0803 for a tensor that is no input of whole numbers."""
        if current not in self._below:
            raise fail("E0803", f"'{current}' holds no whole numbers below a limit", arguments.span, f"{current}: {{shape: [1, 128], below: 1000}}")
        return self._append(name, Embedding(self._below[current], arguments.count("out")), (current,), arguments.span)

    def _append(self, name: str, operator: Operator, inputs: tuple[str, ...], span: Span) -> str:
        if len(self.layers) >= MAX_LAYERS:
            raise fail("E0805", f"more than {MAX_LAYERS} layers", span)
        whole = [name for name in inputs if name in self._below]
        if whole and not isinstance(operator, Embedding):
            raise fail("E0803", f"'{whole[0]}' holds whole numbers, which an embedding alone takes", span)
        shape = output_shape(operator, [self._shapes[i] for i in inputs], span)
        self.layers.append(Layer(name, operator, inputs, shape, span))
        self._shapes[name] = shape
        return name

    def _operands(self, arguments: Arguments, current: str, scope: _Scope) -> tuple[str, ...]:
        """Each operand is the name of a result, or a list of layers that begins at the incoming tensor."""
        return tuple(
            self.sequence(node.children(), current, scope) if isinstance(node.value, list) else _find(node, scope)
            for node in arguments.needed("of").children()
        )

    def _call(self, name: str, arguments: Arguments, current: str, scope: _Scope) -> str:
        """Raises UserError E0814 where the library has no such function."""
        if self._library is None:
            raise fail("E0814", "the model's file names no library of functions", arguments.span, "functions: FILE")
        operands = self._operands(arguments, current, scope) if "of" in arguments.given else (current,)
        function, given = arguments.word("function"), arguments.given.get("with")
        attributes = {key: value(node, arguments.names) for key, node in given.items()} if given else {}
        self._library.check(function, len(operands), attributes, arguments.span)
        shape = tuple(bounded(node, arguments.names) for node in arguments.needed("shape").children())
        return self._append(name, Call(function, tuple(attributes.items()), shape, self._library.text), operands, arguments.span)

    def _block(self, kind: str, name: str, arguments: Arguments, current: str, scope: _Scope, index: int) -> str:
        if scope.depth >= MAX_NESTING:
            raise fail("E0805", f"blocks nest deeper than {MAX_NESTING}: does '{kind}' use itself?", arguments.span)
        block = self._blocks[kind]
        takes = [str(node.value) for node in block.entries("takes")]
        values = {key: number(node, arguments.names) for key, node in _parameters(kind, arguments, takes)}
        inner = _Scope(f"{scope.prefix}{name}/", values | {"index": index}, scope.depth + 1, {"input": current})
        return self.sequence(block.entries("layers"), current, inner)


def _entry(entry: Node) -> tuple[str, Mapping[str, Node], Span]:
    if isinstance(entry.value, str):
        return entry.value, {}, entry.span
    ((kind, given),) = entry.items()
    return kind, dict(given.items()) if given.value else {}, given.where()


def _parameters(kind: str, arguments: Arguments, takes: list[str]) -> Iterator[tuple[str, Node]]:
    own = {key: node for key, node in arguments.given.items() if key not in ("name", "from", "repeat", "when")}
    for key, node in own.items():
        if key not in takes:
            raise fail(
                "E0806", f"the block '{kind}' takes no '{key}'", node.where(), nearest(key, takes) or f"it takes: {', '.join(takes) or 'nothing'}"
            )
    if missing := [key for key in takes if key not in own]:
        raise fail("E0806", f"the block '{kind}' needs {', '.join(missing)}", arguments.span)
    yield from own.items()


def _find(node: Node, scope: _Scope) -> str:
    return scope.results[node.value] if node.value in scope.results else _unknown(node, scope)


def _unknown(node: Node, scope: _Scope) -> str:
    raise fail("E0802", f"nothing before here is named '{node.value}'", node.span, nearest(str(node.value), scope.results))
