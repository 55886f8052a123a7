"""Reads and runs the templates in one folder; a kernel's are rendered once for the values that they see. Constructs that cannot be followed or
bounded are refused, loops and macros are made to pay."""

import os
import re
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from types import TracebackType
from typing import cast

import jinja2
from jinja2 import Environment, TemplateSyntaxError, meta, nodes
from jinja2.environment import TemplateModule
from jinja2.loaders import split_template_path
from jinja2.runtime import Context, LoopContext, Macro
from jinja2.sandbox import SandboxedEnvironment
from jinja2.utils import pass_context
from jinja2.visitor import NodeTransformer

from toolchain.schedule.sandbox_filters import FILTERS, GLOBALS, PAY, TESTS, WEIGH, Formatter, apply, begin, deeper, end, printed, size_of, spend
from toolchain.spec.errors import UserError, fail, nearest
from toolchain.spec.files import read_limited

_REFUSED: tuple[type[nodes.Node], ...] = (nodes.Extends, nodes.Block, nodes.ScopedEvalContextModifier)


def checked_tree(tree: nodes.Template, environment: Environment, filename: str) -> nodes.Template:
    """The tree, changed in place. Raises TemplateSyntaxError with the line of a construct that is refused."""
    for node in tree.find_all(_REFUSED):
        raise _refused("'extends', 'block' and 'autoescape' are not allowed in these templates", node, filename)
    for node in tree.find_all((nodes.Include, nodes.Import, nodes.FromImport)):
        name = cast(nodes.Include, node).template
        if not isinstance(name, nodes.Const) or not isinstance(name.value, str):
            raise _refused("the name of a template that is included or imported must be written out", node, filename)
    for node in tree.find_all((nodes.Filter, nodes.Test)):
        known = FILTERS if isinstance(node, nodes.Filter) else TESTS
        if node.name not in known:
            hint = nearest(node.name, known)
            raise _refused(f"there is no {type(node).__name__.lower()} '{node.name}'{'; ' if hint else ''}{hint}", node, filename)
    for node in tree.find_all(nodes.For):
        if node.recursive:
            raise _refused("recursive loops are not allowed; use a macro", node, filename)
    changed = cast(nodes.Template, _Charging().visit(tree))
    changed.set_environment(environment)
    return changed


def _refused(text: str, node: nodes.Node, filename: str) -> TemplateSyntaxError:
    return TemplateSyntaxError(text, node.lineno, filename=filename)


class _Charging(NodeTransformer):
    """Calls of two filters that no template can name, where work may be repeated; Jinja finds the methods by its nodes' names."""

    def visit_Template(self, node: nodes.Template) -> nodes.Node:  # noqa: N802
        return self._paying(node)

    def visit_Macro(self, node: nodes.Macro) -> nodes.Node:  # noqa: N802
        return self._paying(node)

    def visit_CallBlock(self, node: nodes.CallBlock) -> nodes.Node:  # noqa: N802
        return self._paying(node)

    def _paying(self, node: nodes.Template | nodes.Macro | nodes.CallBlock) -> nodes.Node:
        cost = _weight(node.body)
        self.generic_visit(node)
        line = node.lineno
        node.body.insert(0, nodes.Output([_filter(nodes.Const(cost, lineno=line), PAY)], lineno=line))
        return node

    def visit_For(self, node: nodes.For) -> nodes.Node:  # noqa: N802
        cost = 1 + _weight(node.body)
        self.generic_visit(node)
        node.iter = _filter(cast(nodes.Expr, node.iter), WEIGH, cost)
        return node

    def visit_Operand(self, node: nodes.Operand) -> nodes.Node:  # noqa: N802
        """The right side of a comparison or of `in`."""
        self.generic_visit(node)
        node.expr = _filter(node.expr, WEIGH)
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        return _filter(nodes.List(node.nodes, lineno=node.lineno), "join")

    def visit_Getitem(self, node: nodes.Getitem) -> nodes.Node:  # noqa: N802
        """A slice is a copy."""
        self.generic_visit(node)
        return _filter(node, WEIGH) if isinstance(node.arg, nodes.Slice) else node


def _filter(value: nodes.Expr, name: str, *given: int) -> nodes.Filter:
    arguments = [nodes.Const(number, lineno=value.lineno) for number in given]
    return nodes.Filter(value, name, arguments, [], None, None, lineno=value.lineno)


def _weight(body: list[nodes.Node]) -> int:
    """Parts and characters of a body that is gone through once."""
    found = [part for node in body for part in (node, *node.find_all(nodes.Node))]
    return len(found) + sum(len(part.data) for part in found if isinstance(part, nodes.TemplateData))


