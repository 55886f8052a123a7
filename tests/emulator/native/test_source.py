"""The generated C: the same text every time, no machine's name in what is shared, functions for all instructions.

Matrix products: blocked, packed and reordered, yet equal to the reference engine bit for bit, on every machine that has one.
"""

import hashlib
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.hash_seed import printed_elsewhere
from tests.tiny_machine import stream, tiny, word
from toolchain.analysis.order import issue_order
from toolchain.analysis.state import State, new_state
from toolchain.emulator import native, reference
from toolchain.emulator.native.source import TEMPLATES, engine_source
from toolchain.isa.checks import build_program
from toolchain.isa.decode import decode
from toolchain.isa.program import Program
from toolchain.spec.errors import UserError
from toolchain.spec.load import list_targets, load_machine
from toolchain.spec.model import Machine

pytestmark = pytest.mark.skipif(not native.available(), reason="no C compiler")
PLAIN = ("-DTW_PLAIN",)
Fields = dict[str, int]


def program_of(machine: Machine, rows: list[tuple[str, Fields]]) -> Program:
    """A program of one stream from field values; others are zero, or the least they can be."""
    names = [i.name for i in machine.instructions]
    kinds = np.array([names.index(name) for name, _ in rows], np.int64)
    columns = [
        {f.name: np.array([held.get(f.name, max(f.minus, 0)) for name, held in rows if name == i.name], np.int64) for f in i.fields}
        for i in machine.instructions
    ]
    return build_program(machine, [b""], kinds, np.zeros(len(rows), np.int64), np.arange(len(rows), dtype=np.int64), tuple(columns))


def filled(machine: Machine, seed: int) -> State:
    """Random bytes everywhere but in DRAM, which is large; biases small enough not to drown the sums."""
    state, rng = new_state(machine), np.random.default_rng(seed)
    for memory in machine.memories:
        if memory.kind in ("ring", "scratchpad"):
            found = state.memories[memory.name]
            found[:] = rng.integers(0, 256, found.shape, np.uint8)
    if "pm" in state.memories:
        state.memories["pm"][0, 77 * 256 : 81 * 256] = rng.integers(-9999, 9999, 256, np.int32).view(np.uint8)
    return state


def compare(program: Program, state: State) -> None:
    """Reference, C at its best and plain C leave the same memories."""
    order = np.arange(len(program))
    others = [(flags, state.copy()) for flags in ((), PLAIN)]
    reference.run(program, state, order)
    for flags, other in others:
        native.run(program, other, order, flags)
        for name, memory in state.memories.items():
            assert np.array_equal(memory, other.memories[name]), (name, flags)


def gemm(rng: np.random.Generator, seed: int) -> list[tuple[str, Fields]]:
    """Loops that are pixels, reductions, both or neither, targets that collide among them."""
    fields = {"uop_bgn": 0, "uop_end": int(rng.integers(1, 7)), "iter_out": int(rng.integers(1, 9)), "iter_in": int(rng.integers(1, 9))}
    for name, top in (("dst", 30), ("src", 30), ("wgt", 9)):
        for loop in ("out", "in"):
            fields[f"{name}_factor_{loop}"] = int(rng.integers(0, top)) if rng.integers(0, 3 if name == "wgt" else 8) else 0
    return [
        ("GEMM", fields),
        ("GEMM", {**fields, "wgt_factor_out": 0, "wgt_factor_in": 0, "dst_factor_in": seed % 2 * fields["iter_out"], "dst_factor_out": 1}),
    ]


def small_uops(state: State, rng: np.random.Generator) -> None:
    """Micro-ops whose targets repeat and stay far from the ends of their memories."""
    words = rng.integers(0, 4, 64) * 60 | rng.integers(0, 500, 64) << 11 | rng.integers(0, 60, 64) << 22
    state.memories["uop"][0, :256] = words.astype("<u4").view(np.uint8)


@pytest.mark.drawn(8)
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(
    "overrides", [{}, {"LOG_BATCH": "2", "LOG_BLOCK": "3"}, {"LOG_BATCH": "1", "LOG_INP_WIDTH": "4"}, {"LOG_BLOCK": "5"}], ids=str
)
def test_vta_gemm(overrides: dict[str, str], seed: int) -> None:
    machine, rng = load_machine("vta", overrides={"LOG_DRAM": "16", **overrides}), np.random.default_rng(seed)
    if overrides and seed > 1:
        return
    state = filled(machine, seed)
    small_uops(state, rng)
    if overrides:
        state.memories["uop"][:] = 0
    compare(program_of(machine, gemm(rng, seed)), state)


