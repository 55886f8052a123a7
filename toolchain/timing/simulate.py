"""Event simulation of a program: units, counters and shared resources, in cycles of the machine's clock."""

import ctypes
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from toolchain.analysis.checks import prepare_program
from toolchain.analysis.state import State
from toolchain.isa.footprint.footprints import Footprints
from toolchain.isa.footprint.provenance import Provenance
from toolchain.isa.program import Ints, Program, QueueTable, program_queues
from toolchain.isa.sync_tokens import SyncTokens, sync_tokens
from toolchain.spec.compile import load_checker
from toolchain.timing.cost import Costs, instruction_costs
from toolchain.timing.event_run import SimulationResult, Times, empty_result, run_events


@dataclass(frozen=True)
class Timeline:
    """A timed program; times in cycles, float64 [n].

    waited: the unit was idle because a token was missing. contended: work took longer because a resource or the ports of a bank were shared.
    held: the unit was kept after the work because a counter was full, or a unit that feeds it was still at work.
    """

    program: Program
    footprints: Footprints
    tokens: SyncTokens
    costs: Costs
    result: SimulationResult
    waited: Times
    contended: Times
    held: Times

    @property
    def cycles(self) -> float:
        """Cycles until the last instruction is done and its results are visible."""
        return float((self.result.end + self.costs.latency).max(initial=0.0))

    @property
    def milliseconds(self) -> float:
        return self.cycles / self.program.machine.timing.clock_khz


def time_state(program: Program, state: State) -> Timeline:
    """The times of a program that begins in a state; its hazards are not looked for.

    Raises UserError E0501 for a deadlock, and as `time_program`.
    """
    ready = prepare_program(program, state)
    return time_program(program, ready.footprints, ready.provenance, ready.tokens)


def time_program(program: Program, footprints: Footprints, provenance: Provenance, tokens: SyncTokens | None = None) -> Timeline:
    """Times a program that has no deadlock (issue_order finds them). The order of starts is a legal order.

    Raises UserError E0510 for a negative cost, ValueError where the program deadlocks.
    """
    return time_costs(footprints, tokens or sync_tokens(program), instruction_costs(program, footprints, provenance))


def time_costs(footprints: Footprints, tokens: SyncTokens, costs: Costs) -> Timeline:
    """Times the program of these footprints, which has no deadlock. Raises ValueError where it has one."""
    program = footprints.program
    resources = program.machine.timing.resources
    fair = [resources[int(k)].policy == "fair" for k in costs.ports.of]
    result = simulate(program_queues(program), tokens, costs, fair)
    if len(result.order) < len(program):
        raise ValueError("the program deadlocks")
    contended = np.maximum(result.end - result.start - costs.setup - costs.alone, 0.0)
    return Timeline(program, footprints, tokens, costs, result, result.start - result.freed, contended, result.released - result.end)


def simulate(table: QueueTable, tokens: SyncTokens, costs: Costs, fair: list[bool]) -> SimulationResult:
    """In C where there is a compiler, else in Python; both give the same bits."""
    library = load_checker("events")
    if library is None:
        return run_events(table, tokens, costs, fair)
    return _run_native(library, table, tokens, costs, fair)


def _coupled(tokens: SyncTokens) -> list[Ints | None]:
    """Lags, the needs of an instruction before it ends, and the instruction of each post; None where no units run coupled."""
    if tokens.coupled is None:
        return [None] * 5
    ends, starts = tokens.coupled.ends, tokens.posts.start
    return [tokens.coupled.lag, ends.start, ends.counter, ends.amount, np.repeat(np.arange(len(starts) - 1), np.diff(starts))]


def _banks(costs: Costs) -> list[NDArray[np.int64] | Times | None]:
    """The ports of each instruction with its ranks, the units that each port serves, and cycles of work; None where no port is limited."""
    if costs.banks is None:
        return [None] * 5
    return [costs.banks.first, costs.banks.number, costs.banks.rank, costs.banks.room.astype(np.float64), costs.alone.astype(np.float64)]


class _Job(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_int64) for name in ("n", "queues", "counters", "streams", "ports", "transfers", "posts", "banks", "ranks")),
        *((name, ctypes.c_void_p) for name in (
            "queue", "queue_start", "queue_item", "stream", "room", "stream_first",
            "wait_start", "wait_counter", "wait_amount", "post_start", "post_counter", "post_amount",
            "depth", "mode", "initial", "lag", "end_start", "end_counter", "end_amount", "post_owner",
            "setup", "cycles", "latency", "first", "port", "rank", "work", "fair", "bank_first", "bank_port", "bank_rank", "bank_room", "alone",
            "start", "end", "released", "freed", "order", "counter", "producer", "slowest", "room_counter", "room_by",
        )),
    )  # fmt: skip


def _run_native(library: ctypes.CDLL, table: QueueTable, tokens: SyncTokens, costs: Costs, fair: list[bool]) -> SimulationResult:
    n, queues, waits, posts, result = len(table.item), len(table.start) - 1, tokens.waits, tokens.posts, empty_result(len(table.item))
    floats = [np.ascontiguousarray(a, np.float64) for a in (costs.setup, costs.cycles, costs.latency)]
    arrays = [
        table.queue, table.start, table.item, table.stream, table.room, table.first,
        waits.start, waits.counter, waits.amount, posts.start, posts.counter, posts.amount,
        tokens.depth, tokens.mode, tokens.initial, *_coupled(tokens), *floats, costs.first, costs.port, costs.rank,
        costs.work.astype(np.float64), np.array(fair, np.uint8), *_banks(costs), *vars(result).values(),
    ]  # fmt: skip
    sizes = (n, queues, len(tokens.names), len(table.first) - 1, len(fair), len(costs.port), len(posts.counter))
    banks = (len(costs.banks.room), costs.banks.ranks) if costs.banks else (0, 0)
    library.simulate.restype = ctypes.c_int64
    started = library.simulate(ctypes.byref(_Job(*sizes, *banks, *(None if a is None else a.ctypes.data for a in arrays))))
    if started < 0:
        raise MemoryError
    return replace(result, order=result.order[:started])
