"""DPUv3INT8: its fields against the published table, and what the public programs leave open."""

import csv
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from tests.target_runs import Array, conv, execute, half_up, random_int8, read, timed, windows
from toolchain.analysis.state import State
from toolchain.isa.assembly import assemble
from toolchain.isa.decode import decode
from toolchain.isa.encode import encode_program
from toolchain.isa.program_file import load_program
from toolchain.spec.errors import Source, UserError
from toolchain.spec.load import load_machine
from toolchain.spec.model import Machine

TABLE = Path(__file__).resolve().parents[1] / "data" / "dpuv3_isa_fields.csv"
PUBLISHED = list(csv.DictReader(TABLE.read_text().splitlines()))
WEIGHTS, BIAS, RESULT = 0x4000, 0x8000, 0xC000
BASES = {"base": [[0, RESULT, 0, 0]]}
EXTRAS = "prelu_offset 0 prelu_shift_n 0 bank_addr_prelu 0"


@cache
def machine(config: str = "", lowest: int = -128) -> Machine:
    return load_machine("dpuv3", config, {"LOG_DDR": "20", "PES": "2", "LOWEST": str(lowest)})


def test_all_fields_stand_where_the_published_table_puts_them() -> None:
    chip = load_machine("dpuv3")
    expected = {
        (row["instruction"], row["field"]): (int(row["word32"]) * 32 + int(row["lsb"]), int(row["bits"]), int(row["stored_as"] == "value-1"))
        for row in PUBLISHED
    }
    found = {(i.name, f.name): (f.lsb, f.bits, f.minus) for i in chip.instructions for f in i.fields}
    assert found == expected
    opcodes = {row["instruction"]: int(row["opcode"]) for row in PUBLISHED}
    assert {i.name: i.match["opcode"] for i in chip.instructions} == opcodes
    assert {i.name: i.bytes for i in chip.instructions} == {name: {"END": 4, "ELEWINIT": 8}.get(name, 16) for name in opcodes}


@pytest.mark.parametrize("config", ["", "strict"])
def test_vendor_programs_decode_and_encode_to_the_same_bytes(vendor_streams: Path, config: str) -> None:
    files = sorted(vendor_streams.glob("*.hex"))
    assert files
    for path in files:
        data = b"".join(int(word, 16).to_bytes(4, "little") for word in path.read_text().split())
        assert encode_program(decode(load_machine("dpuv3", config), [data], path.name)) == (data,)


def image(x: Array) -> Array:
    """[height, width, 16] in DDR: 64 bytes a pixel, the same 16 channels for each of four images."""
    return np.repeat(x[:, :, None, :], 4, 2).astype(np.int8)


def rows_in(x: Array, bank: int = 0, jump: int = 1, slots: int = 1) -> str:
    """Loads row r into bank r // slots, where `slots` rows follow each other."""
    height, width, _ = x.shape
    return "\n".join(
        f"LOAD 0000 {'0100' if y == height - 1 else '0000'} mode 0 reg_id 0 ddr_addr {y * width * 64} bank_id {bank + y // slots} "
        f"bank_addr {y % slots * width} jump_read 16 jump_write {jump} length {width} channel 16"
        for y in range(height)
    )


def rows_out(height: int, width: int, wait: str, bank: int = 8, slots: int = 1) -> str:
    lines = [
        f"SAVE {wait if y == 0 else '0000'} {'0010' if y == height - 1 else '0000'} mode 0 reg_id 1 ddr_addr {y * width * 64} "
        f"bank_id {bank + y // slots} bank_addr {y % slots * width} jump_read 1 jump_write 16 length {width} channel 16"
        for y in range(height)
    ]
    return "\n".join([*lines, "END 0010 0000"])


