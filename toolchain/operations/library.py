"""Reads descriptions of operations, those of the toolchain and those that a folder adds; every name in them is checked."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from pathlib import Path
from types import MappingProxyType

from toolchain.operations.factors import Factors
from toolchain.operations.float_stages import FLOAT_ARGUMENTS
from toolchain.operations.kind import Arithmetic, Attribute, Check, Meaning, Operand, OperationKind, Role, Stage, Way
from toolchain.operations.whole import REAL_ARGUMENTS, WHOLE_ARGUMENTS
from toolchain.spec.context import Context, Scope, problems
from toolchain.spec.errors import Source, Span, UserError, fail, nearest
from toolchain.spec.expr import Call, Expr, Index, Name, rewrite, walk
from toolchain.spec.files import PACKAGE, Contents, contents, search_path
from toolchain.spec.model import Machine
from toolchain.spec.model.quantisation import SumOrder
from toolchain.spec.schema import validate
from toolchain.spec.yaml_nodes import Node, parse_yaml

SCHEMA = PACKAGE / "schemas" / "operation.schema.json"
REDUCTIONS = ("sum", "mean", "max", "min")
FORMS = (*REDUCTIONS, "value", "table", "join", "stages", "opaque")
UNIT = "unit"
NONE: Mapping[str, int] = MappingProxyType({})
FUNCTION = """<domain: "own", opset_import: ["" : 21]>
body ({operands}) => (y)
{{
{text}
}}"""
"""A body as a function of its own, for the parser of ONNX."""
RESULTS: Mapping[str, str] = MappingProxyType({"float": "r", "integer": "products"})
"""The tensor that each body ends with."""
FIRST = 4
"""The line of a function in which its body begins."""


def read_kind(source: Source, valid: bool = False) -> OperationKind:
    """One description. valid: it is known to obey the schema, as built-in ones are.

    Raises UserError E0101.. for the YAML, E0107 for an unknown name, E1301 for a description that contradicts itself.
    """
    root = parse_yaml(source)
    if not valid:
        validate(root, SCHEMA)
    kind = _Reader(root, Context(root, "", {}, {})).kind()
    for name, node in root.members("onnx") if not valid else ():
        _parse_body(kind, node, RESULTS[name])
    return kind


def _parse_body(kind: OperationKind, node: Node, result: str) -> None:
    """Raises UserError E1301 at the place where a body cannot be read, or reads a tensor that it does not have."""
    from onnx import parser  # a module that loads slowly, for users' own operations alone

    text = FUNCTION.format(operands=", ".join(each.name for each in kind.operands), text=str(node.value))
    try:
        function = parser.parse_function(text)
    except parser.ParseError as error:
        told = error.args[0].decode("utf-8", "replace") if isinstance(error.args[0], bytes) else str(error)
        found = re.search(r"line: (\d+) column: (\d+)", told)
        line, column = (int(found[1]) - FIRST, int(found[2]) - 1) if found else (0, 0)
        inside = 0 <= line < str(node.value).count("\n") + 1
        where = node.locate(line + 1 if node.style in ("|", ">") else 1, max(column, 0)) if inside else node.where()
        raise fail("E1301", f"the ONNX body cannot be read: {told.splitlines()[-1]}", where) from None
    known = dict.fromkeys(function.input)
    for call in function.node:
        if stray := next((name for name in call.input if name and name not in known), ""):
            where, hint = _mention(node, stray), nearest(stray, known)
            raise fail("E1301", f"the ONNX body reads '{stray}', which is no operand and not made above", where, hint)
        known |= dict.fromkeys(call.output)
    if result not in known:
        raise fail("E1301", f"the ONNX body makes no '{result}'", node.where(), f"the last line says {result} = ...")


def _mention(node: Node, name: str) -> Span:
    """Where a body first reads a tensor."""
    for number, line in enumerate(str(node.value).splitlines(), 1):
        if found := re.search(rf"\b{re.escape(name)}\b(?!\s*=)", line):
            return node.locate(number, found.start())
    return node.where()


@dataclass(frozen=True)
class _Reader:
    root: Node
    context: Context

    def kind(self) -> OperationKind:
        return self.extended() if self.root.get("extends") else self.described()

    def extended(self) -> OperationKind:
        """An operation of the toolchain with a machine's own arithmetic. Raises UserError E0107 where there is none of the name."""
        root = self.root
        base = builtin_kinds()[self.one_of(root.value["extends"], builtin_kinds(), "operation")]
        if stray := next((key for key, _ in root.items() if key not in ("extends", "doc", "arithmetic", "floats", "onnx")), ""):
            raise fail("E1301", f"'{stray}' stands in the operation that this one extends", root.value[stray].where())
        if base.form not in ("table", "real"):
            raise fail("E1301", f"'{base.name}' computes in whole numbers already", root.value["extends"].span)
        numbers = dict.fromkeys(base.loose_numbers)
        floats = root.get("floats")
        stages = self.stages(floats, base.operands, base.result, numbers, FLOAT_ARGUMENTS) if floats else ()
        halves = _without_mean(stages, "which does not say how it is rounded")
        base = replace(base, doc=root.text("doc") or base.doc, span=root.value["extends"].span, halves=halves)
        if root.get("arithmetic") is None:
            return base
        body = self.integer_body()
        bodies = {**base.bodies, "integer": body.key_span or body.span}
        return replace(base, arithmetic=self.arithmetic(base.operands, base.result, numbers), integers=str(body.value), bodies=bodies)

    def integer_body(self) -> Node:
        """The body of own arithmetic, which needs one. Raises UserError E1301."""
        onnx, arithmetic = self.root.get("onnx"), self.root.value["arithmetic"]
        body = onnx.get("integer") if onnx else None
        if body is None:
            raise fail("E1301", "arithmetic of its own needs an integer body in standard operators", arithmetic.where(), "onnx: {integer: ...}")
        return body

    def described(self) -> OperationKind:
        root = self.root
        operands = [self.operand(name, node) for name, node in root.members("tensors")]
        results = [each for each in operands if each.role == "result"]
        if len(results) != 1:
            raise fail("E1301", f"an operation has one tensor of the role 'result', not {len(results)}", root.value["tensors"].where())
        if results[0].name != "y":
            raise fail("E1301", f"the result is called 'y', not '{results[0].name}'", root.value["tensors"].where())
        inputs, result = tuple(each for each in operands if each.role != "result"), results[0]
        attributes = tuple(self.attribute(name, node) for name, node in root.members("attributes"))
        defaults, fixed = ({name: int(node.value) for name, node in root.members(key)} for key in ("defaults", "fixed"))
        numbers = self.numbers(operands, attributes, fixed) | dict.fromkeys(name for name, _ in root.members("shape"))
        shape = {name: self.expr(node, numbers) for name, node in root.members("shape")}
        checks = tuple(Check(self.expr(node.value["that"], numbers), node.text("message")) for node in root.entries("checks"))
        meaning = self.meaning(root.value["meaning"], inputs, result, numbers)
        onnx = root.get("onnx")
        floats, integers = (onnx.text("float"), onnx.text("integer")) if onnx else ("", "")
        name = str(root.value["operation"].value)
        own = self.arithmetic(inputs, result, numbers) if root.get("arithmetic") and self.integer_body() else None
        kind = OperationKind(
            name, root.text("doc"), inputs, result, attributes, defaults, fixed, shape, checks, meaning, root.flag("activates"),
            root.flag("placed"), root.flag("absorbed"), root.flag("viewed"), floats, integers, (), tuple(root.entries("binds")),
            own, root.value["operation"].span, {key: node.key_span or node.span for key, node in root.members("onnx")},
        )  # fmt: skip
        self.scaled(kind)
        self.known_extents(kind)
        ways = tuple(self.way(node, kind) for node in root.entries("ways"))
        return replace(kind, ways=ways)

    def scaled(self, kind: OperationKind) -> None:
        """Raises UserError E1301 for a meaning from which no scale follows."""
        where = self.root.value["meaning"].where()
        parts = [term.of for term in kind.terms] if kind.form == "aligned" or kind.meaning.reduction in ("mean", "max", "min") else []
        if any(not isinstance(part, Index) for part in parts):
            raise fail("E1301", f"a {kind.meaning.reduction or 'sum'} is one of elements, not of what is computed from them", where)
        if kind.form == "weighted" and kind.factors != Factors(dict.fromkeys((*kind.data[:1], kind.weights), 1)):
            raise fail("E1301", f"with weights, every product is one element of '{kind.data[0]}' times one of '{kind.weights}'", where)
        if kind.form == "computed" and not kind.factors.total:
            raise fail("E1301", "no summand of the meaning reads an element", where)

    def known_extents(self, kind: OperationKind) -> None:
        """Raises UserError E1301 for an extent of the result that nothing gives, and for an integer body of a meaning in floating point."""
        known = {extent for each in kind.operands for extent in each.extents} | {number for each in kind.attributes for number in each.numbers}
        known |= {*kind.defaults, *kind.fixed, *kind.shape}
        for extent, node in zip(kind.result.extents, self.root.value["tensors"].value[kind.result.name].value["axes"].children(), strict=True):
            if extent not in known and not kind.meaning.join:  # the length of what stands side by side follows from all of them
                raise fail("E1301", f"nothing says how long '{extent}' of the result is", node.span, "an operand has it, or `shape` computes it")
        if kind.integers and kind.form == "real":
            where = self.root.value["onnx"].value["integer"].where()
            raise fail("E1301", "stages are computed in floating point, so they have no integer body", where, "leave `integer` out")

    def operand(self, name: str, node: Node) -> Operand:
        axes = {index: str(extent.value) for index, extent in node.members("axes")}
        role: Role = node.value["role"].value if node.get("role") else "data"
        return Operand(name, axes, role, node.flag("many"), node.flag("flat"))

    def attribute(self, name: str, node: Node) -> Attribute:
        if node.get("real"):
            return Attribute(name, (node.text("real"),), single=True, real=True)
        if isinstance(node.value, list):
            return Attribute(name, tuple(str(part.value) for part in node.children()))
        return Attribute(name, (str(node.value),), single=True)

    def numbers(self, tensors: Iterable[Operand], attributes: Iterable[Attribute], fixed: Mapping[str, int]) -> dict[str, None]:
        """Names of extents, attributes and fixed numbers. Raises UserError E1301 for one that is an extent and a number, or a tensor too."""
        extents = dict.fromkeys(name for each in tensors for name in each.extents)
        others = [number for each in attributes for number in each.numbers]
        twice = [name for name in (*others, *(each.name for each in tensors)) if name in extents or (name in fixed and name in others)]
        if twice or len(set(others)) < len(others):
            name = (twice or [name for name in others if others.count(name) > 1])[0]
            raise fail("E1301", f"'{name}' names two things", self.root.span)
        return extents | dict.fromkeys(others) | dict.fromkeys(fixed)

    def meaning(self, node: Node, operands: tuple[Operand, ...], result: Operand, numbers: Mapping[str, None]) -> Meaning:
        given = [form for form in FORMS if node.get(form)]
        if len(given) != 1:
            raise fail("E1301", f"a meaning has one of {', '.join(FORMS)}, not {' and '.join(given) or 'none'}", node.where())
        form, over = given[0], {index: self.extent(extent, numbers) for index, extent in node.members("over")}
        tensors = {each.name: each for each in operands}
        if form == "join":
            return Meaning(join=self.one_of(node.value["join"], tensors, "operand"))
        if form == "stages":
            return Meaning(stages=self.stages(node, operands, result, numbers, REAL_ARGUMENTS))
        if form == "opaque":
            return Meaning()
        if bool(over) != (form in REDUCTIONS):
            raise fail("E1301", f"'{form}' has {'an' if over else 'no'} 'over'", node.where())
        of = self.element(node.value[form], tensors, {*numbers, *result.axes, *over, UNIT}, REAL_ARGUMENTS if form == "table" else NONE)
        return Meaning(of, form if form in REDUCTIONS else "", over, node.text("outside"), table=form == "table")

    def extent(self, node: Node, numbers: Mapping[str, None]) -> str:
        return self.one_of(node, numbers, "extent")

    def one_of(self, node: Node, known: Iterable[str], noun: str) -> str:
        if node.value not in known:
            raise fail("E0107", f"unknown {noun} '{node.value}'", node.span, nearest(str(node.value), known) or f"known: {', '.join(known)}")
        return str(node.value)

    def arithmetic(self, operands: tuple[Operand, ...], result: Operand, numbers: Mapping[str, None]) -> Arithmetic:
        """The machine's own."""
        node = self.root.value["arithmetic"]
        scales = {*numbers, *(f"scale_{each.name}" for each in operands if each.role == "data")}
        constants = dict[str, Expr]()
        for name, part in node.members("constants"):
            constants[name] = self.element(part, {}, {*scales, *constants}, REAL_ARGUMENTS)
        if taken := next((name for name in constants if name in numbers), ""):
            raise fail("E1301", f"'{taken}' names two things", node.value["constants"].where())
        known = {**numbers, **dict.fromkeys(constants)}
        requires = tuple(Check(self.expr(part.value["that"], known), part.text("message")) for part in node.entries("requires"))
        stages = _without_mean(self.stages(node, operands, result, known, WHOLE_ARGUMENTS), "which is no whole number")
        factors = self.element(node.value["factors"], {}, numbers, REAL_ARGUMENTS) if "factors" in node.value else None
        return Arithmetic(constants, self.element(node.value["step"], {}, {*scales, *constants}, REAL_ARGUMENTS), requires, stages, factors)

    def stages(
        self, node: Node, operands: tuple[Operand, ...], result: Operand, numbers: Mapping[str, None], functions: Mapping[str, int]
    ) -> tuple[Stage, ...]:
        """Each stage may read operands and earlier stages; the last one is the result."""
        tensors = {each.name: each for each in operands}
        indices = {index: extent for each in (*operands, result) for index, extent in each.axes.items()}
        found: list[Stage] = []
        for part in node.entries("stages"):
            name, over = part.text("name"), {index: self.extent(extent, numbers) for index, extent in part.members("over")}
            form = next((form for form in (*REDUCTIONS, "value") if part.get(form)), "")
            if not form or bool(over) != (form in REDUCTIONS):
                raise fail("E1301", f"stage '{name}' has neither a value nor a reduction over axes", part.span)
            axes = tuple(self.one_of(axis, indices, "index") for axis in part.entries("axes"))
            of = self.element(part.value[form], tensors, {*numbers, *axes, *over}, functions)
            found.append(Stage(name, axes, "" if form == "value" else form, over, of, self.order(part, {*numbers, *axes, *over})))
            tensors[name] = Operand(name, {axis: indices[axis] for axis in axes})
        if found[-1].name != result.name:
            raise fail("E1301", f"the last stage makes '{found[-1].name}', not the result '{result.name}'", node.where())
        return tuple(found)

    def order(self, stage: Node, names: Iterable[str]) -> SumOrder:
        """Read how a stage orders the terms of its sum, by expressions over numbers and indices."""
        known = tuple(names)
        blocks, terms = (tuple(self.expr(each, known) for each in stage.entries(key)) for key in ("blocks", "terms"))
        return SumOrder(blocks, terms)

    def expr(self, node: Node, names: Iterable[str], hosted: Iterable[str] = ()) -> Expr:
        """An expression over whole numbers."""
        found = self.context.expr(node)
        wrong = list(problems(found, Scope(frozenset(names), hosted=frozenset(hosted))))
        if wrong:
            raise UserError(*wrong)
        return found

    def element(self, node: Node, tensors: Mapping[str, Operand], names: Iterable[str], functions: Mapping[str, int] = NONE) -> Expr:
        """An expression over elements; each read has an index for every axis. functions: that may be called beside those of all expressions."""
        found = self.context.parse(node)
        for e in walk(found):
            if isinstance(e, Index) and isinstance(e.base, Name) and e.base.id not in tensors:
                raise fail("E0107", f"unknown tensor '{e.base.id}'", e.span, nearest(e.base.id, tensors) or f"known: {', '.join(tensors)}")
            if isinstance(e, Index) and isinstance(e.base, Name) and len(e.index) != len(tensors[e.base.id].axes):
                raise fail("E1301", f"'{e.base.id}' has {len(tensors[e.base.id].axes)} axes, not {len(e.index)}", e.span)
        wrong = list(problems(_opened(found, functions), Scope(frozenset(names), hosted=frozenset(tensors))))
        if wrong:
            raise UserError(*wrong)
        return found

    def way(self, node: Node, kind: OperationKind) -> Way:
        names = (*kind.numbers,)
        numbers = {name: self.expr(value, names) for name, value in node.members("numbers")}
        arrays = {name: self.context.parse(value) for name, value in node.members("arrays")}
        when = node.get("when")
        return Way(str(node.value["operation"].value), self.expr(when, names) if when else None, numbers, arrays, node.span)


