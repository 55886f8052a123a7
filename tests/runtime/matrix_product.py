"""A tiled matrix product driven through a command queue, two contexts at a time, as a schedule for VTA lowers to runtime calls."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toolchain.runtime.command_queue import CommandQueue, Limits
from toolchain.runtime.device_memory import EmulatedQueueDevice, Records
from toolchain.schedule.kernels.kernel_file import load_kernels
from toolchain.spec.load import load_machine

Array = NDArray[Any]
BLOCK = 16


@dataclass(frozen=True)
class Product:
    """Sizes in blocks of 16, rows alone; tile: rows, columns, depth of one tile."""

    rows: int = 16
    columns: int = 4
    depth: int = 6
    tile: tuple[int, int, int] = (8, 2, 2)
    shift: int = 7

    def operands(self) -> tuple[Array, Array]:
        rng = np.random.default_rng(3)
        a = rng.integers(-128, 128, (self.rows, self.depth * BLOCK), np.int8)
        return a, rng.integers(-128, 128, (self.columns * BLOCK, self.depth * BLOCK), np.int8)

    def expected(self) -> Array:
        a, b = (x.astype(np.int64) for x in self.operands())
        return np.clip((a @ b.T) >> self.shift, -128, 127)


def make_queue(limits: Limits | None = None, explicit: bool = True, check: bool = True, **overrides: str) -> CommandQueue:
    machine = load_machine("vta", overrides=overrides)
    return CommandQueue(EmulatedQueueDevice(machine, check), load_kernels(machine), limits, explicit)


def multiply(queue: CommandQueue, product: Product, forget: str = "") -> Array:
    """The product as the device computes it. forget: a dependence, `source target`, that is left out."""
    run = _Run(queue, product, forget)
    for number, (row, column) in enumerate(np.ndindex(product.rows // product.tile[0], product.columns // product.tile[1])):
        run.tile(number, row, column)
    stored = np.frombuffer(queue.copy_out(run.c), np.int8)
    return stored.reshape(product.rows, product.columns * BLOCK)


class _Run:
    def __init__(self, queue: CommandQueue, product: Product, forget: str) -> None:
        self.queue, self.product, self.forget, self.steps = queue, product, forget, 0
        a, b = product.operands()
        turned = b.reshape(product.columns, BLOCK, product.depth, BLOCK).transpose(0, 2, 1, 3)
        self.a, self.b, self.c = (queue.allocate(size) for size in (a.nbytes, b.nbytes, product.rows * product.columns * BLOCK))
        queue.copy_in(self.a, a.tobytes())
        queue.copy_in(self.b, turned.tobytes())

    def push(self, source: str, target: str) -> None:
        if self.queue.explicit and f"{source} {target}" != self.forget:
            self.queue.push_dependence(source, target)

    def pop(self, source: str, target: str) -> None:
        if self.queue.explicit and f"{source} {target}" != self.forget:
            self.queue.pop_dependence(source, target)

    def records(self, context: int) -> Records:
        """Every accumulator of a context."""
        rows, columns, _ = self.product.tile
        first = context * rows * columns
        return self.queue.kernel([{"dst": first + k, "src": first + k} for k in range(rows * columns)])

    def gemm(self, records: Records, depth: int, reset: int) -> None:
        factors = {"dst_factor_out": 0, "dst_factor_in": 0, "src_factor_out": 0, "wgt_factor_out": 0}
        inner = {"src_factor_in": 0 if reset else 1, "wgt_factor_in": 0 if reset else 1}
        self.queue.push("GEMM", reset=reset, uop_bgn=records.first, uop_end=records.stop, iter_out=1, iter_in=depth, **factors, **inner)

    def alu(self, context: int, operation: str, immediate: int) -> None:
        records = self.records(context)
        factors = dict.fromkeys(("dst_factor_out", "dst_factor_in", "src_factor_out", "src_factor_in"), 0)
        one = {"iter_out": 1, "iter_in": 1, "use_imm": 1, "imm": immediate}
        self.queue.push("ALU", alu_opcode=operation, uop_bgn=records.first, uop_end=records.stop, **one, **factors)

    def tile(self, number: int, row: int, column: int) -> None:
        product, queue, context = self.product, self.queue, number % 2
        rows, columns, depth = product.tile
        if number >= 2:
            self.pop("store", "compute")
        self.gemm(self.records(context), 1, reset=1)
        for k in range(product.depth // depth):
            self.step(row, column, k, context)
        for operation, immediate in (("shr", product.shift), ("max", -128), ("min", 127)):
            self.alu(context, operation, immediate)
        self.push("compute", "store")
        self.pop("compute", "store")
        where = self.c.at("dram.out", row * rows * product.columns + column * columns)
        sizes = {"y_size": rows, "x_size": columns, "x_stride": product.columns}
        queue.push("STORE", memory_type="out", sram_base=context * rows * columns, dram_base=where, **sizes)
        self.push("store", "compute")

    def step(self, row: int, column: int, k: int, context: int) -> None:
        """Loads go round two buffers of their own, whichever accumulators they are for."""
        product, queue = self.product, self.queue
        rows, columns, depth = product.tile
        if self.steps >= 2:
            self.pop("compute", "load")
        slot = self.steps % 2
        x = {"y_size": rows, "x_size": depth, "x_stride": product.depth}
        w = {"y_size": columns, "x_size": depth, "x_stride": product.depth}
        first = row * rows * product.depth + k * depth
        queue.push("LOAD", memory_type="inp", sram_base=slot * rows * depth, dram_base=self.a.at("dram.inp", first), **x)
        first = column * columns * product.depth + k * depth
        queue.push("LOAD", memory_type="wgt", sram_base=slot * columns * depth, dram_base=self.b.at("dram.wgt", first), **w)
        self.push("load", "compute")
        self.pop("load", "compute")
        self.gemm(self.product_records(context, slot), depth, reset=0)
        self.push("compute", "load")
        self.steps += 1

    def product_records(self, context: int, slot: int) -> Records:
        rows, columns, depth = self.product.tile
        first, x, w = context * rows * columns, slot * rows * depth, slot * columns * depth
        return self.queue.kernel(
            [{"dst": first + r * columns + c, "src": x + r * depth, "wgt": w + c * depth} for r in range(rows) for c in range(columns)]
        )
