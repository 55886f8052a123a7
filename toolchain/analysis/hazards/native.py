"""Find the hazards of toolchain/analysis/hazards/races.py in C, over a shadow of every memory."""

import ctypes
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toolchain.analysis.compile import load_library
from toolchain.analysis.hazards.races import Hazards, Timeline, find_hazards, gather
from toolchain.isa.footprint.footprints import Footprints, granules

CHECKER = Path(__file__).resolve().parents[2] / "templates" / "checker"


class _Record(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_int64) for name in Hazards.__dataclass_fields__)


class _Task(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_int64) for name in ("n", "queues", "memories")),
        *((name, ctypes.c_void_p) for name in ("order", "first", "memory", "start", "stop", "queue", "place", "granules", "write", "clock")),
        ("records", ctypes.POINTER(_Record)),
        ("count", ctypes.c_int64),
    )


def hazards(prints: Footprints, timeline: Timeline) -> Hazards:
    """Every race and every read of unwritten granules: in C where there is a compiler, else with numpy. Raises MemoryError."""
    library = load_library("hazards", (CHECKER / "hazards.c").read_text())
    return find_hazards(prints, timeline) if library is None else _native(library, prints, timeline)


def _native(library: ctypes.CDLL, prints: Footprints, timeline: Timeline) -> Hazards:
    machine, runs = prints.program.machine, prints.runs
    sizes = np.array([granules(m) * machine.instances(m.scope) if m.kind != "register" else 0 for m in machine.memories], np.int64)
    arrays: dict[str, NDArray[Any]] = {
        "order": timeline.order, "first": prints.first, "memory": runs.memory, "start": runs.start, "stop": runs.stop,
        "queue": timeline.queue, "place": timeline.place, "granules": sizes,
        "write": runs.write, "clock": timeline.clock,
    }  # fmt: skip
    kinds = {"write": np.uint8, "clock": np.int32}
    held = {name: np.ascontiguousarray(array, kinds.get(name, np.int64)) for name, array in arrays.items()}
    pointers = [held[name].ctypes.data for name in arrays]
    task = _Task(len(timeline.order), timeline.clock.shape[1], len(sizes), *pointers, None, 0)
    if library.hazards(ctypes.byref(task)):
        raise MemoryError("the hazard check needs more memory than there is")
    count = int(task.count)
    table = (
        np.ctypeslib.as_array(ctypes.cast(task.records, ctypes.POINTER(ctypes.c_int64)), (count, 6)).copy() if count else np.zeros((0, 6), np.int64)
    )
    library.hazards_free(ctypes.byref(task))
    return gather([Hazards(*(np.ascontiguousarray(column) for column in table.T))], timeline.position)
