"""The tensors that groups of a schedule load into rings of rows."""

from collections.abc import Mapping, Sequence

from toolchain.schedule.form.schedule import Schedule
from toolchain.schedule.kernels.problem import Problem
from toolchain.schedule.placement.dram_buffers import Storage
from toolchain.schedule.regions.region import Region
from toolchain.schedule.rows.row_load import Loadable, find_loadable
from toolchain.schedule.rows.row_step import row_step
from toolchain.spec.errors import Diagnostic, UserError
from toolchain.spec.yaml_nodes import Path

Loads = Mapping[int, Sequence[Loadable]]
"""By number of the group, in its order."""


def read_loads(schedule: Schedule, region: Region, problems: Sequence[Problem], storage: Storage) -> Loads:
    """problems: with nothing on chip. Raises UserError E1412 for a tensor that a group cannot load so."""
    found, faults = dict[int, list[Loadable]](), list[Diagnostic]()
    whole = {buffer.tensor for buffer in schedule.buffers if not buffer.pitch}
    for number, (group, members) in enumerate(zip(schedule.groups, schedule.members, strict=True)):
        for index, load in enumerate(group.loads):
            tensor, path = load.buffer.tensor, ("groups", number, "loads", index)
            loadable = find_loadable(region, problems, storage, members, tensor) if tensor in storage.buffers and tensor not in whole else None
            if loadable is None:
                faults.append(_fault(schedule, (*path, "tensor"), tensor, tensor in whole))
            elif load.rows % loadable.lines.together:
                text = f"{load.rows} rows of '{tensor}' are no whole lines: {loadable.lines.together} of them share a line"
                faults.append(schedule.fault("E1412", text, (*path, "rows"), f"a multiple of {loadable.lines.together}"))
            elif row_step(problems[loadable.loader.operation], loadable.loader, load.rows) is None:
                text = f"no load of the group brings {load.rows} rows of '{tensor}' at a time"
                faults.append(schedule.fault("E1412", text, (*path, "rows"), "fewer rows"))
            else:
                found.setdefault(number, []).append(loadable)
    if faults:
        raise UserError(*faults)
    return found


def _fault(schedule: Schedule, path: Path, tensor: str, whole: bool) -> Diagnostic:
    if whole:
        return schedule.fault("E1412", f"'{tensor}' stays on chip as a whole, so no group loads it", path, "take it out of loads, or out of buffers")
    hint = "it must stand in DRAM as an operand of the group, which makes no part of it, in the form that operations hand over on chip"
    return schedule.fault("E1412", f"no operation of the group can load '{tensor}' into a ring of rows", path, hint)
