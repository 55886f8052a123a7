"""The parts of a fusion pattern."""

from dataclasses import dataclass

ANY = "any"
"""Stands for every operator."""


@dataclass(frozen=True)
class Tensor:
    """Binds one tensor to a name, or the rest of them (`many`); `*` binds nothing."""

    name: str
    optional: bool = False
    many: bool = False


@dataclass(frozen=True)
class Pattern:
    """operators: alternatives; `any` matches all. alternatives: patterns tried in turn in place of this one."""

    operators: tuple[str, ...] = ()
    role: str = ""
    optional: bool = False
    commutes: bool = False
    inputs: tuple["Pattern | Tensor", ...] = ()
    alternatives: tuple["Pattern", ...] = ()

    @property
    def size(self) -> int:
        """Nodes that it can take."""
        inner = sum(part.size for part in self.inputs if isinstance(part, Pattern))
        return bool(self.operators) + inner + max((part.size for part in self.alternatives), default=0)
