"""Runs short assembly programs on a machine, and says in plain numpy what should come out."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from toolchain.analysis.checks import check_program, prepare_program
from toolchain.analysis.interlock import program_tokens
from toolchain.analysis.order import issue_order
from toolchain.analysis.state import State, new_state
from toolchain.emulator import native, numpy_engine, reference
from toolchain.isa.assembly import assemble
from toolchain.isa.decode import decode
from toolchain.isa.program import Program
from toolchain.spec.errors import Source
from toolchain.spec.model import Machine
from toolchain.timing.simulate import Timeline, time_program

Array = NDArray[np.int64]


def execute(
    machine: Machine,
    text: str,
    images: Mapping[str, Mapping[int, NDArray[np.generic]]],
    registers: Mapping[str, Sequence[Sequence[int]]] | None = None,
    seed: int | None = None,
) -> State:
    """The state after a program on every engine, checked for hazards first.

    images: memory -> byte offset -> content, in its first instance. registers: host register -> values of every instance.
    """
    program = assemble(machine, Source("test.asm", text))
    again = decode(machine, program.streams)
    assert again.streams == program.streams
    assert len(again) == len(program)
    state = new_state(machine)
    for name, parts in images.items():
        for offset, content in parts.items():
            data = np.ascontiguousarray(content).view(np.uint8).ravel()
            state.memories[name][0, offset : offset + len(data)] = data
    for name, values in (registers or {}).items():
        state.host[name][:] = values
    assert check_program(program, state).warnings == ()
    run_everywhere(program, state, seed)
    return state


def run_everywhere(program: Program, state: State, seed: int | None = None) -> None:
    """Changes `state` as the reference engine does; every other engine must leave the same."""
    order, before = issue_order(program, seed, program_tokens(program, state)), state.copy()
    reference.run(program, state, order)
    for engine in (numpy_engine, native) if native.available() else (numpy_engine,):
        other = before.copy()
        engine.run(program, other, order)
        for name, content in state.memories.items():
            np.testing.assert_array_equal(other.memories[name], content, f"{engine.__name__}: {name}")


def read(state: State, memory: str, offset: int, shape: tuple[int, ...], kind: type[np.generic] = np.int8, instance: int = 0) -> Array:
    """An array of a memory's bytes, as int64."""
    size = int(np.prod(shape)) * np.dtype(kind).itemsize
    return state.memories[memory][instance, offset : offset + size].view(kind).reshape(shape).astype(np.int64)


def half_up(value: Array, shift: int) -> Array:
    """value / 2**shift, halves towards plus infinity."""
    return value if shift == 0 else (value + (1 << shift - 1)) >> shift


def half_even(value: Array, shift: Array | int) -> Array:
    """value / 2**shift, halves to the even neighbour."""
    amount = np.asarray(shift, np.int64)
    floor, rest, half = value >> amount, value & (1 << amount) - 1, (1 << amount) >> 1
    return floor + ((rest > half) | ((rest == half) & (amount > 0) & (floor & 1 == 1)))


def conv(
    x: Array,
    w: Array,
    stride: tuple[int, int] = (1, 1),
    pad: tuple[int, int, int, int] = (0, 0, 0, 0),
    dilation: tuple[int, int] = (1, 1),
) -> Array:
    """x [height, width, in], w [out, kh, kw, in], pad (top, bottom, left, right) -> sums [rows, columns, out]."""
    padded = np.pad(x, (pad[:2], pad[2:], (0, 0)))
    _, kh, kw, _ = w.shape
    rows = (padded.shape[0] - (kh - 1) * dilation[0] - 1) // stride[0] + 1
    columns = (padded.shape[1] - (kw - 1) * dilation[1] - 1) // stride[1] + 1
    total = np.zeros((rows, columns, w.shape[0]), np.int64)
    for a in range(kh):
        for b in range(kw):
            y, z = a * dilation[0], b * dilation[1]
            window = padded[y : y + (rows - 1) * stride[0] + 1 : stride[0], z : z + (columns - 1) * stride[1] + 1 : stride[1]]
            total += window @ w[:, a, b].T
    return total


def depthwise(x: Array, w: Array, pad: int, stride: int = 1) -> Array:
    """x [height, width, channels], w [channels, kh, kw] -> sums; the same padding on all sides."""
    full = np.zeros((w.shape[0], *w.shape[1:], w.shape[0]), np.int64)
    full[np.arange(len(w)), :, :, np.arange(len(w))] = w
    return conv(x, full, (stride, stride), (pad, pad, pad, pad))


def transposed(x: Array, w: Array, stride: int, pad: int) -> Array:
    """Every input pixel adds its kernel to the output: rows (height - 1) * stride + kh - 2 * pad."""
    height, width, _ = x.shape
    out, kh, kw, _ = w.shape
    full = np.zeros(((height - 1) * stride + kh, (width - 1) * stride + kw, out), np.int64)
    for y in range(height):
        for z in range(width):
            full[y * stride : y * stride + kh, z * stride : z * stride + kw] += np.einsum("oabi,i->abo", w, x[y, z])
    return full[pad : full.shape[0] - pad, pad : full.shape[1] - pad]


def windows(x: Array, kernel: int, stride: int, pad: int, fill: int) -> Array:
    """[rows, columns, channels, kernel * kernel] taps of a pooling window; `fill` where there is no pixel."""
    padded = np.pad(x, ((pad, pad), (pad, pad), (0, 0)), constant_values=fill)
    rows, columns = ((padded.shape[k] - kernel) // stride + 1 for k in (0, 1))
    taps = [
        padded[a : a + (rows - 1) * stride + 1 : stride, b : b + (columns - 1) * stride + 1 : stride] for a in range(kernel) for b in range(kernel)
    ]
    return np.stack(taps, -1)


def random_int8(seed: int, *shape: int, low: int = -128, high: int = 127) -> Array:
    """Repeatable numbers in [low, high]."""
    return np.random.default_rng(seed).integers(low, high + 1, shape)


def timed(program: Program) -> Timeline:
    """A program timed without its data."""
    checked = prepare_program(program, new_state(program.machine))
    return time_program(program, checked.footprints, checked.provenance, checked.tokens)


def load_golden(path: Path) -> bytes:
    """The instructions of one of VTA's golden programs."""
    return bytes(np.load(path)["insns"].tobytes())
