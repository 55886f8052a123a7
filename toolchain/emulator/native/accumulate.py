from toolchain.emulator.native.function import Function
from toolchain.emulator.native.packing import Factors
from toolchain.isa.contraction import Contraction


def can_accumulate(function: Function, c: Contraction, f: Factors) -> bool:
    return False


def accumulate_functions(function: Function, c: Contraction, f: Factors) -> list[str]:
    return []


def accumulate_lines(function: Function, c: Contraction, f: Factors, plain: list[str]) -> list[str]:
    return plain
