"""Programs with one fault each are refused, good ones pass, and a latched register keeps its value between programs."""

import contextlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.spec.small import small
from tests.tiny_machine import streams, tiny, word
from toolchain.analysis.checks import check_program, footprint_comments
from toolchain.analysis.state import new_state
from toolchain.emulator import engine_named
from toolchain.isa.assembly import assemble, disassemble
from toolchain.isa.decode import decode
from toolchain.isa.encode import encode
from toolchain.isa.program import Program
from toolchain.schedule.synchronisation.synchronise import synchronise
from toolchain.spec.errors import Diagnostic, Source, UserError
from toolchain.spec.load import load_machine
from toolchain.spec.model import Machine

MACHINE = load_machine("dpuv3", overrides={"LOG_DDR": "20"})
FIRST = "ELEWINIT 0000 0000 bank_id_in 0 shift_read 0 jump_read 1 jump_read_endl 4 id 0 bank_addr_in 0"
SECOND = """ELEW 0000 0000 stride_out 1 stride_offset_out 0 num 1 nonlinear_type 0 jump_write 1 jump_write_endl 4 bank_id_out 8 bank_addr_out 0
width 4 bank_id_prelu 0 bank_addr_prelu 0 valid_pixel_parallel 1 channel_group 1 shift_write 0 shift_write_prelu_n 0""".replace("\n", " ")

TEXT = """\
LOAD memory_type=uop sram_base=0 dram_base=1024 y_size=1 x_size=4 x_stride=4
LOAD memory_type=inp sram_base=0 dram_base=512 y_size=6 x_size=16 x_stride=32 y_pad_0=1 push_next=1
GEMM uop_bgn=0 uop_end=1 iter_out=1 iter_in=16 FACTORS pop_prev=1
STORE memory_type=out sram_base=0 dram_base=8192 y_size=1 x_size=16 x_stride=16
FINISH
""".replace("FACTORS", "dst_factor_out=0 dst_factor_in=1 src_factor_out=0 src_factor_in=1 wgt_factor_out=0 wgt_factor_in=0")


@pytest.mark.parametrize("engine", ["fast", "reference"])
def test_what_was_latched_before_is_there(engine: str) -> None:
    first, second = (assemble(MACHINE, Source("test.asm", f"{line}\nEND 0000 0000\n")) for line in (FIRST, SECOND))
    state = new_state(MACHINE)
    with pytest.raises(UserError, match=r"E0606 #0 ELEW at 0x0 uses ei\[0\], which no instruction has set"):
        check_program(second, state, ["fm"])
    engine_named(engine)(first, state, check_program(first, state).order)
    state.memories["fm"][:, :64] = np.arange(64)
    engine_named(engine)(second, state, check_program(second, state, ["fm"]).order)
    assert np.array_equal(state.memories["fm"][:, 8 * 8192 * 16 : 8 * 8192 * 16 + 64], np.tile(np.arange(64, dtype=np.uint8), (4, 1)))


VTA, DPU = load_machine("vta"), load_machine("dpuv3")
UOPS = "LOAD memory_type=uop sram_base=0 dram_base=1024 y_size=1 x_size=4 x_stride=4\n"
INP = "LOAD memory_type=inp sram_base=0 dram_base=512 y_size=1 x_size=16 x_stride=16"
WGT = "LOAD memory_type=wgt sram_base=0 dram_base=64 y_size=1 x_size=4 x_stride=4"
FACTORS = "dst_factor_out=0 dst_factor_in=1 src_factor_out=0 src_factor_in=1 wgt_factor_out=0 wgt_factor_in=0"
HUGE = "iter_out=8000 iter_in=8000 dst_factor_out=2 dst_factor_in=2"
RESET = f"GEMM reset=1 uop_bgn=0 uop_end=1 iter_out=1 iter_in=16 {FACTORS}\n"
GEMM = f"GEMM uop_bgn=0 uop_end=1 iter_out=1 iter_in=16 {FACTORS}"
STORE = "STORE memory_type=out sram_base=0 dram_base=8192 y_size=1 x_size=16 x_stride=16"
GOOD = f"{UOPS}{INP}\n{WGT} push_next=1\n{RESET}{GEMM} pop_prev=1 push_next=1\n{STORE} pop_prev=1 push_prev=1\nFINISH pop_next=1\n"
POOL = "POOL {on} 0000 pad_right 15 pad_bottom 15 length 4 kernel_w 2 kernel_h 1 stride_w 1 stride_h 1 bank_addr_out 1\n"
DPU_LOAD = "LOAD 0000 {by} mode {mode} bank_id 0 bank_addr 0 jump_read 64 jump_write 1 length 8 channel 16 reg_id 0 ddr_addr 0\n"
CONVINIT = "CONVINIT 0000 0000\n"
CONV = "CONV {on} 0000 valid_pixel_parallel 1 pad_right 15 pad_bottom 15 length 8 bank_id_out 1 bank_addr_bias 1\n"
ELEW = "ELEW {on} 0000 stride_out 1 num 1 jump_write 1 jump_write_endl 1 bank_id_out 1 width 8 valid_pixel_parallel 1 channel_group 1\n"
ELEWINIT = "ELEWINIT 0000 0000 jump_read 1 jump_read_endl 1 id 0\n"
MOVES = "MOVE kind=code at=0 count=1 far=0\nMOVE kind=load at=0 count=16 far=0"
SETUP, CALC, LAST = "SETUP shift=0 rest=0 low=0", "CALC kind=0 at=0 count=1 far=0", "END\n"


