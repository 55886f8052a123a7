"""DNNVM programs against direct numpy, and its geometry against the vendor's table."""

import csv
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from tests.target_runs import Array, conv, depthwise, execute, half_up, random_int8, read, transposed, windows
from toolchain.analysis.state import State
from toolchain.spec.errors import UserError
from toolchain.spec.load import load_machine
from toolchain.spec.model import Machine

GEOMETRY = Path(__file__).resolve().parents[1] / "data" / "dpu_target_geometry.csv"
ROWS = [row for row in csv.DictReader(GEOMETRY.read_text().splitlines()) if row["target"].startswith("DPUCZDX8G")]
X, W, B, Y = 0x0, 0x8000, 0x20000, 0x21000
BASES = [[X, Y, 0x30000, W]]
STREAM_END = "END wait=00010"


@cache
def machine(config: str = "zu2") -> Machine:
    return load_machine("dnnvm", config, {"LOG_DDR": "20"})


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["target"][15:].lower())
def test_memories_have_the_published_sizes(row: dict[str, str]) -> None:
    found = load_machine("dnnvm", row["target"][15:].lower())
    kib = {m.name: m.bytes / 1024 for m in found.memories}
    assert kib["features"] == float(row["feature_KiB"])
    assert kib["weights"] == float(row["weight_KiB"])
    on_chip = sum(m.bytes for m in found.memories if m.kind == "scratchpad")
    assert on_chip == float(row["total_KiB"]) * 1024
    names = ("ROWS", "IC", "OC", "POOL_ROWS")
    assert [found.params[n] for n in names] == [int(row[k]) for k in ("rows_parallel", "ic_parallel", "oc_parallel", "pool_rows")]


def test_a_core_of_the_large_device_runs_its_own_program() -> None:
    assert load_machine("dnnvm", "zu9").streams == 3
    assert load_machine("dnnvm", "zu2").streams == 1


def tile(x: Array, address: int, bank: int, lanes: int) -> str:
    """Loads or saves features of [height, width, channels] with dense rows; every bank row holds width * groups words."""
    height, width, channels = x.shape
    groups = channels // lanes
    return (
        f"bank={bank} address={address} row_jump={width * groups} pixel_jump={groups} rows={height} width={width} groups={groups}"
        f" ddr_row_stride={width * channels} ddr_pixel_stride={channels}"
    )


def geometry(x: Array, y: Array, lanes: int, bank: int = 0, out_bank: int = 4) -> str:
    """Fields that CONV and POOL share, for dense tiles that start at address 0 of two bank groups."""
    (in_rows, in_width, channels), (rows, width, out) = x.shape, y.shape
    ig, og = channels // lanes, out // lanes
    return (
        f"in_bank={bank} in_address=0 in_row_jump={in_width * ig} in_pixel_jump={ig} in_rows={in_rows} in_width={in_width}"
        f" out_bank={out_bank} out_address=0 out_row_jump={width * og} out_pixel_jump={og} rows={rows} width={width}"
    )


