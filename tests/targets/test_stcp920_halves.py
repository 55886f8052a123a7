"""Instructions of STCP920 for halves: engines equal to the bit, results against direct numpy, functions within the errors that the manual states."""

import math
from collections.abc import Callable, Mapping
from functools import cache

import numpy as np
import pytest

from toolchain.analysis.order import issue_order
from toolchain.analysis.state import State, new_state
from toolchain.emulator import native, numpy_engine, reference
from toolchain.isa.checks import build_program
from toolchain.isa.program import Ints, Program
from toolchain.operations.float_stages import bits_of_held, evaluate_halves, held_of_bits, rounded
from toolchain.operations.floating import Bounds
from toolchain.operations.library import kinds_of
from toolchain.operations.operation import make_operation
from toolchain.schedule.kernels.kernel_file import load_kernels
from toolchain.schedule.kernels.problem import state_problem
from toolchain.spec.errors import UserError
from toolchain.spec.load import load_machine
from toolchain.spec.model import Machine

Fields = dict[str, int]
Engine = Callable[[Program, State, Ints], None]
ENGINES: tuple[Engine, ...] = (numpy_engine.run, native.run) if native.available() else (numpy_engine.run,)
Array = np.ndarray
WINDOW = {"kernel_h": 3, "kernel_w": 2, "in_rows": 4, "in_width": 4, "pad_top": 1, "pad_left": 1}
PAIR = {
    "rows": 2, "width": 3, "groups": 2, "b": 30, "target": 64,
    "a_row": 12, "b_row": 12, "target_row": 12, "a_pixel": 4, "b_pixel": 4, "target_pixel": 4,
}  # fmt: skip
ROWS: dict[str, Fields] = {
    "HMMA": {
        **WINDOW,
        "kernel_w": 1,
        "kernel_h": 2,
        "width": 2,
        "groups": 2,
        "in_groups": 2,
        "source_row": 16,
        "source_pixel": 4,
        "weight": 256,
        "group_jump": 256,
    },
    "HDWCONV": {**WINDOW, "rows": 2, "width": 3, "groups": 2, "source_row": 16, "source_pixel": 4, "weight": 256},
    "NARROW": {"rows": 2, "width": 3, "groups": 2, "params": 200, "target": 64, "target_pixel": 4, "target_row": 12},
    "HADD": PAIR,
    "HMUL": {**PAIR, "b_row": 0, "b_pixel": 0},
    "HPLACE": {**PAIR, "rows": 40, "width": 1, "a": 400, "b_row": 0, "flags": 200, "target": 1000},
    "HPOOL": {
        **WINDOW,
        "rows": 2,
        "width": 3,
        "groups": 2,
        "source_row": 16,
        "source_pixel": 4,
        "target": 64,
        "target_pixel": 4,
        "target_row": 12,
        "multiplier": 6,
    },
    "HSOFTMAX": {
        "rows": 2,
        "width": 3,
        "groups": 2,
        "target": 64,
        "source_row": 12,
        "source_pixel": 4,
        "target_row": 12,
        "target_pixel": 4,
        "mask": 30,
        "channels": 64,
    },
    "HNORM": {
        "rows": 2,
        "width": 3,
        "groups": 2,
        "target": 64,
        "source_row": 12,
        "source_pixel": 4,
        "target_row": 12,
        "target_pixel": 4,
        "params": 200,
        "channels": 64,
    },
    "HTURN": {
        "rows": 2,
        "width": 3,
        "lines": 2,
        "target": 64,
        "source_row": 12,
        "source_pixel": 4,
        "target_row": 12,
        "target_pixel": 4,
        "cosine": 200,
        "sine": 210,
        "table_row": 2,
    },
    "HLOADT": {"space": 1, "rows": 2, "width": 2, "local": 256, "local_row": 64, "local_pixel": 128, "remote_row": 128, "remote_pixel": 2, "step": 4},
    "HFUNC": {"rows": 2, "width": 3, "groups": 2, "target": 64, "source_row": 12, "source_pixel": 4, "target_row": 12, "target_pixel": 4},
}
VARIANTS: list[tuple[str, Fields]] = [
    ("HMMA", {}), ("HMMA", {"accumulate": 1, "dilation_h": 2, "stride_w": 2}), ("HDWCONV", {}), ("HDWCONV", {"accumulate": 1}), ("NARROW", {}),
    ("HADD", {}), ("HADD", {"relu": 1}), ("HMUL", {}), ("HMUL", {"relu": 1}), ("HPLACE", {}), ("HPLACE", {"target": 400}),
    ("HPOOL", {"kind": 0}), ("HPOOL", {"kind": 1}),
    *(("HFUNC", {"function": number}) for number in range(6)),
    ("NARROW", {"plain": 1}), ("HSOFTMAX", {"factor": 0x3E3504F3}), ("HSOFTMAX", {"masked": 1}),
    ("HSOFTMAX", {"channels": 51}), ("HSOFTMAX", {"masked": 1, "channels": 33}), ("HSOFTMAX", {"masked": 1, "mask_row": 4}),
    ("HSOFTMAX", {"channels": 7}),
    ("HNORM", {}), ("HNORM", {"centred": 0}),
    ("HTURN", {}), ("HTURN", {"neighbours": 1}), ("HTURN", {"lines": 1, "rest": 2}), ("HTURN", {"lines": 1, "rest": 2, "neighbours": 1}),
    ("HTURN", {"target": 0}), ("HTURN", {"target": 0, "neighbours": 1}),
    ("HLOADT", {}), ("HLOADT", {"space": 2}), ("HLOADT", {"columns": 51}), ("HLOADT", {"space": 2, "columns": 3}),
]  # fmt: skip
SPECIAL = np.array([0, 1, 2, 0x3FF, 0x400, 0x3800, 0x3C00, 0x7BFF, 0x7C00, 0x7C01, 0x7E00, 0x7FFF], np.uint16)
"""Halves without signs: zero, subnormals, the least normal one, 1/2, 1, the greatest, infinity, NaNs signalling and quiet."""
ERRORS = {"relu": 0.0, "sigmoid": 1.21, "tanh": 0.5, "gelu": 1.3, "silu": 1.98, "hard_swish": 0.51}


