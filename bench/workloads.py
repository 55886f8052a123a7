"""Programs that bench/emulator times: a convolution of ResNet-18 tiled for VTA, vendor programs of DPUv3INT8, tiny instructions."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from toolchain.analysis.state import State, new_state
from toolchain.isa.checks import build_program
from toolchain.isa.decode import decode
from toolchain.isa.encode import encode, offsets
from toolchain.isa.program import Program
from toolchain.spec.load import load_machine
from toolchain.spec.model import Machine


@dataclass(frozen=True)
class Workload:
    """A program, the state it starts from, and the multiply-accumulates it does (0: count instructions instead)."""

    name: str
    program: Program
    state: State
    macs: int


@dataclass
class Rows:
    """Instructions written one by one, kept as columns."""

    machine: Machine
    kinds: list[int] = field(default_factory=list)
    columns: list[dict[str, list[int]]] = field(default_factory=list)

    def add(self, name: str, **values: int) -> None:
        """One instruction; fields that are not named are zero."""
        if not self.columns:
            self.columns = [{f.name: [] for f in i.fields} for i in self.machine.instructions]
        kind = next(n for n, i in enumerate(self.machine.instructions) if i.name == name)
        instruction = self.machine.instructions[kind]
        self.kinds.append(kind)
        for f in instruction.fields:
            self.columns[kind][f.name].append(instruction.match.get(f.name, values.get(f.name, 0)))

    def program(self) -> Program:
        """Encoded and decoded again, as if it came from a file."""
        columns = [{name: np.array(values, np.int64) for name, values in held.items()} for held in self.columns]
        return decode(self.machine, [encode(self.machine, np.array(self.kinds, np.int64), columns)])


C2 = {"size": 56, "channels": 64, "rows": 14}
INPUT, WEIGHTS, OUTPUT, MICRO = 1 << 16, 1 << 20, 1 << 21, 1 << 14
"""Physical byte addresses in DRAM."""


def resnet18_c2(seed: int = 0) -> Workload:
    """56x56, 64 to 64 channels, 3x3: 14 rows and one output block at a time, two contexts in flight, as TVM tiles it."""
    machine = load_machine("vta")
    state = new_state(machine)
    dram = state.memories["dram"][0]
    rng = np.random.default_rng(seed)
    dram[INPUT : INPUT + 56 * 56 * 64] = rng.integers(0, 256, 56 * 56 * 64, np.uint8)
    dram[WEIGHTS : WEIGHTS + 9 * 64 * 64] = rng.integers(0, 256, 9 * 64 * 64, np.uint8)
    micro = np.array(c2_micro_ops(), "<u4")
    dram[MICRO : MICRO + micro.nbytes] = micro.view(np.uint8)
    return Workload("VTA ResNet-18 C2", c2_program(machine), state, 56 * 56 * 64 * 64 * 9)


def c2_micro_ops() -> list[int]:
    """For each context: 42 of the convolution (kernel row, output row), then one for whole-tile loops."""
    words: list[int] = []
    for context in (0, 1):
        dst, src, wgt = 784 * context, 928 * context, 9 * context
        words += [(dst + h * 56) | (src + (h + kh) * 58) << 11 | (wgt + kh * 3) << 22 for kh in range(3) for h in range(14)]
        words.append(dst | dst << 11)
    return words


def c2_program(machine: Machine, images: int = 1) -> Program:
    """290 instructions: loads, products, requantisation and stores, ordered by tokens between the three queues; the same again for more images."""
    rows, tiles = Rows(machine), [(r, pair) for _ in range(images) for r in range(4) for pair in range(2)]
    total = len(tiles) * 4 * 2
    rows.add("LOAD", memory_type=0, sram_base=0, dram_base=MICRO // 4, y_size=1, x_size=86, x_stride=86)
    group = 0
    for number, (r, pair) in enumerate(tiles):
        for context in (0, 1):
            base = 43 * context + 42
            whole = {"uop_bgn": base, "uop_end": base + 1, "iter_out": 14, "iter_in": 56, "dst_factor_out": 56, "dst_factor_in": 1}
            rows.add("GEMM", reset=1, pop_next=int(number > 0), **whole)
        for ci in range(4):
            for context in (0, 1):
                _c2_step(rows, group, total, r, ci, 2 * pair + context, context)
                group += 1
        for context in (0, 1):
            _c2_finish(rows, number == len(tiles) - 1, r, 2 * pair + context, context)
    rows.add("FINISH", pop_next=1)
    return rows.program()


def _c2_step(rows: Rows, group: int, total: int, r: int, ci: int, co: int, context: int) -> None:
    """Loads one input block and its weights, and adds their products."""
    top, bottom = int(r == 0), int(r == 3)
    first = INPUT // 16 + ci * 3136 + (14 * r - 1 + top) * 56
    rows.add(
        "LOAD", memory_type=2, sram_base=928 * context, dram_base=first, y_size=16 - top - bottom, x_size=56, x_stride=56,
        y_pad_0=top, y_pad_1=bottom, x_pad_0=1, x_pad_1=1, pop_next=int(group >= 2),
    )  # fmt: skip
    rows.add("LOAD", memory_type=1, sram_base=9 * context, dram_base=WEIGHTS // 256 + (co * 4 + ci) * 9, y_size=1, x_size=9, x_stride=9, push_next=1)
    rows.add(
        "GEMM", uop_bgn=43 * context, uop_end=43 * context + 42, iter_out=56, iter_in=3, dst_factor_out=1, src_factor_out=1, src_factor_in=1,
        wgt_factor_in=1, pop_prev=1, push_prev=int(group + 2 < total),
    )  # fmt: skip


def _c2_finish(rows: Rows, last: bool, r: int, co: int, context: int) -> None:
    """Rounds, shifts, clips and stores one tile."""
    base = 43 * context + 42
    whole = {"uop_bgn": base, "uop_end": base + 1, "iter_out": 14, "iter_in": 56}
    for name, value in (("dst", 1), ("src", 1)):
        whole |= {f"{name}_factor_out": 56 * value, f"{name}_factor_in": value}
    for number, (opcode, imm) in enumerate(((2, 128), (3, 8), (1, 0), (0, 127))):
        rows.add("ALU", alu_opcode=opcode, use_imm=1, imm=imm, push_next=int(number == 3), **whole)
    rows.add(
        "STORE", memory_type=4, sram_base=784 * context, dram_base=OUTPUT // 16 + co * 3136 + 14 * r * 56, y_size=1, x_size=784, x_stride=784,
        pop_prev=1, push_prev=int(not last or context == 1),
    )  # fmt: skip


def c2_expected(dram: NDArray[np.uint8]) -> NDArray[np.int8]:
    """[4, 56, 56, 16]: the convolution that c2_program should have stored, computed directly."""
    x = np.zeros((64, 58, 58), np.float64)
    x[:, 1:57, 1:57] = dram[INPUT : INPUT + 200704].view(np.int8).reshape(4, 56, 56, 16).transpose(0, 3, 1, 2).reshape(64, 56, 56)
    w = dram[WEIGHTS : WEIGHTS + 36864].view(np.int8).reshape(4, 4, 9, 16, 16).transpose(0, 3, 1, 4, 2).reshape(64, 64, 9).astype(np.float64)
    acc = sum(w[:, :, k] @ x[:, k // 3 : k // 3 + 56, k % 3 : k % 3 + 56].reshape(64, -1) for k in range(9))
    y = np.clip((np.asarray(acc).astype(np.int64) + 128) >> 8, 0, 127).astype(np.int8)
    return y.reshape(4, 16, 56, 56).transpose(0, 2, 3, 1)


def tiny(name: str, values: Mapping[str, int], count: int = 1_000_000) -> Workload:
    """`count` instructions of one element each; field values given, addresses walking through the memories."""
    machine = load_machine("vta")
    kind = next(n for n, i in enumerate(machine.instructions) if i.name == name)
    walk = np.arange(count, dtype=np.int64)
    columns = [{f.name: np.zeros(0, np.int64) for f in i.fields} for i in machine.instructions]
    instruction = machine.instructions[kind]
    columns[kind] = {f.name: np.full(count, instruction.match.get(f.name, values.get(f.name, 0)), np.int64) for f in instruction.fields}
    for address in ("uop_bgn", "uop_end", "sram_base"):
        if address in columns[kind]:
            columns[kind][address] = columns[kind][address] + walk % 1024
    kinds = np.full(count, kind, np.int64)
    program = build_program(machine, [b""], kinds, np.zeros(count, np.int64), offsets(machine, kinds)[0], tuple(columns))
    state = new_state(machine)
    state.memories["uop"][0, :4096] = (np.arange(1024) | np.arange(1024) << 11 | np.arange(1024) << 22).astype("<u4").view(np.uint8)
    return Workload(f"{count // 1000} k one-element {name}", program, state, 0)


def tinies() -> list[Workload]:
    """One of each kind."""
    loops = {"uop_end": 1, "iter_out": 1, "iter_in": 1}
    window = {"x_size": 1, "y_size": 1, "x_stride": 1, "dram_base": 4096}
    return [
        tiny("GEMM", loops), tiny("ALU", {**loops, "alu_opcode": 2, "use_imm": 1, "imm": 3}),
        tiny("LOAD", {**window, "memory_type": 2}), tiny("STORE", {**window, "memory_type": 4}),
    ]  # fmt: skip


BASES = (0, 1 << 26, 1 << 27, 1 << 28)
"""Where the host puts input, result, swap and parameters of a DPUv3INT8 program."""


def vendor(folder: Path, name: str, seed: int = 1) -> Workload:
    """A vendor program on random bytes."""
    machine = load_machine("dpuv3")
    words = np.array([int(word, 16) for word in (folder / f"{name}.hex").read_text().split()], "<u4")
    program, state = decode(machine, [words.tobytes()]), new_state(machine)
    rng, ddr = np.random.default_rng(seed), state.memories["ddr"][0]
    state.host["base"][0] = BASES
    for base, size in ((BASES[0], 1 << 24), (BASES[3], 1 << 25)):
        ddr[base : base + size] = rng.integers(0, 256, size, np.uint8)
    return Workload(f"DPUv3INT8 {name}", program, state, vendor_macs(program))


def vendor_macs(program: Program) -> int:
    """Multiply-accumulates of a DPUv3INT8 program's convolutions, all four images."""
    names, total, held = [i.name for i in program.machine.instructions], 0, -1
    for index, kind in enumerate(program.kind.tolist()):
        if names[kind] == "CONVINIT":
            held = index
        elif names[kind] == "CONV":
            area = program.field(index, "length") * program.field(index, "valid_pixel_parallel")
            groups = program.field(held, "channel_group_in") * program.field(held, "channel_group_out")
            total += 4 * 256 * area * groups * program.field(held, "kernel_h") * program.field(held, "kernel_w")
    return total
