"""The stretches of a memory that an operation's slots keep to, where a schedule gives it only a part."""

from dataclasses import replace

from toolchain.schedule.form.schedule import Schedule, ScheduledOperation
from toolchain.schedule.kernels.pools import Pool
from toolchain.schedule.kernels.problem import Problem
from toolchain.spec.errors import nearest
from toolchain.spec.yaml_nodes import Path


def narrowed(schedule: Schedule, path: Path, operation: ScheduledOperation, problem: Problem) -> Problem:
    """The problem with those stretches for its pools. Raises UserError E1406 for one that is not free."""
    pools = dict(problem.pools)
    memories = {p.memory: None for p in problem.kernel.places if p.name not in problem.known}
    for memory, stretches in operation.within.items():
        if memory not in memories:
            text, hint = f"'{operation.name}' has no tiles in '{memory}' that could keep to a part of it", nearest(memory, memories)
            raise schedule.error("E1406", text, (*path, "within", memory), hint or f"known: {', '.join(memories)}")
        for number, stretch in enumerate(stretches):
            if not any(_inside(stretch, pool) for pool in problem.pools[memory]):
                text = f"{stretch.start}..{stretch.start + stretch.depth - 1} of bank {stretch.bank} is not all free in '{memory}'"
                raise schedule.error("E1406", text, (*path, "within", memory, number))
        pools[memory] = stretches
    return replace(problem, pools=pools)


def _inside(part: Pool, whole: Pool) -> bool:
    return part.bank == whole.bank and whole.start <= part.start and part.start + part.depth <= whole.start + whole.depth
