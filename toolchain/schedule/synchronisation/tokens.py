"""Chooses tokens: for each instruction, in order, those for the instructions that it must wait for and does not know to be done.

Every token goes from an earlier instruction of the program to a later one, so the program's own order is an execution that
never waits in vain: without limits on counters, nothing can deadlock. Of the instructions that one needs, the latest is looked at
first, because it may know the rest; a need that is left out is known through other tokens, one that is kept is not.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Iterable

from toolchain.isa.sync_tokens import POST, WAIT, Channel
from toolchain.schedule.synchronisation.plan import ADDED, Link, Plan, Row, latest
from toolchain.spec.errors import UserError, fail


def flag_poster(plan: Plan, link: Link, poster: int) -> int | None:
    """Who posts the next token of a flag when `poster` is done, or None where the last taker now waits for `poster` instead.

    If `poster` does not know that the last token was taken, that taker is made to wait for both, or acknowledges to
    `poster` over the counter back, or a later instruction that knows posts. Raises UserError E0520 where none of it works.
    """
    if not link.takes or _certain(plan, poster, link.takes[-1]):
        return poster
    taker = link.takes[-1]
    if poster < taker:
        link.posts[-1] = poster
        plan.teach(taker, poster)
        return None
    if _acknowledged(plan, link, taker, poster):
        return poster
    unit = plan.unit[poster]
    later = (i for i in plan.members[unit][plan.place[poster] :] if plan.can_post(i, link.channel) and _certain(plan, i, taker))
    found = next(later, None)
    if found is None:
        raise fail("E0520", f"no instruction of {plan.label(unit)} can know that the flag '{link.channel.counter}' was "
                   "taken before it is set again", hint="declare a counter back that is not a flag")  # fmt: skip
    return found


def _certain(plan: Plan, poster: int, taker: int) -> bool:
    if plan.unit[poster] == plan.unit[taker]:
        return plan.place[taker] <= plan.place[poster]
    return plan.knows(poster, taker)


def _acknowledged(plan: Plan, link: Link, taker: int, poster: int) -> bool:
    """Whether `poster` could be made to wait for `taker`, an instruction before it."""
    back = plan.links.get((link.channel.target, link.channel.source))
    if back is None or back is link or not plan.can_wait(poster, back.channel):
        return False
    if back.channel.mode == "all_prior":
        members = plan.members[back.channel.source]
        _insert(back, members[bisect_left(members, poster) - 1], poster)
    elif not plan.can_post(taker, back.channel):
        return False
    elif back.channel.mode == "flag":
        if back.takes and not (back.takes[-1] < poster and _certain(plan, taker, back.takes[-1])):
            return False
        back.add(taker, poster)
    else:
        _insert(back, taker, poster)
    plan.teach(poster, taker)
    return True


def _insert(link: Link, poster: int, taker: int) -> None:
    """A token in the midst of others; those that it makes superfluous, posted before it and taken after it, go."""
    at = bisect_left(link.takes, taker)
    stop = at
    while stop < len(link.posts) and link.posts[stop] <= poster:
        stop += 1
    link.posts[at:stop], link.takes[at:stop] = [poster], [taker]


class TokenChoice:
    """Fills a Plan, instruction by instruction."""

    def __init__(self, plan: Plan) -> None:
        self.plan, machine = plan, plan.machine
        self.reached = dict[tuple[int, int], bool]()
        self.trusted = not (machine.interlock and machine.interlock.looks_back and machine.nops)
        """An interlock that looks back only so far may miss an instruction once others are put between."""

    def add(self, source: int, kind: int, unit: int, needs: Iterable[int], fence: int | None = None, held: tuple[int, ...] = ()) -> int:
        """Appends an instruction that must start after `needs` (positions in the plan) are done.

        held: those for which the interlock holds it, which costs no token. fence: an instruction of its own unit that it waits for by a
        token even though the queue runs in order.
        Raises UserError E0520 where no counters lead from one unit to another, and the machine has no fence that can be added.
        """
        plan, tokens = self.plan, list[tuple[Link, int]]()
        row = self._row(unit, held)
        for need in sorted(needs, reverse=True):
            if plan.place[need] >= row[plan.unit[need]]:
                row = self._arrange(need, kind, unit, row, tokens) if self._leads(plan.unit[need], unit) else self._fence(need, unit, tokens)
        if len(tokens) > 1:
            self._prune(unit, tokens, held)
        if fence is not None and (unit, unit) in plan.links and plan.carries(kind, unit, WAIT, plan.links[unit, unit].channel):
            row = self._arrange(fence, kind, unit, row, tokens)
        index = plan.append(source, kind, unit, row, held)
        for link, poster in tokens:
            link.add(poster, index)
        return index

    def _arrange(self, need: int, kind: int, unit: int, row: Row, tokens: list[tuple[Link, int]]) -> Row:
        """Finds the token by which the next instruction of a unit learns that `need` is done; its knowledge after that."""
        plan = self.plan
        via = self._bring(need, unit)
        link = plan.links[plan.unit[via], unit]
        poster = self._poster(link, via)
        if poster is None:
            return latest(row, plan.next_row(unit))
        if plan.carries(kind, unit, WAIT, link.channel):
            tokens[:] = [token for token in tokens if token[0] is not link] + [(link, max([poster, *(p for other, p in tokens if other is link)]))]
            return plan.learn(row, poster)
        self._wait_before(link, poster)
        return latest(row, plan.next_row(unit))

    def _leads(self, source: int, unit: int) -> bool:
        """Whether tokens can get from one unit to another."""
        if self.plan.link(source, unit) is not None:
            return True
        if (source, unit) not in self.reached:
            found, waiting = set[int](), [source]
            while waiting:
                here = waiting.pop()
                more = {target for start, target in self.plan.links if start == here} - found
                found |= more
                waiting += more
            self.reached |= {(source, target): target in found for target in range(len(self.plan.members))}
        return self.reached[source, unit]

    def _fence(self, need: int, unit: int, tokens: list[tuple[Link, int]]) -> Row:
        """No token says it: everything before waits for a fence. The knowledge of the next instruction after that; it needs none of its tokens."""
        if not self.plan.fence():
            raise self._apart(need, unit)
        tokens.clear()
        return self.plan.next_row(unit)

    def _row(self, unit: int, held: tuple[int, ...]) -> Row:
        """Knowledge of a unit's next instruction without a token."""
        row = self.plan.next_row(unit)
        for other in held if self.trusted else ():
            row = self.plan.learn(row, other)
        return row

    def _prune(self, unit: int, tokens: list[tuple[Link, int]], held: tuple[int, ...]) -> None:
        """Drops tokens whose poster is known by the others: a relay that was found later may know more than was asked."""
        plan = self.plan
        for token in tokens.copy():
            row = self._row(unit, held)
            for _, poster in (other for other in tokens if other is not token):
                row = plan.learn(row, poster)
            if plan.place[token[1]] < row[plan.unit[token[1]]]:
                tokens.remove(token)

    def _poster(self, link: Link, via: int) -> int | None:
        """Who posts: `via` or, where it cannot, the next of its unit that can. None: the target knows by now."""
        plan, unit = self.plan, self.plan.unit[via]
        if link.channel.mode == "all_prior":
            return plan.members[unit][-1]
        members = plan.members[unit]
        able = next((members[k] for k in range(plan.place[via], len(members)) if plan.can_post(members[k], link.channel)), None)
        if able is None:
            kind = plan.nop(unit, POST, link.channel)
            if kind is None:
                raise self._silent(via, link.channel, POST)
            able = plan.append(ADDED, kind, unit, plan.next_row(unit))
        return flag_poster(plan, link, able) if link.channel.mode == "flag" else able

    def _wait_before(self, link: Link, poster: int) -> None:
        """The next instruction cannot wait: one before it in its unit does, or one that does nothing."""
        plan, unit = self.plan, link.channel.target
        kind = plan.nop(unit, WAIT, link.channel)
        if kind is not None:
            link.add(poster, plan.append(ADDED, kind, unit, plan.learn(plan.next_row(unit), poster)))
            return
        taker = self._late(link, poster)
        if taker is None:
            raise self._silent(poster, link.channel, WAIT)
        link.add(poster, taker)
        plan.teach(taker, poster)

    def _late(self, link: Link, poster: int) -> int | None:
        """The latest instruction of the channel's target that comes after `poster` and can still take one more token."""
        plan, least = self.plan, max([poster, *link.takes[-1:]])
        for member in reversed(plan.members[link.channel.target]):
            if member <= least:
                return None
            if plan.can_wait(member, link.channel):
                return member
        return None

    # units without a counter between them

    def _bring(self, need: int, unit: int) -> int:
        """An instruction after `need` whose unit has a channel to `unit`: `need` itself, one that knows, or a relay."""
        plan = self.plan
        if plan.link(plan.unit[need], unit) is not None:
            return need
        knowing = [plan.first_to_know(source, need) for source, target in plan.links if target == unit and source != unit]
        found = min((i for i in knowing if i is not None), default=None)
        if found is not None:
            return found
        for relay in self._path(need, unit)[1:-1]:
            need = self._relay(need, relay)
        return need

    def _path(self, need: int, unit: int) -> list[int]:
        """The fewest units from that of `need` to `unit`, both included."""
        plan, start = self.plan, self.plan.unit[need]
        before: dict[int, int] = {}
        waiting = deque([start])
        while waiting and unit not in before:
            here = waiting.popleft()
            for source, target in plan.links:
                if source == here and target not in before and (target != start or target == unit):
                    before[target] = here
                    waiting.append(target)
        path = [unit, before[unit]]
        while path[-1] != start:
            path.append(before[path[-1]])
        return path[::-1]

    def _relay(self, need: int, unit: int) -> int:
        """An instruction of `unit` that starts when `need` is done: one that knows, one that does nothing, or one that now waits."""
        plan = self.plan
        known = plan.first_to_know(unit, need)
        if known is not None:
            return known
        link = plan.links[plan.unit[need], unit]
        poster = self._poster(link, need)
        if poster is None:
            return self._relay(need, unit)
        kind = plan.nop(unit, WAIT, link.channel)
        if kind is not None:
            taker = plan.append(ADDED, kind, unit, plan.learn(plan.next_row(unit), poster))
        else:
            late = self._late(link, poster)
            if late is None:
                raise self._silent(need, link.channel, WAIT)
            taker = late
            plan.teach(taker, poster)
        link.add(poster, taker)
        return taker

    # refusals

    def _apart(self, need: int, unit: int) -> UserError:
        ends = self.plan.label(unit), self.plan.label(self.plan.unit[need])
        text = f"{ends[0]} must wait for {self._label(need)}, and no counters lead there from {ends[1]}"
        return fail("E0520", text, hint=self._way_out(need))

    def _way_out(self, need: int) -> str:
        machine, ends = self.plan.machine, self.plan.machine.program.ends
        if machine.interlock and not machine.counters and self.plan.source[need] != ADDED:
            return f"let the interlock watch all that they share, with {ends} among its fences, or name a fence in sync.nops"
        return "declare a counter, or keep the data in one unit's hands"

    def _silent(self, need: int, channel: Channel, action: str) -> UserError:
        unit = self.plan.its(channel.target if action == WAIT else channel.source).name
        verb = "wait on" if action == WAIT else "post to"
        return fail("E0520", f"what follows {self._label(need)} needs an instruction of unit '{unit}' that can {verb} '{channel.counter}', "
                    "and there is none", hint=f"name one that does nothing: sync.nops.{unit}")  # fmt: skip

    def _label(self, index: int) -> str:
        plan = self.plan
        name = plan.machine.instructions[plan.kind[index]].name
        return f"#{plan.source[index]} {name}" if plan.source[index] != ADDED else name