@cache
def machine(form: str = "f16") -> Machine:
    return load_machine("stcp920", form, {"LOG_DDR": "20", "LOG_LLB": "16", "CLUSTERS": "1", "CORES": "1", "L1_KIB": "512"})


def program_of(name: str, given: Mapping[str, int], form: str = "f16") -> Program:
    """One instruction; fields that are not given have their defaults."""
    found = [i.name for i in machine(form).instructions].index(name)
    columns = [
        {f.name: np.array([given.get(f.name, f.default or max(f.minus, 0))] if k == found else [], np.int64) for f in i.fields}
        for k, i in enumerate(machine(form).instructions)
    ]
    return build_program(machine(form), [b""], np.array([found]), np.zeros(1, np.int64), np.zeros(1, np.int64), tuple(columns))


def state_of(seed: int, specials: float) -> State:
    """Halves in l1, floats in sums: ordinary numbers of many sizes, and a share of special ones."""
    return drawn(seed, specials).copy()


@cache
def drawn(seed: int, specials: float) -> State:
    state, rng = new_state(machine()), np.random.default_rng(seed)
    for name, kind in (("l1", np.float16), ("sums", np.float32), ("llb", np.float16)):
        words = state.memories[name].view(kind)
        sizes = 2.0 ** rng.integers(-14 if specials else -2, 3, words.shape)
        words[:] = (rng.normal(0, 1, words.shape) * sizes).astype(kind)
        special = rng.choice(SPECIAL, words.shape) | rng.integers(0, 2, words.shape, np.uint16) << np.uint16(15)
        bits = words.view(f"u{words.itemsize}")
        bits[:] = np.where(rng.random(words.shape) < specials, special.astype(bits.dtype) << (8 * words.itemsize - 16), bits)
    return state


def after(engine: Engine, program: Program, seed: int, specials: float) -> State:
    state = state_of(seed, specials)
    engine(program, state, issue_order(program))
    return state


@pytest.mark.drawn(18)
@pytest.mark.parametrize("specials", [pytest.param(0.0, marks=pytest.mark.nightly), 0.01, 0.3])
@pytest.mark.parametrize(("name", "more"), VARIANTS, ids=[f"{n}-{'-'.join(map(str, m.values()))}" for n, m in VARIANTS])
def test_engines_agree_to_the_bit(name: str, more: Fields, specials: float) -> None:
    program = program_of(name, ROWS[name] | more)
    expected, before = after(reference.run, program, 7, specials), state_of(7, specials)
    assert any(not np.array_equal(expected.memories[m], before.memories[m]) for m in ("l1", "sums"))
    for engine in ENGINES:
        found = after(engine, program, 7, specials)
        assert [m for m in expected.memories if not np.array_equal(expected.memories[m], found.memories[m])] == []


def briefs(seed: int, specials: float) -> State:
    """bf16 in l1 and llb, ordinary numbers and a share of any bits; floats in sums."""
    state, rng = new_state(machine("bf16")), np.random.default_rng(seed)
    state.memories["sums"].view(np.float32)[:] = rng.normal(0, 1, state.memories["sums"].view(np.float32).shape)
    for name in ("l1", "llb"):
        words = state.memories[name].view(np.uint16)
        numbers = rounded(rng.normal(0, 1, words.shape) * 2.0 ** rng.integers(-8, 3, words.shape), "bf16")
        words[:] = np.where(rng.random(words.shape) < specials, rng.integers(0, 1 << 16, words.shape), bits_of_held(numbers).view(np.uint16))
    return state


