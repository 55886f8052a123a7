"""The places and constants that a step takes part in, found in its instructions: a kernel does not list them."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from toolchain.schedule.kernels.kernel import Constant, Place
from toolchain.schedule.kernels.render import template_names
from toolchain.schedule.kernels.sequence import Code, Formula, Issue, Items
from toolchain.spec.expr import value_names

Names = tuple[str, ...]
PARTS = ("first", "stop")
"""The known numbers of a constant that is on chip."""


def mentioned(folder: Path, code: Code) -> Names:
    """The names that instructions depend on, each once, in the order in which they stand; those of a template in the order of the alphabet."""
    found = sorted(template_names(folder, code)[0]) if isinstance(code, str) else _of_items(code, {})
    return tuple(dict.fromkeys(found))


def constants_in(names: Iterable[str], constants: Iterable[Constant]) -> Names:
    """The constants that are named, in the kernel's order. A template names `window`, an instruction `window.first`."""
    stems = {name.partition(".")[0] for name in names if "." not in name or name.partition(".")[2] in PARTS}
    return tuple(c.name for c in constants if c.name in stems)


def places_in(names: Iterable[str], constants: Iterable[Constant], places: Iterable[Place], own: str) -> Names:
    """Places other than a step's own one that are named, by the step's instructions first, then by its constants."""
    place_of = {f"{p.name}_{part}": p.name for p in places for part in ("slot", "bank", *p.names, *p.starts)}
    within = [name for c in constants for expr in (*c.over.values(), *c.fields.values()) for name in value_names(expr) if name not in c.over]
    return tuple(place for place in dict.fromkeys(place_of[name] for name in (*names, *within) if name in place_of) if place != own)


def _of_items(items: Items, meaning: Mapping[str, Names]) -> Iterator[str]:
    """meaning: the names that a name of `for`, `let` or a call stands for."""
    for item in items:
        inner = dict(meaning)
        for name, count in item.loops.items():
            yield from _expanded(count, inner)
            inner[name] = ()
        for name, formula in item.let.items():
            inner[name] = tuple(_expanded(formula, meaning if item.call else inner))
        if item.when:
            yield from _expanded(item.when, inner)
        if isinstance(item.body, Issue):
            for formula in item.body.fields.values():
                yield from _expanded(formula, inner)
        else:
            yield from _of_items(item.body, inner)


def _expanded(formula: Formula, meaning: Mapping[str, Names]) -> Iterator[str]:
    for name in value_names(formula.expr):
        yield from meaning.get(name, (name,))
