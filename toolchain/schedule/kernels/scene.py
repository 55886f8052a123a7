"""The places and constants that a step's instructions can name, and where the elements of places stand."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from toolchain.schedule.kernels.kernel import Constant, Element, Place
from toolchain.schedule.kernels.kernel_shapes import with_words
from toolchain.spec.errors import Span, fail, nearest
from toolchain.spec.expr import Const, Expr, Name


@dataclass(frozen=True)
class Scene:
    """places: by name, the memory of each. constants: by name. elements: by PLACE_NAME, where an element of that place stands.

    sized: names that are known of a tile when it is chosen. settled: and those of its places, before tensors have theirs in DRAM.
    """

    places: Mapping[str, str] = field(default_factory=dict[str, str])
    constants: frozenset[str] = frozenset()
    elements: Mapping[str, Element] = field(default_factory=dict[str, Element])
    sized: frozenset[str] = frozenset()
    settled: frozenset[str] = frozenset()

    @cached_property
    def words(self) -> frozenset[str]:
        return self.constants | self.places.keys()

    def member(self, role: str, name: str, spelled: Mapping[str, int], span: Span | None) -> Expr:
        """`ROLE.NAME`: PLACE_NAME of a place, CONSTANT.NAME of a constant. spelled: words of the field in which this stands, for `ROLE.memory`.

        Raises UserError E1002 for a field that has no word for the memory.
        """
        if name == "memory" and role in self.places:
            if self.places[role] not in spelled:
                raise fail("E1002", f"'{role}' stands in '{self.places[role]}', and no value of a field is called so here", span)
            return Const(spelled[self.places[role]], span=span)
        return Name(f"{role}_{name}" if role in self.places else f"{role}.{name}", span=span)

    def element(self, name: str, args: tuple[Expr, ...], span: Span | None) -> Expr:
        """Raises UserError E0107 for a place that says nothing of the kind, E0123 for a wrong number of arguments."""
        if name not in self.elements:
            raise fail("E0107", f"unknown function '{name}'", span, nearest(name, self.elements))
        found = self.elements[name]
        if len(found.takes) != len(args):
            wanted = f"{name} takes {len(found.takes)} argument{'s' * (len(found.takes) != 1)} ({', '.join(found.takes)})"
            raise fail("E0123", f"{wanted}, not {len(args)}", span)
        return with_words(found.expr, dict(zip(found.takes, args, strict=True)))


NOWHERE = Scene()


def scene_of(places: Iterable[Place], constants: Iterable[Constant], sized: frozenset[str] = frozenset()) -> Scene:
    """The places, constants and elements that steps of a kernel act on. sized: as in Scene."""
    places = tuple(places)
    elements = {f"{p.name}_{key}": element for p in places for key, element in p.elements.items()}
    settled = sized | {f"{p.name}_{part}" for p in places for part in ("slot", "bank", *p.names)}
    return Scene({p.name: p.memory for p in places}, frozenset(c.name for c in constants), elements, sized, settled)