def dpuv3_conv(rng: np.random.Generator, seed: int) -> list[tuple[str, Fields]]:
    """Kernel, strides, pads, groups and a ring that turns round; input and output banks apart."""
    kh, kw, sh, sw = (int(x) for x in rng.integers(1, 4, 4))
    groups = {"channel_group_in": int(rng.integers(1, 4)), "channel_group_out": int(rng.integers(1, 6))}
    init = {
        "kernel_h": kh, "kernel_w": kw, "stride_h": sh, "stride_w": sw,
        "jump_read": groups["channel_group_in"], "jump_write": groups["channel_group_out"],
        "jump_read_endl": 40, "jump_write_endl": 60, "wgt_jump_read_endl": kh * kw * groups["channel_group_in"], "act_type": seed % 2,
        "shift_cut": int(rng.integers(0, 14)), "stride_out": 1, **groups,
    }  # fmt: skip
    conv = {
        "length": int(rng.integers(1, 6)), "valid_pixel_parallel": int(rng.integers(1, 4)),
        "bank_id_in": int(rng.integers(0, 8)), "bank_id_out": 8 + seed % 8, "bank_addr_in": int(rng.choice([0, 8150])),
        "bank_addr_out": int(rng.choice([5, 8170])), "bank_addr_weights": int(rng.choice([0, 8170])), "bank_addr_bias": 77, "bias_offset": seed % 4,
        "pad_left": seed % 2, "pad_top": seed % 3, "pad_right": 15 if seed % 2 else 1, "pad_bottom": 15,
    }  # fmt: skip
    return [("CONVINIT", init), ("CONV", conv)]


def dnnvm_conv(rng: np.random.Generator, seed: int) -> list[tuple[str, Fields]]:
    """Dilation, pads on all sides, transposed as well."""
    groups = {"in_groups": int(rng.integers(1, 3)), "out_groups": int(rng.integers(1, 4))}
    conv = {
        "rows": int(rng.integers(1, 4)), "width": int(rng.integers(1, 6)), "in_rows": 4, "in_width": 6, "kernel_h": 3,
        "kernel_w": int(rng.integers(1, 4)), "stride_h": 1 + seed % 2, "stride_w": 1, "dilation_h": 1, "dilation_w": 1 + seed % 2,
        "pad_top": 1, "pad_left": 1, "in_bank": 0, "out_bank": 4,
        "in_pixel_jump": groups["in_groups"], "out_pixel_jump": groups["out_groups"], "in_row_jump": 20, "out_row_jump": 30, "in_address": 3,
        "out_address": 9, "weight_address": 5, "bias_address": 2, "shift_bias": seed, "shift_cut": 7, "nonlinear": seed % 4, "limit": 60, **groups,
    }  # fmt: skip
    return [("CONV" if seed % 3 else "TCONV", conv)]


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize(("name", "rows"), [("dpuv3", dpuv3_conv), ("dnnvm", dnnvm_conv)])
def test_convolutions(name: str, rows: Callable[[np.random.Generator, int], list[tuple[str, Fields]]], seed: int) -> None:
    size = {"dpuv3": {"LOG_DDR": "20"}, "dnnvm": {"LOG_DDR": "20"}}[name]
    machine = load_machine(name, overrides=size)
    compare(program_of(machine, rows(np.random.default_rng(seed), seed)), filled(machine, seed))


def test_every_machine_with_a_product_uses_a_kernel() -> None:
    found = {name: engine_source(load_machine(name)) for name in ("vta", "dpuv3", "dnnvm", "stcp920")}
    assert "accumulate_0(tw_pixels" in found["vta"]
    assert "window_0(tw_some" in found["dpuv3"]
    assert "window_1(tw_some" in found["dnnvm"]
    assert "window_0((int)tw_min" in found["stcp920"]
    assert "pack_" not in engine_source(tiny("pass\n"))


def test_a_product_outside_its_memory_is_a_fault() -> None:
    machine = load_machine("vta", overrides={"LOG_DRAM": "16"})
    state = new_state(machine)
    fields = {"uop_end": 1, "iter_out": 60, "iter_in": 60, "dst_factor_out": 60, "dst_factor_in": 1, "src_factor_in": 1}
    with pytest.raises(UserError, match=r"#0 GEMM.*E0701"):
        native.run(program_of(machine, [("GEMM", fields)]), state, np.arange(1))