def zeros(machine: Machine, text: str) -> str:
    """The assembly with every field that is not named set to 0, or to the least value that it can have."""
    lines: list[str] = []
    for line in text.splitlines():
        words = line.split()
        instruction = machine.instruction[words[0]]
        named = set(words[3::2])
        rest = [f for f in instruction.fields if f.name not in named | set(instruction.match) and f.role != "sync" and f.default is None]
        lines.append(" ".join([line, *(f"{f.name} {max(f.minus, 0)}" for f in rest)]))
    return "\n".join(lines)


def dpu(text: str) -> Program:
    return assemble(DPU, Source("case.asm", zeros(DPU, text + "END 0000 0000")))


def vta(text: str) -> Program:
    return assemble(VTA, Source("case.asm", text))


def _all(program: Program, preset: list[str]) -> list[Diagnostic]:
    """Errors and warnings."""
    try:
        return list(check_program(program, new_state(program.machine), preset).warnings)
    except UserError as error:
        return list(error.diagnostics)


def enabled(*lines: str, moved: str = "", hazard: str = "error") -> Program:
    """One unit sets a register that an instruction of another unit reads while it runs, as a register-programmed accelerator does."""
    machine = small(
        ("unit: calc\n    timing: none\n    semantics: |\n      set =", "unit: move\n    timing: none\n    semantics: |\n      set ="),
        ("latches: SETUP}", f"latches: SETUP, hazard: {hazard}}}"),
    )
    return assemble(machine, Source("case.asm", "\n".join([MOVES + moved, *lines, LAST])))


def pipelined(text: str) -> Program:
    """For a VTA whose accumulators must be left alone for a step."""
    machine = load_machine("vta", overrides={"APART": "1"})
    strict = [replace(i, pipelined=replace(i.pipelined, hazard="error")) if i.pipelined else i for i in machine.instructions]
    return assemble(replace(machine, instructions=tuple(strict)), Source("case.asm", text))


def tiny_program(semantics: str, *words: bytes, plain: bool = False) -> Program:
    machine = tiny(semantics)
    if plain:
        machine = replace(machine, instructions=tuple(replace(i, in_place=False) for i in machine.instructions))
    return decode(machine, streams(words))


def overlapping(program: Program) -> Program:
    """The same program where every unit may start an instruction before the one before it is done."""
    units = tuple(replace(u, overlaps=True) for u in program.machine.units)
    return replace(program, machine=replace(program.machine, units=units))


