"""The tile of an operation, as a schedule has it."""

from collections.abc import Iterator

from toolchain.schedule.form.schedule import Schedule, ScheduledOperation
from toolchain.schedule.kernels.problem import Problem
from toolchain.schedule.tiling.tile_size import TileSize, size_limits
from toolchain.spec.errors import Diagnostic, UserError, nearest
from toolchain.spec.yaml_nodes import Path


def check_tile(schedule: Schedule, path: Path, operation: ScheduledOperation, problem: Problem) -> TileSize:
    """The tile's size. Raises UserError E1405 for dimensions and sizes that the kernel does not have or allow."""
    faults = list(_faults(schedule, path, operation, problem))
    if faults:
        raise UserError(*faults)
    found = TileSize(problem, dict(operation.tile))
    if found.broken:
        text = f"kernel '{operation.kernel}' allows no such tile of '{operation.name}': {found.broken}"
        raise schedule.error("E1405", text, (*path, "tile"))
    return found


def _faults(schedule: Schedule, path: Path, operation: ScheduledOperation, problem: Problem) -> Iterator[Diagnostic]:
    known, given = [d.name for d in problem.kernel.tile], [cut.dimension for cut in operation.tile]
    for name in given:
        if name not in known:
            hint = nearest(name, known) or f"known: {', '.join(known)}"
            yield schedule.fault("E1405", f"kernel '{operation.kernel}' has no dimension '{name}'", (*path, "tile", name), hint)
    missing = [name for name in known if name not in given]
    if missing:
        extents = ", ".join(f"{name}: {problem.extents[name]}" for name in missing)
        yield schedule.fault("E1405", f"the tile of '{operation.name}' lacks {', '.join(missing)}", (*path, "tile"), f"the whole is {extents}")
    yield from (fault for cut in operation.tile if cut.dimension in known for fault in _size(schedule, path, problem, *cut))
    yield from _order(schedule, path, operation, problem)


def _size(schedule: Schedule, path: Path, problem: Problem, name: str, size: int) -> Iterator[Diagnostic]:
    (most, multiple), extent, where = size_limits(problem, name), problem.extents[name], (*path, "tile", name)
    if size > most:
        limit = f"the whole is {extent}" if most == extent else f"kernel '{problem.kernel.name}' allows {most}"
        yield schedule.fault("E1405", f"a tile of '{problem.operation.name}' cannot have {size} units of {name}: {limit}", where)
    elif size % multiple and size != extent:
        yield schedule.fault("E1405", f"{size} units of {name} are no multiple of {multiple}, and not all {extent}", where)


def _order(schedule: Schedule, path: Path, operation: ScheduledOperation, problem: Problem) -> Iterator[Diagnostic]:
    """Sums stay where they are: their loops are innermost."""
    reducing, seen = {d.name for d in problem.kernel.reductions}, ""
    for name, _ in operation.tile:
        if name in reducing:
            seen = name
        elif seen:
            yield schedule.fault("E1405", f"'{seen}' reduces, so its loop stands inside that of '{name}'", (*path, "tile", seen), "write it last")
            return
