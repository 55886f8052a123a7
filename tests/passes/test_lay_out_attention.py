"""The pass lays attention out for the machine that it is for: heads become whole blocks of a machine that has kernels for both halves."""

from pathlib import Path

import onnx_ir as ir
import pytest

from tests.graph.encoder import encoder
from tests.passes.test_attention import BLOCKS, BOTH, device, loaded_from, softmax_of
from toolchain.graph.rewrite import known_shape
from toolchain.passes.attention import find_attention
from toolchain.passes.context import Context
from toolchain.passes.lay_out_attention import LayOutAttention, spare_for


def queries_of(model: ir.Model) -> tuple[int, ...] | None:
    found = find_attention(softmax_of(model))
    assert found is not None
    return known_shape(found.queries)


@pytest.mark.parametrize(
    ("context", "channels"),
    [(BLOCKS, 128), (Context(), 96), (device(BOTH), 96), (device(frozenset({"linear"})), 96)],
    ids=["blocks of 32", "no machine", "no blocks", "no kernels"],
)
def test_heads_become_whole_blocks_of_a_machine_with_kernels(context: Context, channels: int, tmp_path: Path) -> None:
    model = loaded_from(encoder(width=96), tmp_path)
    LayOutAttention().run(model, context)
    assert queries_of(model) == (1, 16, channels)


def test_spare_zeros_fill_up_the_last_block_of_keys(tmp_path: Path) -> None:
    found = find_attention(softmax_of(loaded_from(encoder(rows=21), tmp_path)))
    assert found is not None
    assert (spare_for(BLOCKS.device, found), spare_for(None, found), spare_for(device(BOTH).device, found)) == (11, 0, 0)
