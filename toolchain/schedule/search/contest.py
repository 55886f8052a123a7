"""Drafts compete by exact cycles: a policy proposes them, each is planned, written and timed, the quickest wins, and a record keeps all."""

import json
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import inf

import numpy as np

from toolchain.schedule.bank_choice import has_ports
from toolchain.schedule.form.plan import Plan
from toolchain.schedule.groups.depth_first import busiest_unit
from toolchain.schedule.groups.search import Grouping
from toolchain.schedule.planner import Planner, Timed
from toolchain.schedule.search.draft import Draft, Space, Together
from toolchain.spec.errors import UserError

FORMAT = 2


@dataclass(frozen=True)
class Trial:
    """A draft that was tried.

    cycles: of its program, with banks and the order of rows tuned by exact time. waited: by operation, cycles in which the busiest unit waits for
    work of it, or for ports. refused: the error of a draft that no plan fits; it has no cycles."""

    draft: Draft
    cycles: float
    waited: Mapping[int, float] = field(default_factory=dict[int, float], compare=False)
    refused: str = ""


Policy = Callable[[Space], Generator[Draft, Trial, None]]
"""Proposes drafts, best hopes first, and is told how each one did; the space's first draft before all others, if there are others."""


@dataclass(frozen=True)
class Result:
    """plan: of the winner, `draft`. trials: in the order in which they were made; the first draft alone is not timed, and stands in none."""

    draft: Draft
    plan: Plan
    trials: tuple[Trial, ...]


@dataclass
class _Entry:
    """A draft on its way through the contest."""

    draft: Draft
    space: Space

    @cached_property
    def planner(self) -> Planner:
        return self.space.planner(self.draft)

    @cached_property
    def _ports(self) -> bool:
        return has_ports(self.space.machine)

    @cached_property
    def grouping(self) -> Grouping:
        return self.planner.first()

    @cached_property
    def rough(self) -> Timed:
        """Before anything is tuned by exact time."""
        return self.planner.timed(self.grouping.plan)

    @cached_property
    def apart(self) -> tuple[Grouping, Timed]:
        """With buffers in banks apart."""
        return self.planner.banks_apart(self.grouping, self.rough) if self._ports else (self.grouping, self.rough)

    @cached_property
    def tuned(self) -> Timed:
        return self.planner.rows_in_turn(*self.apart) if self._ports else self.rough

    def waited(self) -> dict[int, float]:
        """As a trial has it."""
        timeline, order = self.tuned.timeline, self.draft.order
        operation = self.tuned.emitted.origins.operation
        own = (timeline.program.unit == busiest_unit(timeline)) & (operation >= 0)
        found = np.bincount(operation[own], (timeline.waited + timeline.contended)[own], len(order))
        return {order[place]: float(cycles) for place, cycles in enumerate(found)}

    def plan(self) -> Plan:
        """Tuned, which needs no times where no ports do."""
        return self.tuned.plan if self._ports else self.grouping.plan


@dataclass
class _Contest:
    """best: the quickest."""

    space: Space
    best: _Entry
    trials: list[Trial] = field(default_factory=list[Trial])

    def enter(self, draft: Draft) -> Trial:
        """Times a draft, the first also with its last rows first; the quicker trial. Moves go on from that one, so later drafts are as it is."""
        if self.trials:
            return self._timed(_Entry(draft, self.space))
        trial = self._timed(self.best)
        if not self.space.copied_rows:
            return trial
        other = replace(draft, backward=self.space.copied_rows, origin=f"{draft.origin}, last rows first")
        return min(trial, self._timed(_Entry(other, self.space)), key=lambda one: one.cycles)

    def _timed(self, entry: _Entry) -> Trial:
        """Tunes each draft: by how much that makes it quicker differs more than drafts do before (measured on ResNet-50: 4.7 and 3 %)."""
        try:
            cycles = entry.tuned.cycles
        except UserError as error:
            return self._noted(Trial(entry.draft, inf, refused=error.diagnostics[0].headline()))
        if entry is not self.best and cycles < self.best.tuned.cycles:
            self.best = entry
        return self._noted(Trial(entry.draft, cycles, entry.waited()))

    def _noted(self, trial: Trial) -> Trial:
        self.trials.append(trial)
        return trial


def hold(space: Space, policy: Policy, effort: int, say: Callable[[str], None] = lambda _: None) -> Result:
    """effort: drafts that are timed exactly, at most; the first of them is the space's own, which counts once however its rows run. say: is told
    which draft is tried now.

    A larger effort is never slower: it tries the same drafts first. Raises UserError E1003, E1004, E1007, E1008 where the first draft has no plan.
    """
    contest = _Contest(space, _Entry(space.first, space))

    def enter(draft: Draft) -> Trial:
        say(draft.origin)
        return contest.enter(draft)

    if not try_drafts(policy(space), effort, enter) and space.copied_rows:
        enter(space.first)
    return Result(contest.best.draft, contest.best.plan(), tuple(contest.trials))


def try_drafts(drafts: Generator[Draft, Trial, None], effort: int, enter: Callable[[Draft], Trial]) -> tuple[Trial, ...]:
    """The trials of a policy's drafts, each once. effort: of how many, at most; with one there is no choice, and none is made."""
    known = dict[Draft, Trial]()
    draft = next(drafts, None) if effort > 1 else None
    while draft is not None and len(known) < effort:
        if draft not in known:
            known[draft] = enter(draft)
        draft = _sent(drafts, known[draft])
    return tuple(known.values())


def _sent(drafts: Generator[Draft, Trial, None], trial: Trial) -> Draft | None:
    try:
        return drafts.send(trial)
    except StopIteration:
        return None


def write_record(region: str, policy: str, effort: int, trials: Sequence[Trial]) -> str:
    """JSON. An empty list of candidates says that the first schedule had no rival, and was not timed as a whole. subgraphs: of the drafts of
    `search=subgraphs`."""
    rows = [
        {"candidate": trial.draft.origin, "cycles": None if trial.refused else round(trial.cycles), "refused": trial.refused or None}
        for trial in trials
    ]
    best = min(trials, key=lambda trial: trial.cycles, default=None)
    found: dict[str, object] = {
        "format": FORMAT,
        "region": region,
        "search": policy,
        "effort": effort,
        "candidates": rows,
        "taken": best.draft.origin if best else None,
        "gain_cycles": round(trials[0].cycles - best.cycles) if best else 0,
    }
    if coarse := next((trial.draft.subgraphs for trial in trials if trial.draft.subgraphs), ()):
        found["subgraphs"] = [_told(each) for each in coarse]
    return json.dumps(found, indent=1) + "\n"


def _told(each: Together) -> dict[str, object]:
    split = {"axis": each.axis, "factor": each.factor, "split": each.split} if each.axis else {}
    return {"operations": list(each.names), **split}
