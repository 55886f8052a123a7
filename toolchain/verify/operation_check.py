"""Holds an operation's ONNX bodies and its other ways against its index expression, on random small shapes."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from toolchain.graph.importing.versions import IR_VERSION, OPSET
from toolchain.graph.integers.calls import fused_call, integer_call, run_call
from toolchain.graph.integers.endings import ROUNDINGS
from toolchain.graph.session import open_session, run_session
from toolchain.operations.ending import scaling_operands, zero_names
from toolchain.operations.kind import Operand, OperationKind
from toolchain.operations.library import Kinds
from toolchain.operations.numbers import complete, of_bits, stated_numbers
from toolchain.operations.operation import make_operation, to_picture
from toolchain.operations.reference import accumulate
from toolchain.operations.ways import ways_of
from toolchain.operations.whole import evaluate_stages, evaluate_table
from toolchain.spec.arrays import Array
from toolchain.spec.errors import Span, UserError, described, fail
from toolchain.spec.model.quantisation import FirstRounding, Form, Numerics, Range
from toolchain.verify.random_operation import drawn_constants

Maker = Callable[[ir.Model, list[ir.Value]], ir.Node]
"""Makes a call of some tensors in a model."""
TRIES = 2000
"""Random numbers that are drawn at most until some fit each other."""
SMALL, LARGER = 5, (6, 8, 12, 16, 24, 32, 48, 64, 128)
"""The largest extent that is drawn at first, and extents that are drawn as well once these have fitted no check often enough."""
MOST_ELEMENTS = 1 << 16
"""The most elements of an operand, where extents may be larger: a check takes seconds."""
TOLERANCE = 1e-5
"""Relative, of floating point in another order."""
FORMS: tuple[Form, ...] = ("multiplier", "float32", "power_of_two")
EXTREMES = np.array([-128, -127, -1, 0, 1, 126, 127], np.int8)


@dataclass(frozen=True)
class Case:
    """One operation with small extents. numbers: all of them but those of requantisation. operands: int8 and int32, of the declared axes."""

    kind: OperationKind
    numbers: Mapping[str, int]
    operands: Mapping[str, Any]

    @property
    def attributes(self) -> dict[str, float | tuple[float, ...]]:
        """As an ONNX call has them."""
        found = {each.name: tuple(of_bits(self.numbers[n]) if each.real else self.numbers[n] for n in each.numbers) for each in self.kind.attributes}
        return {each.name: found[each.name][0] if each.single else found[each.name] for each in self.kind.attributes}

    def given(self) -> list[Array]:
        """Operands as the graph has them."""
        found: list[Array] = []
        for each in self.kind.operands:
            found += [_visible(each, part) for part in (self.operands[each.name] if each.many else [self.operands[each.name]])]
        return found


@dataclass(frozen=True)
class Checked:
    """How much was compared."""

    operation: str
    shapes: int
    floats: int
    integers: int
    ways: int


def check_operation(kind: OperationKind, kinds: Kinds, count: int = 20, seed: int = 0) -> Checked:
    """Compares on `count` random shapes. Raises UserError E1303 with the shapes where a body or a way computes something else, E1304 where no
    numbers fit the description's checks, E1308 where the description cannot be computed."""
    with described(kind.span, f"the check of operation '{kind.name}'", (ir.serde.SerdeError,)):
        return _checked(kind, kinds, count, seed)


def _checked(kind: OperationKind, kinds: Kinds, count: int, seed: int) -> Checked:
    rng, floats, integers, ways = np.random.default_rng(seed), 0, 0, 0
    for number in range(count):
        case = draw_case(kind, rng)
        if kind.floats:
            _check_floats(case)
            floats += 1
        if kind.copies or kind.integers or kind.form in ("aligned", "table"):
            _check_integers(case, rng, number)
            integers += 1
        if kind.ways:
            ways += sum(1 for _ in _check_ways(case, rng, kinds))
    return Checked(kind.name, count, floats, integers, ways)