def _without_mean(stages: tuple[Stage, ...], reason: str) -> tuple[Stage, ...]:
    """The stages as they are. Raises UserError E1301 for a mean among them."""
    if wrong := next((each for each in stages if each.reduction == "mean"), None):
        raise fail("E1301", f"stage '{wrong.name}' has a mean, {reason}", wrong.of.span, "divide a sum as the machine does")
    return stages


def _opened(expr: Expr, functions: Mapping[str, int]) -> Expr:
    """The expression with a maximum in place of each of these functions, whose names and arguments are checked so. functions: how many arguments.

    Raises UserError E0123 for another number of arguments.
    """

    def change(e: Expr) -> Expr | None:
        match e:
            case Call(function=Name(id=name), args=args) if name in functions:
                if len(args) != functions[name]:
                    raise fail("E0123", f"{name} takes {functions[name]} argument{'s' * (functions[name] > 1)}, not {len(args)}", e.span)
                return Call(Name("max"), tuple(_opened(part, functions) for part in args), span=e.span)
            case _:
                return None

    return rewrite(expr, change)


def read_folder(folder: Path) -> dict[str, OperationKind]:
    """The operations that a folder describes, by name, in the order of the files' names."""
    kinds = [read_kind(Source(str(path), path.read_text())) for path in sorted(folder.glob("*.yaml"))]
    return {kind.name: kind for kind in kinds}