def packed(w: Array, lanes: int) -> Array:
    """[out, kh, kw, in] as tiles [out groups, kh, kw, in groups, lanes, lanes]."""
    out, kh, kw, channels = w.shape
    return w.reshape(out // lanes, lanes, kh, kw, channels // lanes, lanes).transpose(0, 2, 3, 4, 1, 5)


def run_conv(config: str, mnemonic: str, x: Array, weights: Array, bias: Array, y: Array, fields: str, weight_memory: str = "weights") -> Array:
    """Loads, convolves and saves with every dependency spelt out; the saved tile."""
    chip = machine(config)
    lanes, group = chip.params["IC"], chip.params["ROWS"]
    tiles = weights.size // (lanes * lanes if weight_memory == "weights" else lanes)
    text = f"""
        LOAD reg=input ddr_address=0 {tile(x, 0, 0, lanes)}
        LOAD memory={weight_memory} reg=params ddr_address=0 address=3 width={tiles}
        LOAD memory=bias reg=params ddr_address={B - W} address=5 width={bias.size // lanes} post=00100
        {mnemonic} wait=00001 {geometry(x, y, lanes, 0, group)} weight_address=3 bias_address=5 {fields} post=00010
        SAVE wait=00100 reg=result ddr_address=0 {tile(y, 0, group, lanes)} post=00010
        {STREAM_END}
    """
    state = execute(chip, text, {"ddr": {X: x.astype(np.int8), W: weights.astype(np.int8), B: bias.astype(np.int8)}}, {"base": BASES * chip.streams})
    return read(state, "ddr", Y, y.shape)


def finished(total: Array, bias: Array, shift_bias: int, shift_cut: int, kind: str = "none", limit: int = 127) -> Array:
    """Bias, non-linearity, one rounding, saturation."""
    total = total + (bias << shift_bias)
    if kind == "leaky":
        scaled = half_up(np.where(total < 0, total * 26, total * 256), shift_cut + 8)
    else:
        scaled = half_up(total if kind == "none" else np.maximum(total, 0), shift_cut)
    return np.minimum(np.clip(scaled, -128, 127), limit if kind == "relu6" else 127)


@pytest.mark.parametrize(
    ("stride", "dilation", "pad", "kind"),
    [((1, 1), (1, 1), 1, "none"), ((2, 1), (1, 1), 1, "relu"), ((1, 2), (2, 1), 2, "leaky"), ((2, 2), (1, 2), 0, "relu6")],
)
def test_convolution(stride: tuple[int, int], dilation: tuple[int, int], pad: int, kind: str) -> None:
    x, w, bias = random_int8(1, 7, 6, 24), random_int8(2, 24, 3, 3, 24), random_int8(3, 24)
    expected = finished(conv(x, w, stride, (pad,) * 4, dilation), bias, 5, 9, kind, 96)
    assert len(np.unique(expected)) > 15
    fields = (
        f"in_groups=2 out_groups=2 kernel_h=3 kernel_w=3 stride_h={stride[0]} stride_w={stride[1]} dilation_h={dilation[0]} dilation_w={dilation[1]}"
        f" pad_top={pad} pad_left={pad} shift_bias=5 shift_cut=9 nonlinear={kind} limit=96"
    )
    found = run_conv("zu2", "CONV", x, packed(w, 12), bias, expected, fields)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(("config", "lanes", "memory"), [("zu2", 12, "weights"), ("b1024_max", 8, "taps")])
def test_depthwise_convolution(config: str, lanes: int, memory: str) -> None:
    channels = 2 * lanes
    x, w, bias = random_int8(4, 6, 5, channels), random_int8(5, channels, 3, 3), random_int8(6, channels)
    expected = finished(depthwise(x, w, 1), bias, 4, 8, "relu")
    taps = w.reshape(2, lanes, 3, 3).transpose(0, 2, 3, 1).reshape(-1, lanes)
    if memory == "weights":
        taps = np.pad(taps, ((0, -len(taps) % lanes), (0, 0)))
    fields = "in_groups=2 out_groups=2 kernel_h=3 kernel_w=3 pad_top=1 pad_left=1 shift_bias=4 shift_cut=8 nonlinear=relu"
    found = run_conv(config, "DWCONV", x, taps, bias, expected, fields, memory)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(("kernel", "stride", "pad"), [(2, 2, 0), (4, 2, 1), (3, 2, 1), (3, 1, 1)])
def test_transposed_convolution(kernel: int, stride: int, pad: int) -> None:
    x, w, bias = random_int8(7, 4, 3, 12), random_int8(8, 24, kernel, kernel, 12), random_int8(9, 24)
    expected = finished(transposed(x, w, stride, pad), bias, 4, 8)
    fields = (
        f"in_groups=1 out_groups=2 kernel_h={kernel} kernel_w={kernel} stride_h={stride} stride_w={stride} pad_top={pad} pad_left={pad}"
        " shift_bias=4 shift_cut=8"
    )
    found = run_conv("zu2", "TCONV", x, packed(w, 12), bias, expected, fields)
    np.testing.assert_array_equal(found, expected)


def run_pool(x: Array, y: Array, fields: str) -> Array:
    text = f"""
        LOAD reg=input ddr_address=0 {tile(x, 0, 0, 12)} post=01000
        POOL wait=00001 {geometry(x, y, 12)} groups={x.shape[2] // 12} {fields} post=00010
        SAVE wait=01000 reg=result ddr_address=0 {tile(y, 0, 4, 12)} post=00010
        {STREAM_END}
    """
    return read(execute(machine(), text, {"ddr": {X: x.astype(np.int8)}}, {"base": BASES}), "ddr", Y, y.shape)


def test_max_pooling_leaves_padding_out() -> None:
    x = random_int8(10, 7, 7, 24, high=-1)
    expected = windows(x, 3, 2, 1, -1000).max(-1)
    found = run_pool(x, expected, "kind=max kernel_h=3 kernel_w=3 stride_h=2 stride_w=2 pad_top=1 pad_left=1")
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(("kernel", "multiplier", "shift", "pad"), [(7, 21, 10, 0), (3, 7, 6, 1), (2, 1, 2, 0)])
def test_average_pooling_multiplies_and_shifts(kernel: int, multiplier: int, shift: int, pad: int) -> None:
    x = random_int8(11, 7, 7, 12)
    expected = np.clip(half_up(windows(x, kernel, 1, pad, 0).sum(-1) * multiplier, shift), -128, 127)
    fields = (
        f"kind=average kernel_h={kernel} kernel_w={kernel} stride_h=1 stride_w=1 pad_top={pad} pad_left={pad} multiplier={multiplier} shift={shift}"
    )
    np.testing.assert_array_equal(run_pool(x, expected, fields), expected)


def test_addition_in_place_aligns_its_operands() -> None:
    a, b = random_int8(12, 5, 4, 12), random_int8(13, 5, 4, 12)
    text = f"""
        LOAD reg=input ddr_address=0 {tile(a, 0, 0, 12)}
        LOAD reg=input ddr_address=4096 {tile(b, 100, 0, 12)} post=10000
        ADD wait=00001 a_bank=0 a_address=0 a_row_jump=4 a_pixel_jump=1 b_bank=0 b_address=100 b_row_jump=4 b_pixel_jump=1 \
out_bank=0 out_address=0 out_row_jump=4 out_pixel_jump=1 rows=5 width=4 groups=1 shift_a=2 shift_b=0 shift_cut=1 nonlinear=relu post=00010
        SAVE wait=10000 reg=result ddr_address=0 {tile(a, 0, 0, 12)} post=00010
        {STREAM_END}
    """
    state = execute(machine(), text, {"ddr": {X: a.astype(np.int8), 4096: b.astype(np.int8)}}, {"base": BASES})
    expected = np.clip(half_up(np.maximum((a << 2) + b, 0), 1), -128, 127)
    np.testing.assert_array_equal(read(state, "ddr", Y, a.shape), expected)


def test_a_copy_upsamples_and_strided_saves_concatenate() -> None:
    x = random_int8(14, 3, 3, 12)
    text = f"""
        LOAD reg=input ddr_address=0 {tile(x, 0, 0, 12)} post=10000
        COPY wait=00001 in_bank=0 in_address=0 in_row_jump=3 in_pixel_jump=1 out_bank=4 out_address=0 out_row_jump=6 out_pixel_jump=1 \
rows=6 width=6 groups=1 repeat_h=2 repeat_w=2 post=00010
        SAVE wait=10000 reg=result ddr_address=12 bank=4 address=0 row_jump=6 rows=6 width=6 ddr_row_stride=144 ddr_pixel_stride=24 post=00010
        {STREAM_END}
    """
    state = execute(machine(), text, {"ddr": {X: x.astype(np.int8)}}, {"base": BASES})
    found = read(state, "ddr", Y, (6, 6, 24))
    np.testing.assert_array_equal(found[:, :, 12:], x.repeat(2, 0).repeat(2, 1))
    assert not found[:, :, :12].any()


def test_three_cores_share_the_ddr_and_nothing_else() -> None:
    chip = machine("zu9")
    text = ""
    for core in range(3):
        text += f"""
            .stream {core}
            LOAD reg=input ddr_address=0 bank=1 address=7 width=4 post=00010
            SAVE wait=00001 reg=result ddr_address=0 bank=1 address=7 width=4 post=00010
            {STREAM_END}
        """.replace("width=4", "width=4 ddr_pixel_stride=16")
    x = random_int8(15, 3, 64)
    bases = [[64 * core, Y + 64 * core, 0, 0] for core in range(3)]
    state: State = execute(chip, text, {"ddr": {X: x.astype(np.int8)}}, {"base": bases}, seed=5)
    np.testing.assert_array_equal(read(state, "ddr", Y, (3, 64)), x)
    for core in range(3):
        np.testing.assert_array_equal(read(state, "features", (2048 + 7) * 16, (64,), instance=core), x[core])


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("SAVE memory=weights reg=result ddr_address=0 address=0 width=1", "only features can be saved"),
        ("LOAD reg=input ddr_address=0 bank=8 address=0 width=1", "there are fewer banks"),
        ("LOAD memory=taps reg=params ddr_address=0 address=0 width=1", "no memory for depthwise weights"),
    ],
)
def test_what_the_hardware_lacks_is_refused(line: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        execute(machine(), f"{line}\nEND", {})