MAX_BYTES = 256 << 10
_LONG = re.compile("[0-9_]{1001}")
"""Python refuses to read a number of many digits, and Jinja does not say where it stands."""
METHODS: Mapping[type, frozenset[str]] = {
    str: frozenset(
        ("count", "endswith", "find", "format", "isdigit", "lower", "lstrip", "rstrip", "split", "splitlines", "startswith", "strip", "upper")
    ),
    dict: frozenset(("get", "items", "keys", "values")),
    list: frozenset(("count", "index")),
    tuple: frozenset(("count", "index")),
}
"""Methods that a template may call: they change no value, and their results are no larger than their arguments."""
SMALL = 1 << 64
"""Products of smaller numbers cost nothing."""
_MISTAKES = (jinja2.TemplateError, ArithmeticError, TypeError, ValueError, LookupError, AttributeError, SyntaxError, RecursionError, MemoryError)
"""Exceptions that Jinja and Python raise for a template's own mistakes."""

__all__ = ["Renderer", "render"]


def render(folder: Path, name: str, scope: Mapping[str, object]) -> str:
    """The text that a template of the folder writes for these names. Raises UserError E1005 with its line, E0330 for one that is too large."""
    before = begin()
    try:
        return _environment(folder).get_template(name).render(scope)
    except _MISTAKES as error:
        raise _told(error, folder, name) from None
    finally:
        end(before)


def names_of(folder: Path, name: str) -> tuple[frozenset[str], tuple[str, ...]]:
    """Names that a template takes from outside, and templates that it imports. Raises UserError E1005 as `render`."""
    try:
        text, filename, _ = _Folder(folder).get_source(_environment(folder), name)
        return _names(folder, name, filename, text)
    except _MISTAKES as error:
        raise _told(error, folder, name) from None


@lru_cache(maxsize=256)
def _names(folder: Path, name: str, filename: str, text: str) -> tuple[frozenset[str], tuple[str, ...]]:
    """As `names_of`, read once for each text: every program asks for the names of all of its templates."""
    tree = _environment(folder).parse(text, name, filename)
    return frozenset(meta.find_undeclared_variables(tree)), tuple(other for other in meta.find_referenced_templates(tree) if other)


@lru_cache(maxsize=8)
def _environment(folder: Path) -> "_Sandbox":
    made = _Sandbox(
        loader=_Folder(folder), undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True, finalize=pass_context(_shown), optimized=False
    )
    made.filters, made.tests, made.globals = {**FILTERS}, {**TESTS}, {**GLOBALS}
    return made


def _shown(_: Context, value: object) -> str:
    """The text of a value. Jinja would do constants while it compiles, if this took no context."""
    text = str(value) if type(value) is int else printed(value)
    spend(len(text))
    return text


