"""Matrix products of an instruction as fast C."""

from collections.abc import Callable

from toolchain.emulator.native.function import Function
from toolchain.isa import ir


class Products:
    def tables(self) -> str:
        return ""

    def finder(self, function: Function) -> Callable[[ir.Stmt], list[str] | None]:
        return lambda _: None
