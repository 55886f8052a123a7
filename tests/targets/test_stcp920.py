"""STCP920 programs of one core and of many against direct numpy."""

from functools import cache

import numpy as np
import pytest

from tests.target_runs import Array, conv, depthwise, execute, half_even, random_int8, read, windows
from toolchain.analysis.checks import check_program
from toolchain.analysis.state import new_state
from toolchain.isa.assembly import assemble
from toolchain.spec.errors import Source, UserError
from toolchain.spec.load import load_machine
from toolchain.spec.model import Machine

LINE = 32
X, W, P, Y = 0x0, 0x400, 0x1000, 0x2000
"""Lines of DDR."""


@cache
def machine(clusters: int = 1, cores: int = 1, config: str = "paper") -> Machine:
    return load_machine("stcp920", config, {"LOG_DDR": "20", "LOG_LLB": "16", "CLUSTERS": str(clusters), "CORES": str(cores)})


def test_the_device_is_what_the_papers_say() -> None:
    paper, sheet = load_machine("stcp920"), load_machine("stcp920:datasheet")
    assert paper.streams == sheet.streams == 32
    sizes = {m.name: (m.bytes, paper.instances(m.scope)) for m in paper.memories}
    assert (sizes["llb"], sizes["l1"]) == ((8 << 20, 4), (64 << 10, 32))
    assert sheet.memory["l1"].bytes == 1280 << 10
    ports = {r.name: r.policy for r in paper.timing.resources}
    assert ports == {"ddr_port": "fair", "llb_port": "fair"}


def parameters(bias: Array, scale: Array, shift: Array) -> bytes:
    """Parameter blocks of 256 bytes for every 32 channels."""
    blocks = [
        bias[g : g + 32].astype("<i4").tobytes() + scale[g : g + 32].astype("<u2").tobytes() + shift[g : g + 32].astype("u1").tobytes() + bytes(32)
        for g in range(0, len(bias), 32)
    ]
    return b"".join(blocks)