CASES: dict[str, Callable[[], Program]] = {
    "E0601 read after write": lambda: vta(GOOD.replace(f"{WGT} push_next=1", WGT).replace(f"{GEMM} pop_prev=1", GEMM)),
    "E0601 write after read": lambda: vta(GOOD.replace("FINISH", f"{INP}\nFINISH")),
    "E0601 store still reads": lambda: vta(GOOD.replace("FINISH", f"{RESET}FINISH")),
    "E0601 between streams": lambda: decode(tiny("dram.row[b] = loop[m] if m > 0 else 0"), streams([word(0, b=4)], [word(0, b=6)])),
    "E0601 overlapping unit": lambda: overlapping(vta(GOOD)),
    "E0602 unwritten": lambda: vta(GOOD.replace("x_size=16 x_stride=16\nLOAD memory_type=wgt", "x_size=12 x_stride=16\nLOAD memory_type=wgt")),
    "E0603 past the end": lambda: vta(GOOD.replace("inp sram_base=0", "inp sram_base=2040")),
    "E0603 below": lambda: tiny_program("for i in range(n):\n    par[a + i] = par[0]", word(0, a=-2, n=8)),
    "E0603 dram": lambda: vta(GOOD.replace("dram_base=8192", "dram_base=16777214")),
    "E0604 bank": lambda: tiny_program("for i in range(n):\n    feat[b + i, m] = dram.row[0]", word(0, b=1, n=3)),
    "E0604 instance": lambda: tiny_program("par.core(n)[b] = par[0]", word(0, n=2)),
    "E0605 misaligned": lambda: dpu(DPU_LOAD.format(by="0000", mode=0).replace("ddr_addr 0", "ddr_addr 8")),
    "E0606 CONV": lambda: dpu(DPU_LOAD.format(by="0100", mode=0) + CONV.format(on="0001")),
    "E0606 entry": lambda: dpu(DPU_LOAD.format(by="1000", mode=0) + ELEWINIT.replace("id 0", "id 1") + ELEW.format(on="0001")),
    "E0607 used up": lambda: dpu(DPU_LOAD.format(by="1000", mode=0) + ELEWINIT + ELEW.format(on="0001") + ELEW.format(on="0000")),
    "E0608 overwritten": lambda: vta(GOOD.replace("dram_base=8192", "dram_base=250")),
    "E0608 own": lambda: tiny_program("ctl[b] = dram.rec[m]\nk = ctl[0]\nloop[k.lo] = dram.row[0]", word(0)),
    "E0609 own iterations": lambda: dpu(DPU_LOAD.format(by="1000", mode=0) + POOL.format(on="0001")),
    "E0610 entry": lambda: tiny_program("loop[cfg[n].a] = dram.row[0]", word(0, n=3)),
    "E0610 host entry": lambda: tiny_program("loop[arg[b]] = dram.row[0]", word(0, b=2)),
    "E0612 too soon": lambda: pipelined(GOOD.replace("dst_factor_out=0 dst_factor_in=1", "dst_factor_out=1 dst_factor_in=0")),
    "E0611 too many": lambda: vta(GOOD.replace("iter_out=1 iter_in=16 dst_factor_out=0 dst_factor_in=1", HUGE)),
}  # fmt: skip


