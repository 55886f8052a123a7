"""The tiling of each operation of a region; operations of the same sizes share one search."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

from toolchain.analysis.checks import prepare_program
from toolchain.analysis.hazards.pipeline import repeats
from toolchain.isa.footprint.pipeline import pipelined_steps
from toolchain.schedule.compile import emit_alone, pack_tensors
from toolchain.schedule.kernels.kernel import Kernel
from toolchain.schedule.kernels.pools import Pool
from toolchain.schedule.kernels.problem import Problem
from toolchain.schedule.kernels.sequence import Items, formulas
from toolchain.schedule.tiling.tiles import Tiling, rank_tilings
from toolchain.spec.expr import Expr, Name, walk
from toolchain.timing.simulate import time_program

Key = tuple[str, tuple[tuple[int, int], ...], tuple[tuple[str, int], ...], tuple[tuple[str, tuple[Pool, ...]], ...], tuple[str, int] | None]

TRIED = 24
"""Tilings of an operation that are looked at where a machine's pipelines have rules."""


@dataclass
class TileChoice:
    """contexts: slots of each place, at least. timed: how many tilings are timed exactly; with one, the estimate decides."""

    contexts: int
    timed: int
    found: dict[tuple[Key, int], Tiling] = field(default_factory=dict[tuple[Key, int], Tiling])
    wanted: dict[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])

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
        """Kernel, steps and every number that sizes and costs name."""
        kernel = problem.kernel
        if kernel.name not in self.wanted:
            sized = (e.id for expr in _sizing(kernel) for e in walk(expr) if isinstance(e, Name))
            self.wanted[kernel.name] = frozenset(sized).union(*(formula.names for code in _codes(kernel) for formula in formulas(code)))
        numbers = {name: value for name, value in problem.numbers.items() if name in self.wanted[kernel.name]}
        numbers |= {f"{name}_all": extent for name, extent in problem.extents.items()}
        for place, kept in problem.kept.items():
            numbers |= {f"{place}_{name}": value for name, value in kept.names.items()}
        steps = tuple((step.span.line, step.span.column) for step in problem.steps)
        return kernel.name, steps, tuple(sorted(numbers.items())), tuple(problem.pools.items()), problem.slab


def _sizing(kernel: Kernel) -> Iterator[Expr]:
    """All expressions that the search evaluates."""
    yield from kernel.where
    for d in kernel.tile:
        yield from (e for e in (d.most, d.multiple) if e is not None)
    for w in kernel.windows:
        yield from (w.stride, w.reach, w.before, w.extent, w.step)
    for p in kernel.places:
        yield p.size
        yield from p.names.values()
    for c in kernel.constants:
        yield from c.over.values()
    for s in kernel.steps:
        if s.cycles is not None:
            yield s.cycles


def _codes(kernel: Kernel) -> Iterator[Items]:
    """Instructions whose cycles and limits the search derives."""
    yield from (step.code for step in kernel.steps if not isinstance(step.code, str))


def _is_apart(problem: Problem, tiling: Tiling) -> bool:
    """Whether no instruction of the operation alone touches an element again before its pipeline is done with it."""
    compiled = emit_alone(problem, tiling, pack_tensors(problem))
    return not len(repeats(prepare_program(compiled.program, compiled.state()).provenance))


def _cycles(problem: Problem, tiling: Tiling) -> float:
    """Exactly, of the operation alone."""
    compiled = emit_alone(problem, tiling, pack_tensors(problem))
    checked = prepare_program(compiled.program, compiled.state())
    return time_program(compiled.program, checked.footprints, checked.provenance, checked.tokens).cycles