FOLDER = Path(__file__).resolve().parent
Kinds = Mapping[str, OperationKind]


@cache
def builtin_kinds() -> Kinds:
    """Every operation of the toolchain, by name."""
    kinds = [read_kind(Source(str(path), path.read_text()), valid=True) for path in sorted(FOLDER.glob("*.yaml"))]
    return MappingProxyType({kind.name: kind for kind in kinds})


def kinds_with(folder: Path | None, halves: bool = False) -> Kinds:
    """The toolchain's operations, some perhaps with arithmetic of a folder's, and those that the folder describes. halves: of a machine that computes
    in a floating format, where arithmetic of whole numbers is no one's. Raises UserError E1302 for a name that is taken already."""
    if folder is None or not folder.is_dir():
        return builtin_kinds()
    return _with_own(folder, contents(folder), halves)


@lru_cache(maxsize=64)
def _with_own(folder: Path, _files: Contents, halves: bool) -> Kinds:
    """Read once for each state of the files."""
    own = read_folder(folder)
    for name, kind in own.items():
        if name in builtin_kinds() and kind.meaning is not builtin_kinds()[name].meaning:  # those that extend it keep its meaning
            raise fail("E1302", f"the toolchain has an operation '{name}' already", kind.span)
    if halves:
        own = {name: replace(kind, arithmetic=None, integers="") if kind.arithmetic else kind for name, kind in own.items()}
    return MappingProxyType({**builtin_kinds(), **own})


def kinds_of(machine: Machine) -> Kinds:
    """The toolchain's operations and those of the machine's own folder. Raises as `kinds_with`."""
    numerics = machine.quantisation
    return kinds_with(own_operations(machine), numerics is not None and numerics.floats is not None)


def own_operations(machine: Machine) -> Path | None:
    """The folder `operations` beside the machine's templates; None where it has none."""
    folders = [Path(machine.path).parent, *search_path("targets")]
    return next((found for folder in folders if (found := folder / machine.name / "operations").is_dir()), None)


def kind_named(kinds: Kinds, name: str) -> OperationKind:
    """Raises UserError E0107 where there is none."""
    if name not in kinds:
        raise fail("E0107", f"unknown operation '{name}'", hint=nearest(name, kinds) or f"known: {', '.join(kinds)}")
    return kinds[name]