def draw_case(kind: OperationKind, rng: np.random.Generator) -> Case:
    """Raises UserError E1304."""
    if kind.meaning.join:
        return _joined_case(kind, rng)
    for attempt in range(TRIES):
        numbers = _drawn_numbers(kind, rng, larger=attempt >= TRIES // 4)
        if numbers is not None:
            return Case(kind, numbers, {each.name: _drawn(each, numbers, rng) for each in kind.operands})
    told = f"no extents from 1 to {SMALL} and {', '.join(map(str, LARGER))}, and no attributes from 0 to 3 and those that the checks state,"
    raise fail("E1304", f"{told} fit the checks of operation '{kind.name}'", kind.span)


def _drawn_numbers(kind: OperationKind, rng: np.random.Generator, larger: bool) -> dict[str, int] | None:
    """Numbers that the checks state outright, and random ones; None for those that do not fit each other.
    larger: extents beyond the small ones too."""
    free = [extent for extent in dict.fromkeys(e for each in kind.operands for e in each.extents) if extent not in kind.fixed]
    drawn = {extent: int(rng.integers(1, SMALL + 1)) for extent in free}
    if larger:
        drawn |= {extent: int(rng.choice(LARGER)) for extent in free if rng.integers(2)}
    for number in (number for each in kind.attributes for number in each.numbers):
        drawn[number] = int(rng.integers(0 if kind.defaults.get(number) == 0 else 1, 4))
    drawn |= {name: value for name, value in stated_numbers(kind).items() if name in drawn}
    try:
        found = complete(kind, drawn)
    except UserError:
        return None
    return found if max(math.prod(found[extent] for extent in each.extents) for each in kind.operands) <= MOST_ELEMENTS else None


def _joined_case(kind: OperationKind, rng: np.random.Generator) -> Case:
    shape = [int(size) for size in rng.integers(1, 5, 4)]
    parts = [_numbers(rng, (shape[0], int(rng.integers(1, 5)), *shape[2:])) for _ in range(int(rng.integers(2, 5)))]
    return Case(kind, {"axis": 1}, {kind.meaning.join: parts})


def _drawn(operand: Operand, numbers: Mapping[str, int], rng: np.random.Generator) -> Array:
    shape = tuple(numbers[extent] for extent in operand.extents)
    return rng.integers(-5000, 5000, shape).astype(np.int32) if operand.role == "bias" else _numbers(rng, shape)


def _numbers(rng: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.int8]:
    return rng.choice(EXTREMES, shape) if rng.integers(2) else rng.integers(-128, 128, shape).astype(np.int8)


def _visible(operand: Operand, array: Array) -> Array:
    return array.reshape(len(array), -1) if operand.flat else array


def _check_floats(case: Case) -> None:
    """The float body on whole numbers, which sums and products keep exact; a function on sixteenths, to both sides of where it changes."""
    small = {name: value / 16 if case.kind.meaning.table else _small(value) for name, value in case.operands.items()}
    given = Case(case.kind, case.numbers, small)
    inputs = [each.astype(np.float32) for each in given.given()]

    def call(model: ir.Model, values: list[ir.Value]) -> ir.Node:
        return fused_call(model, case.kind, _variant(given), values, given.attributes, "call")

    found = _run(case, "the float body", inputs, call, ir.DataType.FLOAT)
    wanted = float_result(given)
    if not _fits(found, wanted) or not np.allclose(found.reshape(wanted.shape), wanted, rtol=TOLERANCE, atol=TOLERANCE):
        raise _differs(case, "the float body", found, wanted)


def _small(value: Any) -> Any:
    return [np.asarray(part // 32) for part in value] if isinstance(value, list) else np.asarray(value // 32)  # pyright: ignore


def float_result(case: Case) -> Array:
    """By the index expression, float64."""
    kind, numbers = case.kind, {**case.numbers, **dict.fromkeys(case.kind.multipliers, 1), "unit": 1}
    if kind.meaning.stages:
        return evaluate_stages(kind, numbers, {name: value.astype(np.float64) for name, value in case.operands.items()})
    if kind.meaning.table:
        return evaluate_table(kind, case.operands["x"].astype(np.float64))
    total = accumulate(kind, numbers, case.operands).astype(np.float64)
    return total / np.prod([numbers[extent] for extent in kind.meaning.over.values()]) if kind.form == "average" else total


def _variant(case: Case) -> str:
    return str(len(case.operands[case.kind.meaning.join])) if case.kind.meaning.join else ""


def _check_integers(case: Case, rng: np.random.Generator, number: int) -> None:
    """The integer body and the reference in some machine's arithmetic."""
    kind, numerics = case.kind, _numerics(number, rng)
    leaky = kind.scaled and kind.activates and bool(rng.integers(2))
    ends: dict[str, int | float] = {"shift": int(rng.integers(0, 12)), "low": int(rng.choice([-128, -127, 0])), "high": int(rng.choice([127, 48]))}
    ends |= {"multiplier": int(rng.integers(1, 1 << 16)), "scale": float(np.float32(rng.random()))}
    ends |= {name: int(rng.integers(numerics.activation.low, numerics.activation.high + 1)) for name in zero_names(kind, numerics)}
    ends |= {"slope": 26, "slope_shift": 8, "bias_shift": int(rng.integers(0, 4)), "unit": 1 << int(rng.integers(0, 9))}
    ends |= {name: int(rng.integers(1, 9)) for name in kind.multipliers}
    if kind.arithmetic:
        ends |= _own(case, rng)
    operands = [*_stored(case, numerics), *_ends(case, numerics, rng)]
    variant, attributes = "leaky" if leaky else _variant(case), case.attributes | ends
    nodes: list[ir.Node] = []

    def call(model: ir.Model, values: list[ir.Value]) -> ir.Node:
        nodes.append(integer_call(model, kind, variant, values, attributes, "call", numerics))
        return nodes[-1]

    found = _run(case, "the integer body", operands, call, ir.DataType[numerics.stored.upper()])
    wanted = run_call(nodes[0], operands, numerics, {kind.name: kind})
    if not _fits(found, wanted) or not np.array_equal(found.reshape(wanted.shape), wanted):
        raise _differs(case, "the integer body", found, wanted)


def _own(case: Case, rng: np.random.Generator) -> dict[str, int | float]:
    """Constants of the machine's own arithmetic for random scales, and a factor that fits. Raises UserError E1304."""
    found = drawn_constants(case.kind, case.numbers, rng)
    if found is None:
        raise fail("E1304", f"no scales from 2**-9 to 2**-2 meet what the arithmetic of operation '{case.kind.name}' requires", case.kind.span)
    factor = float(np.float32(found[1]))
    shift = 15 - math.frexp(factor)[1]
    return {**found[0], "scale": factor, "multiplier": round(factor * 2.0**shift), "shift": min(max(shift, 0), 40)}


def _numerics(number: int, rng: np.random.Generator) -> Numerics:
    """Numerics to check under: each rounding and order in turn, then multiplied scales, and zero points."""
    rounding, order = ROUNDINGS[number % len(ROUNDINGS)], "shift_first" if number // 4 % 2 else "activation_first"
    plain = Numerics(rounding=rounding, order=order)
    if number < 2 * len(ROUNDINGS):
        return plain
    form = FORMS[number % len(FORMS)]
    first = FirstRounding(int(rng.choice([4, 31])), ROUNDINGS[int(rng.integers(4))]) if form == "multiplier" and rng.integers(2) else None
    own = replace(plain, form=form, first_rounding=first, per_channel=bool(rng.integers(2)))
    return replace(own, zero_points=True, activation=Range(0, 255)) if rng.integers(2) else own


def _stored(case: Case, numerics: Numerics) -> list[Array]:
    """Operands as the graph has them, computed ones in the machine's type."""
    if numerics.stored == "int8":
        return case.given()
    roles = [each.role for each in case.kind.operands for _ in range(len(case.operands[each.name]) if each.many else 1)]
    moved = zip(case.given(), roles, strict=True)
    return [(array.astype(np.int16) + 128).astype(np.uint8) if role == "data" else array for array, role in moved]


def _ends(case: Case, numerics: Numerics, rng: np.random.Generator) -> list[Array]:
    """Operands behind the kind's own: a table, or the scale of each channel."""
    if case.kind.form == "table":
        return [_numbers(rng, (256,)).astype(numerics.stored)]
    count = case.numbers[case.kind.operand[case.kind.bias].extents[0]] if case.kind.bias else 0
    whole = {"multiplier": rng.integers(1, 1 << 16, count), "shift": rng.integers(0, 40, count)}
    found: dict[str, Array] = {name: array.astype(np.int32) for name, array in whole.items()}
    found["scale"] = rng.random(count).astype(np.float32)
    return [found[name] for name in scaling_operands(case.kind, numerics)]


def _run(case: Case, part: str, operands: list[Array], call: Maker, dtype: ir.DataType) -> Array:
    """One call in ONNX Runtime. part: `the float body` or `the integer body`. Raises UserError E1303 where that refuses the body."""
    types = [ir.TensorType(ir.DataType.from_numpy(each.dtype)) for each in operands]
    inputs = [ir.Value(name=f"i{k}", shape=ir.Shape(each.shape), type=types[k]) for k, each in enumerate(operands)]
    model = ir.Model(ir.Graph(inputs, [], nodes=[], opset_imports={"": OPSET}, name="one"), ir_version=IR_VERSION)
    node = call(model, inputs)
    node.outputs[0].name, node.outputs[0].type = "y", ir.TensorType(dtype)
    model.graph.append(node)
    model.graph.outputs.append(node.outputs[0])
    try:
        session = open_session(ir.to_proto(model).SerializeToString())
        return run_session(session, {f"i{k}": each for k, each in enumerate(operands)})["y"]
    except UserError as error:
        raise fail("E1303", f"of operation '{case.kind.name}', {part} does not run: {error.diagnostics[0].message}", _place(case, part)) from None


def _check_ways(case: Case, rng: np.random.Generator, kinds: Kinds) -> Iterator[str]:
    """Every other operation on the same pictures; the name of each that was compared."""
    kind, numerics = case.kind, _numerics(int(rng.integers(64)), rng)
    operands = _stored(case, numerics)
    pictures = {name: to_picture(array.reshape(case.operands[name].shape)) for name, array in zip(kind.data, operands, strict=False)}
    numbers = {**case.numbers, **{name: int(rng.integers(1, 9)) for name in kind.multipliers}, "shift": int(rng.integers(0, 12))}
    numbers |= {name: int(rng.integers(numerics.activation.low, numerics.activation.high + 1)) for name in zero_names(kind, numerics)}
    given = {name: tuple(array.shape) for name, array in pictures.items()}
    arrays = {name: case.operands[name] for name in kind.known}
    arrays |= {f"{name}s": array for name, array in zip(scaling_operands(kind, numerics), _ends(case, numerics, rng), strict=True)}
    operation = make_operation(kind, "checked", given, arrays, numbers)
    wanted = operation.run(pictures, numerics)
    for way, other in ways_of(operation, kinds):
        inputs = {name: pictures[own] for name, own in zip(other.kind.data, kind.data, strict=True)}
        found = other.run(inputs, numerics)
        if found.size != wanted.size or not np.array_equal(found.reshape(wanted.shape), wanted):
            raise _differs(case, f"its way as '{other.kind.name}'", found, wanted, way.span if way else None)
        yield other.kind.name


def _place(case: Case, part: str) -> Span | None:
    """The body's key; the operation's name for a body that is derived."""
    return case.kind.bodies.get("float" if part == "the float body" else "integer", case.kind.span)


def _fits(found: Array, wanted: Array) -> bool:
    """Whether two results have the same axes; a body may leave out axes of one element, as rows leave out height and width, or add some."""
    return [size for size in found.shape if size > 1] == [size for size in wanted.shape if size > 1]


def _differs(case: Case, part: str, found: Array, wanted: Array, span: Span | None = None) -> UserError:
    numbers = ", ".join(f"{name} {value}" for name, value in case.numbers.items())
    if not _fits(found, wanted):
        told = f"makes {list(found.shape)}, not {list(wanted.shape)}"
    else:
        place = np.unravel_index(int(np.argmax(np.abs(found.reshape(wanted.shape).astype(np.float64) - wanted))), wanted.shape)
        told = f"makes {found.reshape(wanted.shape)[place]:g} at {list(map(int, place))}, not {wanted[place]:g}"
    return fail("E1303", f"of operation '{case.kind.name}', {part} {told}, for {numbers}", span or _place(case, part))