@pytest.mark.parametrize("seed", range(4))
def test_results_that_later_sums_read_keep_their_order(seed: int) -> None:
    """Input and output overlap: an error for the checks, yet without them every engine does the iterations in sequence."""
    machine = load_machine("dpuv3", overrides={"LOG_DDR": "20"})
    (_, init), (_, conv) = dpuv3_conv(np.random.default_rng(seed), seed)
    conv |= {"bank_id_out": conv["bank_id_in"], "bank_addr_out": conv["bank_addr_in"] + seed, "length": 5, "valid_pixel_parallel": 3}
    compare(program_of(machine, [("CONVINIT", init), ("CONV", conv)]), filled(machine, seed))


def test_lockstep_products_of_a_test_machine() -> None:
    text = (
        "for i in range(n), g in range(3):\n    t[r]: wrap(i32) = m + g\n    for k in range(4):\n        if k != i:\n"
        "            t[r] += dot(par[(g + k) % 4][r, c], feat[0, i + k][c])\n    acc[g][o] = reduce_max(t[r]) + 3 * reduce_min(t[r])\n"
    )
    machine = tiny(text)
    assert "window_0" in engine_source(machine)
    words = [word(0, n=5, m=-300), word(0, n=16, m=9)]
    compare(decode(machine, [stream(*words), stream(*words[:1])]), filled(machine, 3))


def test_vendor_convolution_and_pooling(vendor_streams: Path) -> None:
    """DPUv3INT8's first two layers of ResNet-50 as its vendor compiled them, images 0, 1, 0, 1 of the vendor's own output."""
    machine = load_machine("dpuv3")
    words = np.array([int(text, 16) for text in (vendor_streams / "conv1_pool1_fused.hex").read_text().split()], "<u4")
    program, images = decode(machine, [words.tobytes()]), [0, 1, 0, 1]
    with np.load(vendor_streams / "conv1_pool1_golden.npz") as data:
        pictures, parameters, golden = data["input_nhwc"][images], data["params_plain"].ravel(), data["golden_nhwc"][images]
    stored = np.zeros((*pictures.shape[1:3], 4, 16), np.int8)
    stored[..., : pictures.shape[3]] = pictures.transpose(1, 2, 0, 3)
    for flags in ((), PLAIN):
        state = new_state(machine)
        state.host["base"][0] = bases = [0, 1 << 25, 1 << 26, 1 << 27]
        ddr = state.memories["ddr"][0]
        ddr[: stored.size] = stored.view(np.uint8).ravel()
        ddr[bases[3] : bases[3] + parameters.size] = parameters.view(np.uint8)
        native.run(program, state, issue_order(program), flags)
        shape = (*golden.shape[1:3], golden.shape[3] // 16, 4, 16)
        found = ddr[bases[1] : bases[1] + golden.size].view(np.int8).reshape(shape).transpose(3, 0, 1, 2, 4).reshape(golden.shape)
        assert golden.size == 802816
        assert np.count_nonzero(found != golden) == 0


def test_resnet18_layer_on_vta() -> None:
    """The program that bench/emulator times computes the convolution."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "bench"))
    import workloads

    work = workloads.resnet18_c2(seed=3)
    expected = workloads.c2_expected(work.state.memories["dram"][0])
    native.run(work.program, work.state, issue_order(work.program))
    found = work.state.memories["dram"][0, workloads.OUTPUT : workloads.OUTPUT + expected.size].view(np.int8).reshape(expected.shape)
    assert len(work.program) == 290
    assert np.unique(expected).size > 100
    assert np.array_equal(found, expected)


PRINT = "import hashlib; from toolchain.spec.load import load_machine; from toolchain.emulator.native.source import engine_source; "


@pytest.mark.parametrize("name", ["vta", "dpuv3", "dnnvm", "stcp920"])
def test_one_function_an_instruction(name: str) -> None:
    machine = load_machine(name)
    text = engine_source(machine)
    assert all(f"static void k_{number}(" in text for number in range(len(machine.instructions)))
    assert text.count("{") == text.count("}")
    assert text == engine_source(load_machine(name))


def test_same_text_whatever_the_hash_seed() -> None:
    code = PRINT + "print(hashlib.sha256(engine_source(load_machine('dpuv3')).encode()).hexdigest())"
    assert printed_elsewhere(code).strip() == hashlib.sha256(engine_source(load_machine("dpuv3")).encode()).hexdigest()


def test_no_machine_is_named_in_what_all_share() -> None:
    shared = [*TEMPLATES.iterdir(), *Path(TEMPLATES.parents[1], "emulator", "native").glob("*.py")]
    assert len(shared) > 10
    for path in shared:
        words = path.read_text().lower() if path.is_file() else ""
        assert not any(name in words for name in list_targets()), path
