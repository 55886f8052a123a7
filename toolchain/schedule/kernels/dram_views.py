"""The views through which instructions reach a tensor, found in their semantics: a kernel does not say them."""

from collections.abc import Iterable, Iterator, Mapping

from toolchain.isa.semantics import ir
from toolchain.isa.semantics.machine import machine_semantics
from toolchain.isa.semantics.partial import partial
from toolchain.isa.semantics.traverse import addresses, expressions
from toolchain.schedule.kernels.sequence import Issue, Items, issues
from toolchain.schedule.kernels.sequence_file import unsaid
from toolchain.spec.expr import Choose, Expr, children
from toolchain.spec.model import Machine


def views_reached(machine: Machine, items: Items, assumed: Mapping[str, int] | None = None) -> tuple[str, ...]:
    """Views of all memories that some instruction reads or writes, as far as its fields tell, each once. assumed: values of names in the fields."""
    return tuple(dict.fromkeys(view for issue in issues(items) for view in _of_issue(machine, issue, assumed or {})))


def dram_views(machine: Machine, items: Items, assumed: Mapping[str, int] | None = None) -> tuple[str, ...]:
    """Views of DRAM alone, as `views_reached`."""
    return tuple(view for view in views_reached(machine, items, assumed) if machine.memory[machine.view[view].memory].kind == "dram")


def _of_issue(machine: Machine, issue: Issue, assumed: Mapping[str, int]) -> Iterator[str]:
    instruction = machine.instruction[issue.instruction]
    given = {f.name: unsaid(instruction, f.name) for f in instruction.fields if f.name not in issue.fields}
    known = {name: partial(formula.expr, assumed) for name, formula in issue.fields.items()}
    given |= {name: value for name, value in known.items() if value is not None}
    for access in _accesses(machine_semantics(machine)[issue.instruction].body, given):
        yield access.view.name


def _accesses(body: Iterable[ir.Stmt], given: Mapping[str, int]) -> Iterator[ir.Access]:
    """Accesses of statements that may be reached with these fields."""
    for stmt in body:
        if isinstance(stmt, ir.Store):
            yield stmt.access
        yield from (access for expr in expressions(stmt) for access in _reads(expr, given))
        match stmt:
            case ir.For(body=inner):
                yield from _accesses(inner, given)
            case ir.If(condition=condition, then=then, other=other):
                met = partial(condition, given)
                yield from _accesses((*then, *other) if met is None else then if met else other, given)
            case _:
                pass


def _reads(expr: Expr, given: Mapping[str, int]) -> Iterator[ir.Access]:
    """Accesses of an expression, not those on the side of a choice that these fields leave out."""
    met = partial(expr.condition, given) if isinstance(expr, Choose) else None
    if isinstance(expr, Choose) and met is not None:
        yield from _reads(expr.then if met else expr.other, given)
        return
    if isinstance(expr, ir.Load | ir.ControlRead):
        yield expr.access
    for child in addresses(expr.access) if isinstance(expr, ir.Load | ir.ControlRead) else children(expr):
        yield from _reads(child, given)
