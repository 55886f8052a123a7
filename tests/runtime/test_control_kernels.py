"""Kernels of records: made once, in DRAM once, on chip while they were used last."""

import numpy as np

from toolchain.runtime.control_kernels import RecordCache, Records, residency_of
from toolchain.runtime.device_memory import Buffer, DeviceMemory
from toolchain.schedule.kernels.kernel_file import load_kernels
from toolchain.spec.load import load_machine

MACHINE = load_machine("vta", overrides={"LOG_UOP_BUFF": "8"})
DEPTH = 64


class Store:
    """DRAM that remembers what was put into it."""

    def __init__(self) -> None:
        self.memory, self.placed = DeviceMemory(MACHINE), list[bytes]()

    def __call__(self, content: bytes) -> Buffer:
        self.placed.append(content)
        return self.memory.allocate(len(content))


def cache() -> tuple[RecordCache, Store]:
    store, residency = Store(), residency_of(MACHINE, load_kernels(MACHINE))
    assert residency is not None
    return RecordCache(residency, store), store


def kernel(held: RecordCache, first: int, count: int) -> Records:
    return held.make([{"dst": first + k, "src": k, "wgt": 1} for k in range(count)])


def test_records_are_the_machine_s_bit_fields() -> None:
    held, _ = cache()
    words = np.frombuffer(kernel(held, 5, 3).content, "<u4").tolist()
    assert words == [5 + k | k << 11 | 1 << 22 for k in range(3)]


def test_the_least_recently_used_kernel_is_swapped_out() -> None:
    held, store = cache()
    a, b, c = (kernel(held, first, DEPTH // 2) for first in (0, 100, 200))
    fetched = [bool(held.need([each])) for each in (a, b, a, c, a, b, a)]
    assert fetched == [True, True, False, True, False, True, False]
    assert held.fetches == 4
    assert store.placed == [a.content, b.content, c.content]


def test_the_fetch_names_where_it_stands() -> None:
    held, _ = cache()
    a, b = kernel(held, 0, 10), kernel(held, 100, 4)
    lines = held.need([a, b, a]).splitlines()
    assert len(lines) == 2
    base = held.stored[b.content].at("dram.uop")
    assert lines[1].split() == f"LOAD memory_type=uop sram_base=10 dram_base={base} y_size=1 x_size=4 x_stride=4".split()
    assert [held.address(where) for where in (a.first, a.stop, b.first, b.first + 2, b.stop)] == [0, 10, 10, 12, 14]


def test_machines_without_records_have_no_residency() -> None:
    machine = load_machine("dpuv3")
    assert residency_of(machine, load_kernels(machine)) is None