@pytest.mark.parametrize(("name", "more"), VARIANTS[::2], ids=[f"{n}-{'-'.join(map(str, m.values()))}" for n, m in VARIANTS[::2]])
def test_engines_agree_to_the_bit_in_bf16(name: str, more: Fields) -> None:
    program, start = program_of(name, ROWS[name] | more, "bf16"), cached_briefs(7, 0.2)
    states = [start.copy() for _ in (reference.run, *ENGINES)]
    for engine, state in zip((reference.run, *ENGINES), states, strict=True):
        engine(program, state, issue_order(program))
    assert any(not np.array_equal(states[0].memories[m], start.memories[m]) for m in ("l1", "sums"))
    for state in states[1:]:
        assert [m for m in start.memories if not np.array_equal(states[0].memories[m], state.memories[m])] == []


def test_products_in_bf16_are_rounded_once() -> None:
    state = cached_briefs(7, 0.0).copy()
    ENGINES[-1](program := program_of("HMUL", ROWS["HMUL"], "bf16"), state, issue_order(program))
    for pixel in range(6):
        a, b, y = (brief_numbers(state, line, 64) for line in (pixel * 4, 30, 64 + pixel * 4))
        assert np.array_equal(y, rounded(a * b, "bf16"))


@cache
def cached_briefs(seed: int, specials: float) -> State:
    return briefs(seed, specials)


def brief_numbers(state: State, line: int, count: int) -> Array:
    return held_of_bits(state.memories["l1"][0, line * 32 : line * 32 + count * 2].view(np.int16), "bf16")


def halves(state: State, line: int, count: int) -> Array:
    return state.memories["l1"][0, line * 32 : line * 32 + count * 2].view(np.float16).astype(np.float32)


def test_products_are_added_in_the_order_of_the_text() -> None:
    """The pixel in the middle of 1 x 1 windows: 32 products in order, then to the sum."""
    fields = {"rows": 1, "width": 3, "in_groups": 3, "in_rows": 1, "in_width": 3, "kernel_h": 1, "kernel_w": 1, "source_pixel": 6, "weight": 256}
    state = after(ENGINES[-1], program_of("HMMA", fields), 3, 0.0)
    expected = np.zeros(32, np.float32)
    for group in range(3):
        x = halves(state, 6 + group * 2, 32)
        w = halves(state, 256 + group * 64, 1024).reshape(32, 32)
        total = x[0] * w[:, 0]
        for c in range(1, 32):
            total = total + x[c] * w[:, c]
        expected = expected + total
    sums = state.memories["sums"][0].view(np.float32)[32:64]
    assert np.array_equal(sums, expected)


def test_a_product_may_take_one_pixel_for_all() -> None:
    state = after(ENGINES[-1], program_of("HMUL", ROWS["HMUL"]), 5, 0.0)
    for pixel in range(6):
        expected = (halves(state, pixel * 4, 64) * halves(state, 30, 64)).astype(np.float16)
        assert np.array_equal(halves(state, 64 + pixel * 4, 64), expected.astype(np.float32))


def test_a_row_stands_where_a_flag_is_above_zero() -> None:
    """Forty rows of 64 channels, whose flags stand along the channels of two blocks."""
    state = after(ENGINES[-1], program_of("HPLACE", ROWS["HPLACE"]), 5, 0.0)
    flags, new = halves(state, 200, 64), halves(state, 30, 64)
    for row in range(40):
        old = halves(state, 400 + row * 12, 64)
        assert np.array_equal(halves(state, 1000 + row * 12, 64), new if flags[row] > 0 else old)
    assert 0 < (flags[:40] > 0).sum() < 40