def tiles(w: Array) -> Array:
    """[out, kh, kw, in] as tiles [out groups, kh, kw, in groups, 32, 32]."""
    out, kh, kw, channels = w.shape
    return w.reshape(out // 32, 32, kh, kw, channels // 32, 32).transpose(0, 2, 3, 4, 1, 5)


def requantised(total: Array, bias: Array, scale: Array, shift: Array, low: int = -128, high: int = 127) -> Array:
    return np.clip(np.clip(half_even((total + bias) * scale, shift), -128, 127), low, high)


def block(values: bytes | Array) -> np.ndarray:
    return np.frombuffer(values, np.int8) if isinstance(values, bytes) else values.astype(np.int8)


def window(x: Array, rows: int, width: int) -> str:
    height, columns, channels = x.shape
    step = channels // LINE
    return f"source=0 source_row={columns * step} source_pixel={step} rows={rows} width={width} in_rows={height} in_width={columns}"


def run_layer(compute: str, x: Array, weights: Array, y: Array, params: bytes = b"", unit: str = "vme") -> Array:
    """Loads input, weights and parameters, runs `compute` behind the loads, stores a dense tile from L1 line 1600."""
    last = "1000" if unit == "vector" else "0100"
    loads = [f"LOAD space=ddr local=0 remote={X} width={x.size // LINE}"]
    loads += [f"LOAD space=ddr local=512 remote={W} width={weights.size // LINE}"] if weights.size else []
    loads += [f"LOAD space=ddr local=1536 remote={P} width={len(params) // LINE}"] if params else []
    loads[-1] += " post=0010" if unit == "mme" else f" post={last}"
    text = "\n".join([*loads, compute, f"STORE wait={last} space=ddr local=1600 remote={Y} width={y.size // LINE}", "END"])
    images = {X * LINE: block(x), W * LINE: block(weights), P * LINE: block(params)}
    return read(execute(machine(), text, {"ddr": images}), "ddr", Y * LINE, y.shape)


@pytest.mark.drawn(1)
@pytest.mark.parametrize(("stride", "dilation", "pad"), [(1, 1, 1), (2, 1, 1), (1, 2, 2)])
def test_convolution_with_a_multiplier_for_each_channel(stride: int, dilation: int, pad: int) -> None:
    x, w = random_int8(1, 3, 4, 32), random_int8(2, 64, 3, 3, 32)
    rng = np.random.default_rng(3)
    bias, scale, shift = rng.integers(-(1 << 18), 1 << 18, 64), rng.integers(1, 1 << 16, 64), rng.integers(20, 25, 64)
    total = conv(x, w, (stride, stride), (pad,) * 4, (dilation, dilation))
    expected = requantised(total, bias, scale, shift, 0)
    rows, width, _ = expected.shape
    compute = f"""
        MMA wait=0001 {window(x, rows, width)} kernel_h=3 kernel_w=3 stride_h={stride} stride_w={stride} dilation_h={dilation} dilation_w={dilation} \
pad_top={pad} pad_left={pad} groups=2 in_groups=1 acc=7 weight=512 group_jump={9 * 32} post=0100
        REQUANT wait=0010 acc=7 rows={rows} width={width} groups=2 params=1536 target=1600 target_pixel=2 target_row={2 * width} low=0 post=0001
    """
    found = run_layer(compute, x, tiles(w), expected, parameters(bias, scale, shift), "mme")
    np.testing.assert_array_equal(found, expected)


def test_depthwise_convolution_accumulates_on_what_is_there() -> None:
    x, w = random_int8(4, 4, 4, 64), random_int8(5, 64, 3, 3)
    bias, scale, shift = np.zeros(64, np.int64), np.full(64, 3), np.full(64, 11)
    expected = requantised(2 * depthwise(x, w, 1), bias, scale, shift)
    taps = w.reshape(2, 32, 3, 3).transpose(0, 2, 3, 1)
    fields = f"{window(x, 4, 4)} kernel_h=3 kernel_w=3 pad_top=1 pad_left=1 groups=2 acc=0 weight=512"
    compute = f"""
        DWCONV wait=0001 {fields}
        DWCONV {fields} accumulate=1
        REQUANT acc=0 rows=4 width=4 groups=2 params=1536 target=1600 target_pixel=2 target_row=8 post=0001
    """
    np.testing.assert_array_equal(run_layer(compute, x, taps, expected, parameters(bias, scale, shift)), expected)


def test_a_matrix_product_of_two_activations() -> None:
    """q [5, 64] times k [64 rows, 64]: k's second group of 32 channels stands 64 lines after the first."""
    q, k = random_int8(6, 1, 5, 64), random_int8(7, 64, 64)
    bias, scale, shift = np.zeros(64, np.int64), np.full(64, 1), np.full(64, 10)
    expected = requantised(q @ k.T, bias, scale, shift)
    columns = k.reshape(64, 2, 32).transpose(1, 0, 2)
    compute = f"""
        MMA wait=0001 {window(q, 1, 5)} groups=2 in_groups=2 acc=0 weight=512 tile_jump=64 group_jump=32 post=0100
        REQUANT wait=0010 acc=0 width=5 groups=2 params=1536 target=1600 target_pixel=2 post=0001
    """
    np.testing.assert_array_equal(run_layer(compute, q, columns, expected, parameters(bias, scale, shift), "mme"), expected)


def test_pooling() -> None:
    x = random_int8(8, 5, 5, 32, high=-3)
    empty = np.zeros(0, np.int64)
    best = windows(x, 3, 2, 1, -999).max(-1)
    shape = f"{window(x, 3, 3)} kernel_h=3 kernel_w=3 stride_h=2 stride_w=2 pad_top=1 pad_left=1 target=1600 target_row=3"
    np.testing.assert_array_equal(run_layer(f"POOL wait=0001 {shape} kind=max post=0001", x, empty, best, unit="vector"), best)
    mean = np.clip(half_even(windows(x, 3, 2, 1, 0).sum(-1) * 7282, 16), -128, 127)
    found = run_layer(f"POOL wait=0001 {shape} kind=average multiplier=7282 shift=16 post=0001", x, empty, mean, unit="vector")
    np.testing.assert_array_equal(found, mean)


def test_addition_with_two_scales_in_place() -> None:
    x = random_int8(9, 2, 6, 32)
    expected = np.clip(half_even(x[0] * 300 - x[1] * 77, 8), -100, 90)
    compute = "ADD wait=0001 a=0 b=6 target=1600 width=6 scale_a=300 scale_b=-77 shift=8 low=-100 high=90 post=0001"
    np.testing.assert_array_equal(run_layer(compute, x, np.zeros(0, np.int64), expected, unit="vector"), expected)
    in_place = compute.replace("target=1600", "target=0").replace("post=0001", "") + "\nADD a=0 b=0 target=1600 width=6 scale_b=0 post=0001"
    np.testing.assert_array_equal(run_layer(in_place, x, np.zeros(0, np.int64), expected, unit="vector"), expected)


def test_a_transposing_load() -> None:
    """A matrix [64, 32] of DDR lines, taken through LLB, becomes two transposed blocks."""
    x = random_int8(10, 64, 32)
    text = f"""
        FETCH llb_line=100 ddr_line={X} rows=2 lines=32 ddr_row=32 llb_row=40
        LOADT space=llb local=8 remote=100 width=2 remote_pixel=40 local_pixel=32
        STORE space=ddr local=8 remote={Y} width=64
        SPILL llb_line=140 ddr_line={Y + 64} lines=32
        END
    """
    state = execute(machine(), text, {"ddr": {0: block(x)}})
    found = read(state, "ddr", Y * LINE, (3, 32, 32))
    np.testing.assert_array_equal(found[:2], x.reshape(2, 32, 32).transpose(0, 2, 1))
    np.testing.assert_array_equal(found[2], x[32:])


def test_a_multicast_load_is_read_once_and_written_to_every_chosen_core() -> None:
    chip = machine(2, 4)
    x = random_int8(11, 3, 32)
    text = f"""
        .stream 4
        LOAD space=ddr cores=1101 local=5 remote={X} width=3
        SIGNAL event=2 cores=1101
    """
    for core in (0, 2, 3):
        text += f"""
            .stream {4 + core}
            WAIT event=2
            STORE space=ddr local=5 remote={Y + 16 * core} width=3
            END
        """
    text += "".join(f"\n.stream {number}\nEND" for number in (0, 1, 2, 3, 5))
    state = execute(chip, text, {"ddr": {0: block(x)}}, seed=3)
    for core in (0, 2, 3):
        np.testing.assert_array_equal(read(state, "ddr", (Y + 16 * core) * LINE, x.shape), x)
        np.testing.assert_array_equal(read(state, "l1", 5 * LINE, x.shape, instance=4 + core), x)
    assert not state.memories["l1"][[0, 1, 2, 3, 5]].any()
    program = assemble(chip, Source("test.asm", text))
    traffic = check_program(program, new_state(chip)).footprints
    names = [m.name for m in chip.memories]
    load = int(np.flatnonzero(program.kind == [i.name for i in chip.instructions].index("LOAD"))[0])
    assert traffic.traffic_read[load, names.index("ddr")] == 3 * LINE
    assert traffic.traffic_written[load, names.index("l1")] == 3 * 3 * LINE


def exchange(clusters: int, cores: int, barrier: str, rounds: int = 2) -> str:
    """Every core stores its line, meets the others, and loads its right neighbour's; then again, with what it got."""
    total, text = clusters * cores, ""
    for stream in range(total):
        text += f"\n.stream {stream}\nLOAD space=ddr local=0 remote={X + stream}\n"
        for number in range(rounds):
            mine, next_one = Y + 64 * number + stream, Y + 64 * number + (stream + 1) % total
            text += f"STORE space=ddr local={number} remote={mine}\n{barrier}LOAD space=ddr local={number + 1} remote={next_one}\n"
        text += f"STORE space=ddr local={rounds} remote={Y + 64 * rounds + stream}\nEND\n"
    return text


@pytest.mark.parametrize("seed", [None, 1, 2])
def test_a_barrier_is_a_signal_to_every_member_and_a_wait_for_all(seed: int | None) -> None:
    x = random_int8(12, 8, 32)
    barrier = "SIGNAL event=9 clusters=11 cores=1111\nWAIT event=9 amount=8\n"
    state = execute(machine(2, 4), exchange(2, 4, barrier), {"ddr": {0: block(x)}}, seed=seed)
    np.testing.assert_array_equal(read(state, "ddr", (Y + 128) * LINE, x.shape), np.roll(x, -2, 0))


def test_without_a_barrier_the_cores_race() -> None:
    with pytest.raises(UserError, match="ddr") as error:
        execute(machine(2, 4), exchange(2, 4, "", 1), {})
    assert error.value.diagnostics[0].code == "E0601"


def test_a_barrier_that_one_core_misses_is_a_deadlock() -> None:
    text = exchange(1, 2, "SIGNAL event=9 cores=11\nWAIT event=9 amount=2\n", 1).replace("SIGNAL event=9 cores=11\n", "", 1)
    with pytest.raises(UserError, match="event") as error:
        execute(machine(1, 2), text, {})
    assert error.value.diagnostics[0].code == "E0501"


def test_a_load_reaches_the_l1_of_other_cores_but_not_of_another_cluster() -> None:
    """Mask 0 is the own core; a mask names cores of the executing core's cluster."""
    chip = machine(2, 2)
    text = f".stream 2\nLOAD space=ddr cores=10 local=3 remote={X}\nLOAD space=ddr local=4 remote={X}\nEND\n"
    text += "".join(f".stream {number}\nEND\n" for number in (0, 1, 3))
    x = random_int8(13, 32)
    state = execute(chip, text, {"ddr": {0: block(x)}})
    written = [(int(core), int(line)) for core, line in zip(*np.nonzero(state.memories["l1"].reshape(4, -1, LINE).any(-1)), strict=True)]
    assert written == [(2, 4), (3, 3)]
