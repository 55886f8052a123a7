"""Iterations are sequential: where output elements of one instruction coincide, the last iteration's value stays, on every engine."""

from functools import cache

import numpy as np
import pytest

from tests.target_runs import execute, random_int8
from toolchain.spec.load import load_machine
from toolchain.spec.model import Machine

BASES = {"base": [[0, 0x8000, 0x10000, 0x4000]]}


@cache
def machine() -> Machine:
    return load_machine("dnnvm", overrides={"LOG_DDR": "20"})


@pytest.mark.parametrize("mnemonic", ["CONV", "TCONV"])
@pytest.mark.parametrize(("out_pixel_jump", "out_row_jump"), [(1, 12), (3, 1)])
def test_the_last_iteration_wins(mnemonic: str, out_pixel_jump: int, out_row_jump: int) -> None:
    """Three output groups of a pixel, but only one word between pixels; or rows of a bank one word apart."""
    text = f"""
        LOAD memory=weights reg=params ddr_address=0 address=0 width=27
        LOAD memory=bias reg=params ddr_address=4096 address=0 width=3
        LOAD reg=input ddr_address=0 bank=0 address=0 row_jump=6 rows=8 width=6 ddr_row_stride=72 ddr_pixel_stride=12 post=00100
        {mnemonic} wait=00001 in_bank=0 in_address=0 in_row_jump=6 in_pixel_jump=1 in_rows=8 in_width=6 out_bank=4 out_address=0 rows=8 width=4 \
out_row_jump={out_row_jump} out_pixel_jump={out_pixel_jump} in_groups=1 out_groups=3 kernel_h=3 kernel_w=3 shift_bias=3 shift_cut=8 \
weight_address=0 bias_address=0 post=00010
        SAVE wait=00100 reg=result ddr_address=0 bank=4 address=0 width=4 pixel_jump=1 ddr_pixel_stride=12 post=00010
        END wait=00010
    """
    parts = {0: random_int8(1, 8, 6, 12), 0x4000: random_int8(2, 27, 12, 12), 0x5000: random_int8(3, 36)}
    execute(machine(), text, {"ddr": {at: np.asarray(part, np.int8) for at, part in parts.items()}}, BASES)