def run_conv(x: Array, w: Array, bias: Array, init: str, fields: str = "stride_offset_out 0", chip: Machine | None = None, slots: int = 1) -> Array:
    """A 3 x 3 convolution of 16 to 16 channels without padding, output rows from bank 8; [rows, width, 16] of the first image."""
    height, width = x.shape[0] - 2, x.shape[1] - 2
    text = f"""
        LOAD 0000 0000 mode 1 reg_id 0 ddr_addr {WEIGHTS} bank_id 0 bank_addr 0 jump_read 16 jump_write 1 length 9 channel 16
        LOAD 0000 0000 mode 1 reg_id 0 ddr_addr {BIAS} bank_id 0 bank_addr 9 jump_read 16 jump_write 1 length 1 channel 16
        {rows_in(x)}
        CONVINIT 0000 0000 shift_cut 8 jump_read 1 stride_h 1 stride_w 1 wgt_jump_read_endl 9 channel_offset 0 jump_read_endl {width + 2} kernel_h 3 \
kernel_w 3 channel_group_out 1 channel_group_in 1 jump_write 1 jump_write_endl {width} {init}
        CONV 0001 0010 valid_pixel_parallel {height} length {width} pad_left 0 pad_top 0 pad_right 15 pad_bottom 15 bank_id_in 0 bank_addr_in 0 \
bank_id_out 8 bank_addr_out 0 bank_addr_weights 0 bias_offset 0 bank_addr_bias 9 {EXTRAS} {fields}
        {rows_out(height, width, "0100", 8, slots)}
    """
    packed = np.zeros((9, 256), np.int8)
    for a in range(3):
        for b in range(3):
            for o in range(16):
                for c in range(16):
                    packed[b * 3 + a, c // 2 * 32 + o % 8 * 4 + c % 2 * 2 + o // 8] = w[o, a, b, c]
    stored = np.zeros(64, "<i4")
    stored[:16] = bias * 2
    parts = {0: image(x), WEIGHTS: packed, BIAS: stored}
    state: State = execute(chip or machine(), text, {"ddr": parts}, BASES)
    return read(state, "ddr", RESULT, (height, width, 4, 16))[:, :, 0]


X, W, B = random_int8(1, 6, 5, 16), random_int8(2, 16, 3, 3, 16, low=-20, high=20), random_int8(3, 16) * 50
PLAIN = "act_type 0 stride_out 1 prelu_shift_p 0"


@pytest.mark.parametrize("lowest", [-128, -127])
def test_convolution_saturates_where_the_parameter_says(lowest: int) -> None:
    total = conv(X, W) + B
    expected = np.clip(half_up(total, 8), lowest, 127)
    assert (expected == lowest).any()
    np.testing.assert_array_equal(run_conv(X, W, B, PLAIN, chip=machine(lowest=lowest)), expected)


def test_leaky_relu_and_relu6_have_a_stated_formula() -> None:
    total = conv(X, W) + B
    leaky = np.where(total < 0, total * 26 + (1 << 15) >> 16, half_up(total, 8))
    np.testing.assert_array_equal(run_conv(X, W, B, "act_type 2 stride_out 1 prelu_shift_p 0"), np.clip(leaky, -128, 127))
    cut = np.clip(half_up(np.maximum(total, 0), 8), 0, 6 << 3)
    np.testing.assert_array_equal(run_conv(X, W, B, "act_type 3 stride_out 1 prelu_shift_p 3"), cut)


def test_output_rows_can_share_banks() -> None:
    """stride_out 2 puts two output rows into each bank, as ELEW does."""
    expected = np.clip(half_up(conv(X, W) + B, 8), -128, 127)
    np.testing.assert_array_equal(run_conv(X, W, B, "act_type 0 stride_out 2 prelu_shift_p 0", slots=2), expected)


@pytest.mark.parametrize(
    ("init", "fields"),
    [
        ("act_type 2 stride_out 1 prelu_shift_p 0", "stride_offset_out 0"),
        ("act_type 0 stride_out 2 prelu_shift_p 0", "stride_offset_out 0"),
        (PLAIN, "stride_offset_out 1"),
    ],
)
def test_the_strict_configuration_refuses_what_is_not_known(init: str, fields: str) -> None:
    with pytest.raises(UserError, match="not known") as error:
        run_conv(X, W, B, init, fields, machine("strict"))
    assert error.value.diagnostics[0].code == "E0404"


@pytest.mark.parametrize("change", [("prelu_shift_n 0", "prelu_shift_n 1"), ("bank_addr_prelu 0", "bank_addr_prelu 4")])
def test_prelu_is_refused_everywhere(change: tuple[str, str]) -> None:
    line = f"CONV 0000 0000 {EXTRAS.replace(*change)} stride_offset_out 0 valid_pixel_parallel 1 length 1 pad_left 0 pad_top 0"
    line += " pad_right 15 pad_bottom 15 bank_id_in 0 bank_addr_in 0 bank_id_out 8 bank_addr_out 0 bank_addr_weights 0 bias_offset 0 bank_addr_bias 9"
    with pytest.raises(UserError, match="PReLU is not known"):
        assemble(machine(), Source("a.asm", f"{line}\nEND 0000 0000\n"))


def run_pool(x: Array, kernel: int, rows: int, width: int, fields: str, config: str = "") -> Array:
    text = f"""
        {rows_in(x).replace(" 0100 mode", " 1000 mode")}
        POOL 0001 0010 pad_top 0 pad_bottom 15 pad_left 0 pad_right 15 bank_addr_in 0 bank_addr_out 0 stride_w 1 stride_h 1 \
jump_read_endl {x.shape[1]} jump_write_endl {width} length {width} \
kernel_w {kernel} kernel_h {kernel} channel_group 1 bank_id_in 0 bank_id_out 8 valid_pixel_parallel {rows} {fields}
        {rows_out(rows, width, "1000")}
    """
    return read(execute(machine(config), text, {"ddr": {0: image(x)}}, BASES), "ddr", RESULT, (rows, width, 4, 16))[:, :, 0]


@pytest.mark.parametrize(("kernel", "select", "times", "shift"), [(3, 1, 7, 6), (5, 2, 10, 8), (7, 3, 21, 10), (2, 0, 1, 2)])
def test_average_pooling_has_a_stated_formula(kernel: int, select: int, times: int, shift: int) -> None:
    x = random_int8(4, kernel + 1, kernel + 2, 16)
    expected = half_up(windows(x, kernel, 1, 0, 0).sum(-1) * times, shift)
    found = run_pool(x, kernel, 2, 3, f"pool_type 1 select_avg {select} shift_avg {shift}")
    np.testing.assert_array_equal(found, np.clip(expected, -128, 127))


def test_the_strict_configuration_knows_only_max_pooling() -> None:
    x = random_int8(5, 3, 4, 16)
    np.testing.assert_array_equal(run_pool(x, 2, 2, 3, "pool_type 0 select_avg 0 shift_avg 0", "strict"), windows(x, 2, 1, 0, -128).max(-1))
    with pytest.raises(UserError, match="only max pooling is known"):
        run_pool(x, 2, 2, 3, "pool_type 1 select_avg 0 shift_avg 2", "strict")


@pytest.mark.parametrize(("kind", "shift_write"), [(0, 1), (1, 33), (2, 34), (3, 33), (2, 2)])
def test_elementwise_sums_are_exact_and_rounded_once(kind: int, shift_write: int) -> None:
    """Operand 0 is shifted right by 3 on reading, so the sum counts in eighths."""
    x = random_int8(6, 2, 6, 16)
    text = f"""
        {rows_in(x).replace(" 0100 mode", " 1000 mode")}
        ELEWINIT 0001 0000 id 0 bank_id_in 0 bank_addr_in 0 shift_read 3 jump_read 1 jump_read_endl 6
        ELEWINIT 0000 0000 id 1 bank_id_in 1 bank_addr_in 0 shift_read 0 jump_read 1 jump_read_endl 6
        ELEW 0000 0010 num 2 nonlinear_type {kind} stride_out 1 stride_offset_out 0 jump_write 1 jump_write_endl 6 bank_id_out 8 \
bank_addr_out 0 width 6 bank_id_prelu 0 bank_addr_prelu 0 valid_pixel_parallel 1 \
channel_group 1 shift_write {shift_write} shift_write_prelu_n {3 if kind == 3 else 0}
        {rows_out(1, 6, "1000")}
    """
    found = read(execute(machine(), text, {"ddr": {0: image(x)}}, BASES), "ddr", RESULT, (6, 4, 16))[:, 0]
    eighths = x[0] + (x[1] << 3)
    right = 3 + (shift_write - 32 if shift_write >= 32 else -shift_write)
    value = eighths if kind in (0, 2) else np.maximum(eighths, 0)
    expected = half_up(np.where(value < 0, value * 26, value * 256), right + 8) if kind == 2 else half_up(value, right)
    np.testing.assert_array_equal(found, np.minimum(np.clip(expected, -128, 127), 48 if kind == 3 else 127))


def test_a_bounded_counter_is_at_least_what_the_vendor_needs() -> None:
    assert {c.depth for c in load_machine("dpuv3").counters} == {4}
    assert {c.depth for c in load_machine("dpuv3", overrides={"EDGE_DEPTH": "0"}).counters} == {None}
    with pytest.raises(UserError, match="at least 4"):
        load_machine("dpuv3", overrides={"EDGE_DEPTH": "3"})


HAND, UNLIMITED = "resnet50_hand", {"EDGE_DEPTH": "0", "QUEUE_DEPTH": "0"}


def vendor_cycles(path: Path, edges: int, queues: int) -> float:
    """Raises UserError E0501 for a deadlock. The machine is one that its file's own checks may refuse."""
    limits = load_machine("dpuv3", overrides=UNLIMITED | {"BANK_PORTS": "0"})
    counters = tuple(replace(counter, depth=edges) for counter in limits.counters)
    chip = replace(limits, counters=counters, units=tuple(replace(unit, depth=queues) for unit in limits.units))
    return timed(load_program(chip, path)).cycles


def test_every_vendor_program_runs_undelayed_with_the_declared_counters_and_queues_together(vendor_streams: Path) -> None:
    """With ports of banks that are free; with one to read and one to write, counters of 4 delay the hand-tuned program by 0.05 %."""
    chip, free = (load_machine("dpuv3", overrides={"BANK_PORTS": "0"} | more) for more in ({}, UNLIMITED))
    for path in sorted(vendor_streams.glob("*.hex")):
        assert timed(load_program(chip, path)).cycles == timed(load_program(free, path)).cycles, path.stem
    chip, free = (load_machine("dpuv3", overrides=more) for more in ({}, UNLIMITED))
    bounded, unlimited = (timed(load_program(each, vendor_streams / f"{HAND}.hex")).cycles for each in (chip, free))
    assert unlimited <= bounded < 1.001 * unlimited


def test_the_declared_counters_and_queues_are_the_strictest_such_ones(vendor_streams: Path) -> None:
    path, chip = vendor_streams / f"{HAND}.hex", load_machine("dpuv3")
    (edges,), (queues,) = {c.depth for c in chip.counters}, {u.depth for u in chip.units}
    assert edges is not None and queues is not None  # noqa: PT018 both are bounded
    assert vendor_cycles(path, edges, queues - 1) > vendor_cycles(path, edges, queues)
    with pytest.raises(UserError, match="E0501"):
        vendor_cycles(path, edges - 1, 1 << 16)


@pytest.mark.parametrize(("edges", "queues"), [(4, 36), (5, 24), (6, 12), (7, 1)])
def test_pairs_of_depths_that_the_file_allows_are_those_with_which_the_vendor_s_programs_run(vendor_streams: Path, edges: int, queues: int) -> None:
    load_machine("dpuv3", overrides={"EDGE_DEPTH": str(edges), "QUEUE_DEPTH": str(queues)})
    assert vendor_cycles(vendor_streams / f"{HAND}.hex", edges, queues)
    if queues > 1:
        with pytest.raises(UserError, match="deep enough together"):
            load_machine("dpuv3", overrides={"EDGE_DEPTH": str(edges), "QUEUE_DEPTH": str(queues - 1)})
        with pytest.raises(UserError, match="E0501"):
            vendor_cycles(vendor_streams / f"{HAND}.hex", edges, queues - 1)