class _Folder(jinja2.BaseLoader):
    """Regular files inside one folder, wherever links lead."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def get_source(self, environment: jinja2.Environment, template: str) -> tuple[str, str, Callable[[], bool]]:  # noqa: ARG002
        path = self._folder.joinpath(*split_template_path(template))
        if not os.path.lexists(path):
            raise jinja2.TemplateNotFound(template, f"there is no template '{template}'")
        if not path.resolve().is_relative_to(self._folder.resolve()):
            raise fail("E1005", "the template is a link that leads out of its machine's folder", place=str(path))
        stamp = _stamp(path)
        if stamp is None:
            raise fail("E1005", "the template is no file", place=str(path))
        try:
            text = read_limited(path, MAX_BYTES, "the template").decode()
        except UnicodeDecodeError as error:
            raise fail("E1005", f"the template is not UTF-8 text at byte {error.start:#x}", place=str(path)) from None
        return text, str(path), lambda: _stamp(path) == stamp


def _stamp(path: Path) -> tuple[int, int, int] | None:
    """Tells one state of a file from the next; None for a path that is no file."""
    try:
        found = path.stat()
    except OSError:
        return None
    return (found.st_ino, found.st_size, found.st_mtime_ns) if stat.S_ISREG(found.st_mode) else None


class _Sandbox(SandboxedEnvironment):
    """Only methods that are known to be harmless; whatever may make something large goes through `operators`."""

    intercepted_binops = frozenset(("+", "*", "**", "%"))

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        for number, line in enumerate(source.splitlines(), 1):
            if _LONG.search(line):
                raise jinja2.TemplateSyntaxError("a number of more than 1000 digits", number, filename=filename)
        return checked_tree(super()._parse(source, name, filename), self, filename or "")

    def is_safe_attribute(self, obj: object, attr: str, value: object) -> bool:
        if not super().is_safe_attribute(obj, attr, value):
            return False
        known = (
            isinstance(obj, LoopContext | TemplateModule)
            or isinstance(value, Macro)
            or any(attr in names for kind, names in METHODS.items() if isinstance(obj, kind))
        )
        return known or not callable(value)

    def getattr(self, obj: object, attribute: str) -> object:
        """As in Jinja, whose own way to an entry of a mapping or to a macro of another template is several times as long."""
        if isinstance(obj, dict) and not hasattr(dict, attribute):
            entries = cast(dict[str, object], obj)
            if attribute in entries:
                return entries[attribute]
        if isinstance(obj, TemplateModule) and not attribute.startswith("_"):
            found = vars(obj).get(attribute)
            if isinstance(found, Macro):
                return found
        return super().getattr(obj, attribute)

    def wrap_str_format(self, value: object) -> Callable[..., str] | None:
        text = getattr(value, "__self__", None)
        if not isinstance(text, str) or getattr(value, "__name__", "") != "format":
            return None
        return lambda *values, **named: Formatter(self).vformat(text, values, named)

    def call_binop(self, context: Context, operator: str, left: object, right: object) -> object:  # noqa: ARG002
        if type(left) is int and type(right) is int:  # most of all; the loop around it has paid
            if operator in "+%":
                return left + right if operator == "+" else left % right
            if operator == "*" and -SMALL < left < SMALL and -SMALL < right < SMALL:
                return left * right
        found = apply(operator, left, right)
        spend(size_of(found))
        return found

    def call(__self, __context: Context, __obj: Callable[..., object], *args: object, **kwargs: object) -> object:  # noqa: N805, PYI063  # as Jinja, for names that templates pass
        deeper(1)
        found = __context.call(__obj, *args, **kwargs)  # whatever can be named may be called; an error ends the rendering
        deeper(-1)
        spend(size_of(found))
        return found


def _told(error: BaseException, folder: Path, name: str) -> UserError:
    """A template's fault as one line."""
    if isinstance(error, jinja2.TemplateSyntaxError):
        return fail("E1005", f"cannot read the template: {error.message}", place=f"{folder / (error.name or name)}:{error.lineno}")
    return fail("E1005", f"the template fails: {_reason(error)}", place=_place(error.__traceback__, folder) or str(folder / name))


def _reason(error: BaseException) -> str:
    match error:
        case RecursionError():
            return "it includes or calls itself without end, or is nested too deeply"
        case MemoryError():
            return "it takes more memory than there is"
        case SyntaxError():
            return "loops are nested deeper than Python takes"
        case KeyError():
            return f"there is no entry {error}"
        case _:
            return str(error) or type(error).__name__


def _place(trace: TracebackType | None, folder: Path) -> str:
    """The innermost line of a template; Jinja puts it into the traceback."""
    found = ""
    while trace:
        path = trace.tb_frame.f_code.co_filename
        found = f"{path}:{trace.tb_lineno}" if path.startswith(f"{folder}{os.sep}") else found
        trace = trace.tb_next
    return found


@dataclass
class Renderer:
    """Renders each template once for the names that it uses: many tiles differ in names that a template does not use."""

    used: dict[tuple[Path, str], tuple[str, ...]] = field(default_factory=dict[tuple[Path, str], tuple[str, ...]])
    made: dict[tuple[object, ...], tuple[str, ...]] = field(default_factory=dict[tuple[object, ...], tuple[str, ...]])

    def lines(self, folder: Path, name: str, scope: Mapping[str, object]) -> tuple[str, ...]:
        """The lines that are not blank, each with its end. Raises UserError E1005 as `render` does."""
        if (folder, name) not in self.used:
            self.used[folder, name] = tuple(sorted(template_names(folder, name)[0]))
        known = {key: scope[key] for key in self.used[folder, name] if key in scope}
        key = (folder, name, *known.items())
        if key not in self.made:
            self.made[key] = tuple(f"{line}\n" for line in render(folder, name, known).splitlines() if line.strip())
        return self.made[key]


def template_names(folder: Path, name: str) -> tuple[frozenset[str], frozenset[str]]:
    """Names that a template and those that it imports take from outside, and all of these templates. Raises UserError E1005."""
    found, seen, waiting = set[str](), set[str](), [name]
    while waiting:
        part = waiting.pop()
        if part not in seen:
            seen.add(part)
            names, others = names_of(folder, part)
            found |= names
            waiting += others
    return frozenset(found), frozenset(seen)