@pytest.mark.parametrize("neighbours", [0, 1])
@pytest.mark.parametrize("lines", [1, 2])
def test_pairs_turn_by_the_angles_of_their_row(lines: int, neighbours: int) -> None:
    """Two rows of three heads of 64 channels, all or the first 32 of them turned: two products and a sum, rounded once to halves."""
    fields = {"lines": lines, "rest": 4 - 2 * lines, "neighbours": neighbours}
    state, turned = after(ENGINES[-1], program_of("HTURN", ROWS["HTURN"] | fields), 5, 0.0), 32 * lines
    for row in range(2):
        cos, sin = (halves(state, table + row * 2, 16 * lines) for table in (200, 210))
        for head in range(3):
            x, y = (halves(state, at + row * 12 + head * 4, 64) for at in (0, 64))
            a, b = (x[:turned:2], x[1:turned:2]) if neighbours else (x[: turned // 2], x[turned // 2 : turned])
            c, d = (y[:turned:2], y[1:turned:2]) if neighbours else (y[: turned // 2], y[turned // 2 : turned])
            assert np.array_equal(c, (a * cos - b * sin).astype(np.float16).astype(np.float32))
            assert np.array_equal(d, (b * cos + a * sin).astype(np.float16).astype(np.float32))
            assert np.array_equal(x[turned:], y[turned:])


def truth(name: str, x: Array) -> Array:
    """In float64, of numbers."""
    small = np.exp(-np.abs(x))
    sigmoid = np.where(x >= 0, 1, small) / (1 + small)
    functions = {
        "relu": np.maximum(x, 0), "sigmoid": sigmoid, "tanh": np.tanh(x), "silu": x * sigmoid, "hard_swish": x * np.clip(x + 3, 0, 6) / 6,
        "gelu": x / 2 * np.array([math.erfc(-v / math.sqrt(2)) for v in x.tolist()]),
    }  # fmt: skip
    return functions[name]


@pytest.mark.parametrize("name", list(ERRORS))
def test_functions_keep_to_the_errors_of_the_manual(name: str) -> None:
    """Over all halves; infinities give limits, NaN the one NaN."""
    codes, number = np.arange(1 << 16).astype(np.uint16), machine().instruction["HFUNC"].field("function").names[name]
    program = program_of("HFUNC", {"function": number, "width": 2048, "target": 8192, "source_pixel": 2, "target_pixel": 2})
    state = new_state(machine())
    state.memories["l1"][0, : 1 << 17] = codes.view(np.uint8)
    ENGINES[-1](program, state, issue_order(program))
    found = state.memories["l1"][0, 8192 * 32 : 8192 * 32 + (1 << 17)].view(np.float16)
    x = codes.view(np.float16).astype(np.float64)
    numbers = np.isfinite(x)
    expected = truth(name, x[numbers])
    units = 2.0 ** (np.floor(np.log2(np.maximum(np.abs(expected), 2.0**-14))) - 10)
    worst = float((np.abs(found[numbers] - expected) / units).max())
    assert ERRORS[name] - 0.02 < worst <= ERRORS[name]
    assert f"{name} {ERRORS[name]:g}" in machine().instruction["HFUNC"].doc
    assert (found[np.isnan(x)].view(np.uint16) == 0x7E00).all()
    ends = {"sigmoid": (0.0, 1.0), "tanh": (-1.0, 1.0)}.get(name, (0.0, np.inf))
    assert (found[codes == 0xFC00][0], found[codes == 0x7C00][0]) == ends


def test_functions_are_the_stages_of_their_operations_on_every_half() -> None:
    """The instruction by an engine, the operation's own description by numpy."""
    every, kinds = np.arange(1 << 16, dtype=np.uint16).view(np.float16), kinds_of(machine())
    for number, name in ((1, "sigmoid"), (2, "tanh"), (3, "gelu"), (4, "silu"), (5, "hard_swish")):
        fields = {"function": number, "rows": 512, "width": 4, "source_row": 8, "source_pixel": 2, "target": 4096, "target_row": 8, "target_pixel": 2}
        state, program = new_state(machine()), program_of("HFUNC", fields)
        state.memories["l1"].view(np.float16).ravel()[: every.size] = every
        ENGINES[-1](program, state, issue_order(program))
        found = state.memories["l1"].view(np.uint16).ravel()[4096 * 16 : 4096 * 16 + every.size]
        numbers = {"batch": 1, "channels": 32, "height": 512, "width": 4}
        wanted = evaluate_halves(kinds[name], numbers, {"x": every.reshape(1, 512, 4, 32).transpose(0, 3, 1, 2)})
        np.testing.assert_array_equal(found, wanted.transpose(0, 2, 3, 1).ravel().view(np.uint16), name)


@pytest.mark.parametrize("name", ["multiply_halves", "multiply_channels_halves", "matmul"])
def test_products_know_no_leaky_activation(name: str) -> None:
    kernel = load_kernels(machine())[name]
    pictures = {"x": (1, 32, 32, 1), "z": (1, 32, 1 if "channels" in name else 32, 1)}
    for slope in (0.0, 0.25):
        bounds = Bounds(slope=slope) if slope else Bounds()
        operation = make_operation(kinds_of(machine())[kernel.computes], "product", pictures, {}, bounds.numbers)
        if not slope:
            state_problem(machine(), kernel, operation)
            continue
        with pytest.raises(UserError, match="there is no leaky activation"):
            state_problem(machine(), kernel, operation)
