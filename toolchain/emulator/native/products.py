"""Chooses the matrix products of a machine that get fast C, and collects the functions they need."""

from collections.abc import Callable
from dataclasses import dataclass, field

from toolchain.emulator.native.accumulate import accumulate_functions, accumulate_lines, can_accumulate
from toolchain.emulator.native.function import Function
from toolchain.emulator.native.packing import factors, packing_functions
from toolchain.emulator.native.statements import Instead, statement
from toolchain.emulator.native.window import can_window, window_functions, window_lines
from toolchain.isa.semantics import ir
from toolchain.isa.semantics.contraction import Contraction, find_contractions


@dataclass
class Products:
    """The products found so far in a machine."""

    count: int = 0
    texts: list[str] = field(default_factory=list[str])

    def tables(self) -> str:
        """C that stands before the instructions' functions."""
        return "\n".join(self.texts)

    def finder(self, function: Function) -> Instead:
        """C for loops that are matrix products: fast where the sizes at run time allow, as written otherwise."""
        found = () if function.apart else find_contractions(function.machine, function.semantics)
        lines = {id(c.loop): made for c in found if (made := self._lines(function, c))}

        def instead(stmt: ir.Stmt) -> list[str] | None:
            return lines.get(id(stmt))

        return instead

    def _lines(self, function: Function, c: Contraction) -> list[str] | None:
        f = factors(c, function.semantics.lanes, self.count)
        if f is None:
            return None
        plain = statement(function, c.loop, _nothing)
        makers: tuple[tuple[Callable[..., bool], Callable[..., list[str]], Callable[..., list[str]]], ...] = (
            (can_window, window_functions, window_lines),
            (can_accumulate, accumulate_functions, accumulate_lines),
        )
        for able, functions, write in makers:
            if able(function, c, f):
                self.count += 1
                self.texts += [*packing_functions(f), *functions(function, c, f)]
                return write(function, c, f, plain)
        return None


def _nothing(_: ir.Stmt) -> None:
    return None
