"""VTA: legal and illegal parameter sets, and each point on which its implementations disagree."""

from pathlib import Path

import numpy as np
import pytest

from tests.schedule.convolutions import convolution
from tests.schedule.test_compile_region import proven, random_region
from tests.target_runs import Array, read, run_everywhere
from toolchain.analysis.checks import check_program
from toolchain.analysis.in_place import repeats
from toolchain.analysis.order import issue_order
from toolchain.analysis.state import State, new_state
from toolchain.emulator import engine_named
from toolchain.isa.assembly import assemble
from toolchain.isa.checks import portability
from toolchain.isa.decode import decode
from toolchain.schedule.compile_operation import compile_operation
from toolchain.schedule.compile_region import compile_region
from toolchain.schedule.kernel_selection import choose_kernel
from toolchain.schedule.kernels.kernel_file import load_kernels
from toolchain.spec.errors import Source, UserError
from toolchain.spec.load import load_machine
from toolchain.spec.model import Machine

LEGAL = [
    {},
    {"LOG_BATCH": "2", "LOG_BLOCK": "3"},
    {"LOG_BATCH": "2", "LOG_BLOCK": "3", "LOG_INP_BUFF": "16", "LOG_WGT_BUFF": "16", "LOG_ACC_BUFF": "18"},
    {"LOG_BLOCK": "5"},
    {"LOG_BLOCK": "5", "LOG_INP_BUFF": "16", "LOG_WGT_BUFF": "20", "LOG_ACC_BUFF": "18"},
    {"LOG_BLOCK": "3", "LOG_WGT_BUFF": "15", "LOG_INP_BUFF": "13", "LOG_ACC_BUFF": "14"},
]
ILLEGAL = [
    ("LOG_UOP_BUFF", "16", {"wgt_factor_in", "wgt_factor_out", "imm"}),
    ("LOG_INP_BUFF", "16", {"wgt", "wgt_factor_in"}),
    ("LOG_WGT_BUFF", "19", {"wgt", "wgt_factor_in"}),
    ("LOG_ACC_BUFF", "18", {"wgt", "wgt_factor_in", "imm"}),
]
ONE = "uop_bgn=0 uop_end=1 iter_out=1 iter_in=1 dst_factor_out=0 dst_factor_in=0 src_factor_out=0 src_factor_in=0"
ROW = "y_size=1 x_size=1 x_stride=1"
DRAM = {"uop": 0x1000 // 4, "inp": 0x2000, "wgt": 0x8000, "acc": 0x4000, "out": 0x6000}


@pytest.mark.parametrize("overrides", LEGAL, ids=lambda o: "-".join(o.values()) or "default")
def test_a_matrix_product_on_every_legal_geometry(overrides: dict[str, str]) -> None:
    chip = load_machine("vta", overrides={**overrides, "LOG_DRAM": "18"})
    batch, size = chip.params["BATCH"], chip.params["BLOCK"]
    rng = np.random.default_rng(0)
    x, w, a = rng.integers(-128, 128, (batch, size)), rng.integers(-128, 128, (size, size)), rng.integers(-(1 << 31), 1 << 31, (batch, size))
    text = f"""
        LOAD memory_type=inp sram_base=3 dram_base={0x2000 // (batch * size)} {ROW}
        LOAD memory_type=wgt sram_base=2 dram_base={0x8000 // (size * size)} {ROW} push_next=1
        LOAD memory_type=uop sram_base=1 dram_base={DRAM["uop"]} {ROW}
        LOAD memory_type=acc sram_base=1 dram_base={0x4000 // (batch * size * 4)} {ROW} pop_prev=1
        GEMM {ONE.replace("uop_bgn=0 uop_end=1", "uop_bgn=1 uop_end=2")} wgt_factor_out=0 wgt_factor_in=0 push_next=1
        STORE memory_type=out sram_base=1 dram_base={0x6000 // (batch * size)} {ROW} pop_prev=1 push_prev=1
        FINISH pop_next=1
    """
    fields = {f.name: f for f in next(v for v in chip.views if v.name == "uop").element.record}
    micro = np.array([1 << fields["dst"].lsb | 3 << fields["src"].lsb | 2 << fields["wgt"].lsb], "<u4")
    state = start(chip, {0x1000: micro, 0x2000: x.astype(np.int8), 0x8000: w.astype(np.int8), 0x4000: a.astype("<i4")})
    execute(chip, text, state)
    expected = (a + x @ w.T).astype(np.int32)
    np.testing.assert_array_equal(read(state, "acc", expected.nbytes, (batch, size), np.int32), expected)
    np.testing.assert_array_equal(read(state, "dram", 0x6000, (batch, size)), expected.astype(np.int8))


@pytest.mark.parametrize(("name", "value", "fields"), ILLEGAL, ids=lambda item: item if isinstance(item, str) else "")
def test_what_does_not_fit_its_word_is_refused_and_named(name: str, value: str, fields: set[str]) -> None:
    with pytest.raises(UserError) as error:
        load_machine("vta", overrides={name: value})
    found = error.value.diagnostics
    assert {d.code for d in found} <= {"E0111", "E0113"}
    assert {d.message.split("'")[1] for d in found} <= fields
    assert all(d.span and d.span.source.path.endswith("vta.yaml") for d in found)


def test_default_widths_are_those_of_the_c_structures() -> None:
    gemm = {f.name: (f.lsb, f.bits) for f in load_machine("vta").instruction["GEMM"].fields}
    assert gemm["uop_bgn"] == (8, 13)
    assert gemm["uop_end"] == (21, 14)
    assert gemm["iter_in"] == (49, 14)
    assert gemm["dst_factor_out"] == (64, 11)
    assert gemm["wgt_factor_in"] == (118, 10)


def test_the_hls_macros_place_a_micro_op_s_weight_otherwise_where_accumulators_outnumber_inputs() -> None:
    def places(config: str, buffer: str) -> list[int]:
        return [f.lsb for f in load_machine("vta", config, {"LOG_INP_BUFF": buffer}).view["uop"].element.record]

    assert places("", "15") == places("hls", "15") == [0, 11, 22]
    assert places("", "14") == [0, 11, 22]
    assert places("hls", "14") == [0, 11, 21]


def test_the_chisel_core_has_fewer_micro_ops_in_fields_of_fixed_width() -> None:
    chisel, wide = load_machine("vta:chisel"), load_machine("vta")
    assert chisel.memory["uop"].depths == (2048,)
    assert [f.lsb for f in chisel.instruction["GEMM"].fields] == [f.lsb for f in wide.instruction["GEMM"].fields]
    with pytest.raises(UserError, match="more elements than its fixed field"):
        load_machine("vta:chisel", overrides={"LOG_BLOCK": "2"})


def start(chip: Machine, parts: dict[int, np.ndarray]) -> State:
    state = new_state(chip)
    for offset, content in parts.items():
        data = np.ascontiguousarray(content).view(np.uint8).ravel()
        state.memories["dram"][0, offset : offset + len(data)] = data
    return state


def execute(chip: Machine, text: str, state: State) -> None:
    run_everywhere(assemble(chip, Source("test.asm", text)), state)


def alu(config: str, fields: str, value: int, source: int = 0) -> tuple[int, int]:
    """ACC entry 0 and the byte that STORE writes, after one ALU instruction on entries filled with `value` and `source`."""
    chip = load_machine("vta", config, {"LOG_DRAM": "16"})
    state = start(chip, {0x1000: np.array([1 << 11], "<u4"), 0x4000: np.repeat(np.array([value, source], "<i4"), 16)})
    load = f"LOAD memory_type=uop sram_base=0 dram_base={DRAM['uop']} {ROW}\n"
    load += f"LOAD memory_type=acc sram_base=0 dram_base={0x4000 // 64} y_size=1 x_size=2 x_stride=2"
    store = f"STORE memory_type=out sram_base=0 dram_base={0x6000 // 16} {ROW} pop_prev=1 push_prev=1"
    execute(chip, f"{load}\nALU {ONE} {fields} push_next=1\n{store}\nFINISH pop_next=1\n", state)
    return int(read(state, "acc", 0, (1,), np.int32)[0]), int(read(state, "dram", 0x6000, (1,))[0])


@pytest.mark.parametrize(
    ("config", "amount", "expected"),
    [
        ("", 3, -13),
        ("", 20, -1),
        ("", -2, -400),
        ("hls", 3, -13),
        ("hls", 20, -100 << 12),
        ("hls", -2, -400),
        ("chisel", 20, -1),
        ("chisel", -2, -400),
    ],
)
def test_shifts_by_an_immediate(config: str, amount: int, expected: int) -> None:
    assert alu(config, f"alu_opcode=shr use_imm=1 imm={amount}", -100)[0] == expected


@pytest.mark.parametrize(("config", "expected"), [("", -400), ("hls", -400), ("chisel", -1)])
def test_a_vector_shift_by_a_negative_lane(config: str, expected: int) -> None:
    """Chisel takes the direction from the immediate's sign, here 0: right by 30."""
    assert alu(config, "alu_opcode=shr", -100, -2)[0] == expected


@pytest.mark.parametrize("config", ["", "hls", "chisel"])
def test_every_implementation_stores_the_low_byte_of_an_alu_result(config: str) -> None:
    assert alu(config, "alu_opcode=add use_imm=1 imm=300", 41) == (341, 341 - 256)


@pytest.mark.parametrize("config", ["hls", "chisel"])
def test_hardware_has_no_multiplication_and_no_8_bit_loads(config: str) -> None:
    with pytest.raises(UserError, match="no MUL"):
        alu(config, "alu_opcode=mul", 1)
    with pytest.raises(UserError, match="no 8-bit loads"):
        execute(load_machine("vta", config), f"LOAD memory_type=acc8 sram_base=0 dram_base=0 {ROW}\nFINISH", new_state(load_machine("vta", config)))


@pytest.mark.parametrize(("config", "stored"), [("", 0), ("hls", 16 * 6 + 5), ("chisel", 0)])
def test_what_a_store_finds_after_a_reset(config: str, stored: int) -> None:
    """The accumulator holds 0 everywhere; the HLS buffer gets the sum that the reset dropped, Chisel's what was there before."""
    chip = load_machine("vta", config, {"LOG_DRAM": "16"})
    state = start(
        chip,
        {0x1000: np.array([0], "<u4"), 0x2000: np.full(16, 2, np.int8), 0x8000: np.full(256, 3, np.int8), 0x4000: np.full(16, 5, "<i4")},
    )
    text = f"""
        LOAD memory_type=inp sram_base=0 dram_base={0x2000 // 16} {ROW}
        LOAD memory_type=wgt sram_base=0 dram_base={0x8000 // 256} {ROW} push_next=1
        LOAD memory_type=uop sram_base=0 dram_base={DRAM["uop"]} {ROW}
        LOAD memory_type=acc sram_base=0 dram_base={0x4000 // 64} {ROW} pop_prev=1
        GEMM reset=1 {ONE} wgt_factor_out=0 wgt_factor_in=0 push_next=1
        STORE memory_type=out sram_base=0 dram_base={0x6000 // 16} {ROW} pop_prev=1 push_prev=1
        FINISH pop_next=1
    """
    execute(chip, text, state)
    assert not read(state, "acc", 0, (16,), np.int32).any()
    np.testing.assert_array_equal(read(state, "dram", 0x6000, (16,)), np.full(16, stored))


@pytest.mark.parametrize("config", ["hls", "chisel"])
def test_hardware_stores_from_a_buffer_that_loads_do_not_fill(config: str) -> None:
    chip = load_machine("vta", config, {"LOG_DRAM": "16"})
    state = start(chip, {0x4000: np.full(16, 5, "<i4")})
    text = f"""
        LOAD memory_type=acc sram_base=0 dram_base={0x4000 // 64} {ROW} push_next=1
        STORE memory_type=out sram_base=0 dram_base={0x6000 // 16} {ROW} pop_prev=1 push_prev=1
        FINISH pop_next=1
    """
    execute(chip, text, state)
    assert not read(state, "dram", 0x6000, (16,)).any()


def loaded(config: str, memory: str, fields: str, count: int, kind: type[np.generic], depth: int) -> Array:
    """First lane of each of `count` elements after one load over elements that held -1; DRAM holds 1, 2, 3, ..."""
    chip = load_machine("vta", config, {"LOG_DRAM": "16"})
    state = start(chip, {0x8000: np.repeat(np.arange(1, 13), depth).astype(kind)})
    state.memories[memory][:] = 0xFF
    base = 0x8000 // (depth * np.dtype(kind).itemsize)
    execute(
        chip,
        f"LOAD memory_type={memory} sram_base=0 dram_base={base} {fields} push_next={int(memory == 'wgt')}\nFINISH pop_prev={int(memory == 'wgt')}\n",
        state,
    )
    return read(state, memory, 0, (count, depth), kind)[:, 0]


@pytest.mark.parametrize(("config", "expected"), [("", [1, 2, 4, 5, -1]), ("hls", [1, 2, -1, -1, -1]), ("chisel", [1, 2, -1, -1, -1])])
def test_rows_of_micro_ops(config: str, expected: list[int]) -> None:
    np.testing.assert_array_equal(loaded(config, "uop", "y_size=2 x_size=2 x_stride=3", 5, np.int32, 1), expected)


@pytest.mark.parametrize(("config", "expected"), [("", [0, 1, 0, 3, -1]), ("hls", [1, 3, -1, -1, -1]), ("chisel", [0, 1, 0, 3, -1])])
def test_pads_of_weights(config: str, expected: list[int]) -> None:
    np.testing.assert_array_equal(loaded(config, "wgt", "y_size=2 x_size=1 x_stride=2 x_pad_0=1", 5, np.int8, 256), expected)


@pytest.mark.parametrize(("config", "expected"), [("", [-1, -1, -1]), ("hls", [0, 0, -1]), ("chisel", [-1, -1, -1])])
def test_a_load_of_nothing_with_pads(config: str, expected: list[int]) -> None:
    np.testing.assert_array_equal(loaded(config, "acc", "y_size=1 x_size=0 x_stride=0 x_pad_0=2", 3, np.int32, 16), expected)


def test_hardware_queues_and_counters_have_an_end() -> None:
    assert {u.depth for u in load_machine("vta").units} == {None}
    assert {u.depth for u in load_machine("vta:hls").units} == {512}
    assert {c.depth for c in load_machine("vta:chisel").counters} == {255}
    assert {c.depth for c in load_machine("vta:hls").counters} == {1024}


GOLDEN = sorted((Path(__file__).resolve().parents[1] / "data" / "vta_golden").glob("*.npz"))


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_golden_programs_end_alike_on_every_implementation_that_they_are_portable_to(path: Path) -> None:
    """VTA's HLS source ran all of them; Chisel shifts by negative lanes another way, and its cache of micro-ops is smaller."""
    with np.load(path) as data:
        code, before, after = data["insns"].tobytes(), data["dram_before"], data["dram_after"]
    warned = {d.hint for d in portability(decode(load_machine("vta"), [code]))}
    assert warned <= {"portable check 'shift_by_vector'"}
    for config, overrides in (("hls", {}), ("chisel", {"LOG_UOP_BUFF": "15"})):
        if config == "chisel" and warned:
            continue
        chip = load_machine("vta", config, overrides)
        program, state = decode(chip, [code]), new_state(chip)
        state.memories["dram"][0, : len(before)] = before
        engine_named("fast")(program, state, check_program(program, state).order)
        np.testing.assert_array_equal(state.memories["dram"][0, : len(after)], after)


def test_an_instruction_that_no_queue_has_room_for_holds_up_the_others() -> None:
    """The shuffled programs put many loads before the work they wait for: eight places are too few."""
    path = next(p for p in GOLDEN if p.stem.startswith("r12"))
    with np.load(path) as data:
        code = data["insns"].tobytes()
    with pytest.raises(UserError, match="stands behind"):
        issue_order(decode(load_machine("vta:hls", overrides={"QUEUE_DEPTH": "8"}), [code]))


def test_the_hls_configuration_finds_stores_of_what_only_a_load_wrote() -> None:
    text = f"LOAD memory_type=acc sram_base=0 dram_base=256 {ROW} push_next=1\n"
    text += f"STORE memory_type=out sram_base=0 dram_base=2000 {ROW} pop_prev=1 push_prev=1\nFINISH pop_next=1"
    for config, code in (("", ""), ("hls", "E0602"), ("chisel", "E0602")):
        chip = load_machine("vta", config)
        program = assemble(chip, Source("a.asm", text))
        if not code:
            check_program(program, new_state(chip))
            continue
        with pytest.raises(UserError) as error:
            check_program(program, new_state(chip))
        assert error.value.diagnostics[0].code == code


@pytest.mark.parametrize("config", ["hls", "pynq"])
def test_programs_for_hls_cores_reset_inside_their_buffers_and_keep_destinations_apart(config: str) -> None:
    """The HLS core adds a product to what it resets: wherever the sums stand, it reads elements of its own (not E1307), and no tile's."""
    machine = load_machine("vta", config)
    kernels = load_kernels(machine)
    region = random_region(kernels, 3, 4, 1)
    assert region is not None
    compiled = compile_region(machine, kernels, region)
    assert proven(compiled, machine)
    assert [i.pipelined.apart for i in machine.instructions if i.pipelined] == [2, 2]
    assert not len(repeats(compiled.checked.provenance))


BOARD = {
    "a layer of vgg16": convolution((1, 64, 14, 14), (64, 3, 3), pads=(1, 1, 1, 1)),
    "a dense layer": convolution((1, 512, 1, 1), (112, 1, 1)),
    "a layer of digits": convolution((1, 16, 8, 8), (16, 3, 3), pads=(1, 1, 1, 1)),
    "a point-wise layer of mobilenet_v2": convolution((1, 96, 7, 7), (160, 1, 1)),
}


@pytest.mark.parametrize("name", BOARD)
@pytest.mark.parametrize("config", ["pynq", "ultra96", "zcu104"])
def test_layers_on_boards_meet_no_destination_again_within_two_steps(config: str, name: str) -> None:
    machine = load_machine("vta", config)
    kernels = load_kernels(machine)
    choice = compile_operation(machine, choose_kernel(machine, kernels, BOARD[name]).kernel, BOARD[name], timed=1)
    assert {i.pipelined.apart for i in machine.instructions if i.pipelined} == {2}
    assert not len(repeats(choice.checked.provenance))
