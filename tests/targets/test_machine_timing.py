"""What the geometry and the shared ports of the many-core machines make of short programs; cycles worked out by hand."""

from functools import cache

import pytest

from tests.target_runs import timed
from toolchain.isa.assembly import assemble
from toolchain.spec.errors import Source
from toolchain.spec.load import load_machine
from toolchain.spec.model import Machine

END = 1
"""END is one more instruction of the data mover."""


@cache
def machine(name: str, config: str) -> Machine:
    return load_machine(name, config, {"LOG_DDR": "24"})


def cycles(chip: Machine, program: dict[int, str], end: str = "END") -> float:
    """program: lines by stream; the other streams only end."""
    text = "".join(f"\n.stream {number}\n{program.get(number, '')}\n{end}" for number in range(chip.streams))
    return timed(assemble(chip, Source("a.asm", text))).cycles


WEIGHTS = "LOAD memory=weights reg=params ddr_address=0 address=0 width=2000"


def test_a_load_of_dnnvm_takes_its_bytes_at_the_effective_bandwidth() -> None:
    """2000 tiles of 144 bytes at 2.9 GB/s and 330 MHz, rounded up to a cycle, and END."""
    expected = 64 + -(-2000 * 144 * 330000 // 2900000)
    assert cycles(machine("dnnvm", "zu2"), {0: WEIGHTS}) == pytest.approx(expected, abs=1)


def test_load_and_save_of_dnnvm_share_the_port() -> None:
    chip = machine("dnnvm", "zu2")
    save = "SAVE reg=result ddr_address=1048576 bank=0 address=0 width=1000 ddr_pixel_stride=12 pixel_jump=2"
    load = "LOAD memory=weights reg=params ddr_address=0 address=0 width=83"
    both = cycles(chip, {0: f"{load}\n{save}"})
    assert both == pytest.approx(64 + (83 * 144 + 12000) * 330000 / 2900000, rel=0.02)
    assert both > 1.8 * cycles(chip, {0: load}) - 64


def test_three_cores_of_dnnvm_share_the_ddr() -> None:
    chip = machine("dnnvm", "zu9")
    alone = cycles(chip, {0: WEIGHTS})
    assert alone == pytest.approx(64 + 2000 * 256 * 330000 / 8700000, abs=2)
    assert cycles(chip, dict.fromkeys(range(3), WEIGHTS)) - 64 == pytest.approx(3 * (alone - 64), rel=0.001)


@pytest.mark.parametrize(("config", "lanes", "rows_at_once", "rate"), [("zu2", 12, 4, 576), ("zu9", 16, 8, 2048), ("b1024_max", 8, 8, 512)])
def test_a_convolution_that_fills_the_array_reaches_the_published_products_a_cycle(config: str, lanes: int, rows_at_once: int, rate: int) -> None:
    chip = machine("dnnvm", config)
    shape = "in_bank=0 in_address=0 in_row_jump=80 in_pixel_jump=4 in_rows=18 in_width=20 kernel_h=3 kernel_w=3 pad_top=0 pad_left=1"
    conv = f"CONV {shape} out_bank={rows_at_once} out_address=0 out_row_jump=80 out_pixel_jump=4 rows=16 width=20 in_groups=4 out_groups=4"
    products = 16 * 20 * (4 * lanes) ** 2 * 9
    assert cycles(chip, {0: f"{conv} shift_cut=8 weight_address=0 bias_address=0"}) == 32 + products / rate


def test_a_half_filled_array_takes_as_long_as_a_full_one() -> None:
    chip = machine("dnnvm", "zu2")
    conv = (
        "CONV in_bank=0 in_address=0 in_pixel_jump=1 in_rows={0} in_width=20 out_bank=4 out_address=0 out_pixel_jump=1 rows={0} width=20 in_groups=1"
    )
    conv += " out_groups=1 shift_cut=8 weight_address=0 bias_address=0"
    assert cycles(chip, {0: conv.format(1)}) == cycles(chip, {0: conv.format(4)}) == 32 + 20


LINES = "LOAD space={space} local=0 remote={at} width=1024"


def test_cores_of_a_cluster_share_its_llb_and_all_share_the_ddr() -> None:
    chip = machine("stcp920", "paper")
    alone = cycles(chip, {0: LINES.format(space="llb", at=0)})
    assert alone == 16 + 512 + END
    assert cycles(chip, {core: LINES.format(space="llb", at=0) for core in range(8)}) == alone
    one = cycles(chip, {0: LINES.format(space="ddr", at=0)})
    assert one == 200 + 512 + END
    everyone = cycles(chip, {core: LINES.format(space="ddr", at=1024 * core) for core in range(32)})
    assert everyone == pytest.approx(200 + 32 * 1024 * 32 / 136 + END, rel=0.001)


def test_a_multicast_load_costs_the_ddr_once() -> None:
    chip = machine("stcp920", "paper")
    casts = {8 * cluster: f"{LINES.format(space='ddr', at=0)} cores=11111111" for cluster in range(4)}
    assert cycles(chip, casts) == pytest.approx(200 + 4 * 1024 * 32 / 136 + END, rel=0.001)


def test_the_matrix_unit_reaches_its_published_rate() -> None:
    """32 cores at 4096 INT8 products a cycle and 1 GHz are 256 TOPS."""
    mma = "MMA source=0 source_pixel=8 width=64 in_width=64 groups=4 in_groups=8 acc=0 weight=512 group_jump=256"
    assert cycles(machine("stcp920", "paper"), {0: mma}) == 16 + 64 * 128 * 256 / 4096
    tops = 32 * 4096 * 2 * machine("stcp920", "paper").timing.clock_khz / 1e9
    assert tops == pytest.approx(256, rel=0.03)
