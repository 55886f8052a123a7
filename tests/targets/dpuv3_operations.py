"""Operations of every kind, compiled for dpuv3 and run there, against the integer reference."""

from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toolchain.analysis.checks import check_program
from toolchain.analysis.order import issue_order
from toolchain.emulator import engine_named
from toolchain.operations.operation import Operation
from toolchain.schedule.compile_operation import TimedOperation, compile_operation
from toolchain.schedule.kernels.kernel import Kernel
from toolchain.schedule.kernels.kernel_file import load_kernel
from toolchain.spec.load import load_machine
from toolchain.spec.model import Machine
from toolchain.spec.model.quantisation import Numerics, Range

Array = NDArray[Any]
BYTE = Range(-128, 127)
NUMERICS = Numerics(BYTE, BYTE, Range(-(2**30), 2**30 - 1), "power_of_two", "half_up", Range(0, 31), order="activation_first")


@cache
def machine(config: str = "", lowest: int = -128) -> Machine:
    return load_machine("dpuv3", config, {"LOG_DDR": "24", "LOWEST": str(lowest)})


@cache
def kernel(kind: str, config: str = "", lowest: int = -128) -> Kernel:
    return load_kernel(machine(config, lowest), kind)


def compiled(operation: Operation, contexts: int = 2, timed: int = 1, lowest: int = -128) -> TimedOperation:
    return compile_operation(machine(lowest=lowest), kernel(operation.kind.name, lowest=lowest), operation, contexts, timed)


def inputs(operation: Operation, seed: int = 1) -> dict[str, Array]:
    """Tensors [batch, channels, height, width] of random values for what the operation reads."""
    rng = np.random.default_rng(seed)
    return {name: rng.integers(-128, 128, operation.input(name)).astype(np.int8) for name in operation.kind.data}


def expected(operation: Operation, given: Mapping[str, Array]) -> Array:
    """What the integer reference computes."""
    return operation.run(given, NUMERICS)


def result(choice: TimedOperation, given: Mapping[str, Array], engine: str = "fast", seed: int | None = None) -> Array:
    """What the machine computes, after its checks; in the usual order of issue, or in a random one."""
    state = choice.compiled.state(**{name: value.transpose(0, 2, 3, 1) for name, value in given.items()})
    checked = check_program(choice.compiled.program, state)
    assert not checked.warnings
    order = checked.order if seed is None else issue_order(choice.compiled.program, seed)
    engine_named(engine)(choice.compiled.program, state, order)
    return choice.compiled.result(state, "y").transpose(0, 3, 1, 2)


def assert_exact(operation: Operation, contexts: int = 2, seed: int = 1, lowest: int = -128) -> TimedOperation:
    """Compiled, run and compared."""
    choice, given = compiled(operation, contexts, lowest=lowest), inputs(operation, seed)
    np.testing.assert_array_equal(result(choice, given), expected(operation, given))
    return choice
