"""The tiling of each operation of a region; operations of the same sizes share one search."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from itertools import islice

from toolchain.analysis.checks import prepare_program
from toolchain.analysis.in_place import repeats
from toolchain.isa.footprint.loop_nest import pipelined_steps
from toolchain.schedule.compile import emit_alone, pack_tensors
from toolchain.schedule.kernels.pools import Pool
from toolchain.schedule.kernels.problem import Problem
from toolchain.schedule.tiling.tile_table import tile_key
from toolchain.schedule.tiling.tiles import Tiling, rank_tilings
from toolchain.timing.simulate import time_state

Key = tuple[object, tuple[tuple[str, tuple[Pool, ...]], ...]]

TRIED = 24
"""Tilings of an operation that are looked at where a machine's pipelines have rules."""


@dataclass
class TileChoice:
    """contexts: slots of each place, at least. timed: how many tilings are timed exactly; with one, the estimate decides. waits: those
    that `Handover` found."""

    contexts: int
    timed: int
    found: dict[tuple[Key, int], Tiling] = field(default_factory=dict[tuple[Key, int], Tiling])
    waits: dict[tuple[Hashable, ...], float] = field(default_factory=dict[tuple[Hashable, ...], float])

    def best(self, problem: Problem, streams: int = 1) -> Tiling:
        """streams: that share the tiles; with several, the estimate decides. Raises UserError E1004 where no tile fits."""
        key = self.key(problem), streams
        if key not in self.found:
            ranked = self._ranked(problem, streams)
            self.found[key] = ranked[0] if len(ranked) == 1 else min(ranked, key=lambda tiling: _cycles(problem, tiling))
        return self.found[key]

    def _ranked(self, problem: Problem, streams: int) -> Sequence[Tiling]:
        """The best tilings by the estimate, of those that keep to the rules of pipelines where some do."""
        if streams > 1:
            return rank_tilings(problem, self.contexts, 1, streams)
        if not pipelined_steps(problem.machine):
            return rank_tilings(problem, self.contexts, self.timed)
        ranked = rank_tilings(problem, self.contexts, max(self.timed, TRIED))
        kept = list(islice((tiling for tiling in ranked if _is_apart(problem, tiling)), self.timed))
        return kept or ranked[: self.timed]

    def key(self, problem: Problem) -> Key:
        """Everything that decides the tiles of an operation."""
        return tile_key(problem), tuple(problem.pools.items())


def _is_apart(problem: Problem, tiling: Tiling) -> bool:
    """Whether no instruction of the operation alone touches an element again before its pipeline is done with it."""
    compiled = emit_alone(problem, tiling, pack_tensors(problem))
    return not len(repeats(prepare_program(compiled.program, compiled.state()).provenance))


def _cycles(problem: Problem, tiling: Tiling) -> float:
    """Exactly, of the operation alone."""
    compiled = emit_alone(problem, tiling, pack_tensors(problem))
    return time_state(compiled.program, compiled.state()).cycles