@pytest.mark.parametrize("compiler", ["", "none"])
@pytest.mark.parametrize("name", CASES)
def test_fault(name: str, compiler: str, golden: Callable[[str, str], None], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_CC", compiler)
    program = CASES[name]()
    with pytest.raises(UserError) as caught:
        check_program(program, new_state(program.machine))
    assert name[:5] in {d.code for d in caught.value.diagnostics}
    golden(f"checks/{name.replace(' ', '_')}.txt", "\n".join(d.headline() for d in caught.value.diagnostics) + "\n")


def test_good_program_has_nothing_against_it() -> None:
    assert check_program(vta(GOOD), new_state(VTA)).warnings == ()


@pytest.mark.parametrize(
    ("lines", "race"),
    [
        ([SETUP, f"{CALC} wait=1"], "read after write"),
        ([f"{SETUP} post=1", f"{CALC} wait=1", SETUP], "write after read"),
        ([f"{SETUP} post=1", f"{CALC} wait=1"], ""),
        ([f"{SETUP} post=1", f"{CALC} wait=1 post=1", f"{SETUP} wait=1"], ""),
    ],
)
def test_a_latched_register_is_raced_for_like_a_memory(lines: list[str], race: str) -> None:
    before = "" if any("post" in line for line in lines[:1]) else " post=1"
    program = enabled(*lines, moved=before)
    found = [d.headline() for d in _all(program, ["sums"])]
    assert [f"nothing orders them ({race})" in text and "race on set[0] of core 0" in text for text in found] == [True] * bool(race)


@pytest.mark.parametrize("name", ["error", "warning"])
def test_a_register_says_how_severe_its_races_are(name: str) -> None:
    program = enabled(SETUP, f"{CALC} wait=1", moved=" post=1", hazard=name)
    assert [(d.code, d.severity) for d in _all(program, ["sums"])] == [("E0601", name)]


def test_what_the_synchroniser_orders_the_checker_finds_ordered() -> None:
    """Both look at the same accesses, registers included."""
    program = enabled(SETUP, CALC, SETUP, CALC, SETUP)
    assert _all(program, ["sums"])
    tied = synchronise(program, new_state(program.machine)).program
    assert _all(tied, ["sums"]) == []


def test_hazard_of_a_lenient_memory_is_a_warning() -> None:
    """Parameters may be prefetched without a token, when the machine says so."""
    text = DPU_LOAD.format(by="0100", mode=0) + DPU_LOAD.format(by="0000", mode=1) + CONVINIT + CONV.format(on="0001")
    checked = check_program(dpu(text), new_state(DPU))
    assert {(d.code, d.severity) for d in checked.warnings} == {("E0601", "warning")}
    assert checked.tolerated == {"E0601": 1}


def test_vendor_programs_are_clean(vendor_streams: Path) -> None:
    """One loads weights ahead without a token and relies on time, which the machine's file lets pass as a warning."""
    for path in sorted(vendor_streams.glob("*.hex")):
        data = np.array([int(w, 16) for w in path.read_text().split()], np.uint32).tobytes()
        found = check_program(decode(DPU, [data]), new_state(DPU)).warnings
        allowed = {("E0601", "warning")} if path.stem == "resnet50_compiled_pipelined" else set[tuple[str, str]]()
        assert {(d.code, d.severity) for d in found} == allowed
        assert all(d.message.startswith("race on pm") or "more warnings of this kind" in d.message for d in found)


@pytest.mark.parametrize("path", sorted((Path(__file__).parents[1] / "data" / "vta_golden").glob("*.npz")), ids=lambda p: p.stem)
def test_golden_programs_are_clean(path: Path) -> None:
    """Also those whose queues are shuffled against each other; that some are not portable is another matter."""
    with np.load(path, allow_pickle=False) as data:
        program, state = decode(VTA, [data["insns"].tobytes()]), new_state(VTA)
        before = data["dram_before"].ravel()
    state.memories["dram"][0, : len(before)] = before
    assert {d.code for d in check_program(program, state).warnings} <= {"E0412"}


def test_no_sync_bit_of_a_vendor_program_goes_unnoticed(vendor_streams: Path) -> None:
    """Without a post it deadlocks; without a wait it races, or a token is left over."""
    words = np.array([int(w, 16) for w in (vendor_streams / "pool_1x1s2_28x28x256.hex").read_text().split()], np.uint32)
    program = decode(DPU, [words.tobytes()])
    raced = 0
    for offset in (program.offset // 4).tolist():
        for bit in (bit for bit in range(20, 28) if words[offset] >> bit & 1):
            changed = words.copy()
            changed[offset] ^= np.uint32(1 << bit)
            codes = complaints(decode(DPU, [changed.tobytes()]))
            assert codes & ({"E0501"} if bit < 24 else {"E0601", "E0505"})
            raced += "E0601" in codes
    assert raced == 56


def complaints(program: Program) -> set[str]:
    """The codes of all that check_program says."""
    try:
        return {d.code for d in check_program(program, new_state(program.machine)).warnings}
    except UserError as error:
        return {d.code for d in error.diagnostics}


SYNC = [
    (i, f.name)
    for i in range(len(vta(GOOD)))
    for f in VTA.instructions[int(vta(GOOD).kind[i])].fields
    if f.role == "sync" and vta(GOOD).field(i, f.name)
]


@pytest.mark.parametrize(("index", "field"), SYNC)
def test_every_token_of_a_tight_program_matters(index: int, field: str) -> None:
    """Without one wait or post the program deadlocks, races, or does not end last."""
    lines = GOOD.splitlines()
    lines[index] = lines[index].replace(f" {field}=1", "")
    with pytest.raises(UserError) as caught:
        check_program(vta("\n".join(lines) + "\n"), new_state(VTA))
    assert {d.code for d in caught.value.diagnostics} & {"E0501", "E0601", "E0506", "E0507"}


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(0, 2))
def test_nonsense_neither_crashes_nor_hangs(seed: int, dense: int) -> None:
    """Any field values: small ones, large ones, or both."""
    rng, kinds = np.random.default_rng(seed), np.random.default_rng(seed).choice((0, 1, 2, 4), 12)
    columns = []
    for kind, instruction in enumerate(VTA.instructions):
        count = int((kinds == kind).sum())
        top = [1 << (f.bits - 1 if dense == 0 else min(f.bits, 4) if dense == 1 else int(rng.integers(1, f.bits + 1))) for f in instruction.fields]
        values = {
            f.name: np.minimum(rng.integers(0, t, count), f.high) if f.role != "sync" else np.zeros(count, np.int64)
            for f, t in zip(instruction.fields, top, strict=True)
        }
        if instruction.name == "STORE":
            values |= {name: np.zeros(count, np.int64) for name in values if "pad" in name} | {"memory_type": np.full(count, 4)}
        elif instruction.name == "LOAD":
            values["memory_type"] = rng.choice((0, 1, 2, 3, 5), count)
        elif instruction.name == "ALU":
            values["alu_opcode"] = rng.integers(0, 5, count)
        columns.append(values | {name: np.full(count, stored) for name, stored in instruction.match.items()})
    program = decode(VTA, [encode(VTA, kinds, columns) + vta("FINISH").streams[0]])
    with contextlib.suppress(UserError):
        assert len(check_program(program, new_state(VTA)).order) == len(program)


def test_listing_with_footprints(golden: Callable[[str, str], None]) -> None:
    machine = load_machine("vta")
    program = assemble(machine, Source("listing.asm", TEXT))
    text = disassemble(program, footprint_comments(program))
    assert assemble(machine, Source("again.asm", text)).streams == program.streams
    golden("checks/listing.txt", text)
