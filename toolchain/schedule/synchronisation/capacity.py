"""Keeps counters within their depth. Tokens are merged where that costs no time, and where nobody could ever make room; elsewhere a full counter
holds up the poster.

Queues and counters alone decide who can go on, never time, so one execution shows whether any can deadlock.
"""

from collections import defaultdict
from dataclasses import dataclass, field

from toolchain.schedule.synchronisation.plan import Durations, Link, Plan, PlanTimes, plan_times


def fit_counters(plan: Plan, known: Durations | None = None) -> None:
    """Merges tokens until the program runs to its end with the depths that the machine declares. known: of its instructions, where time counts."""
    limited = [link for link in plan.links.values() if link.channel.mode == "counting" and link.channel.depth is not None]
    if known and any(_exceeds(link) for link in limited):
        times = plan_times(plan, known)
        for link in limited:
            _thin(link, times)
    if any(_exceeds(link) for link in limited):
        _Run(plan).finish()


def _thin(link: Link, times: PlanTimes) -> None:
    """Wherever more tokens are on their way than the counter holds, two neighbours become one: the earlier token's taker waits for the later post,
    of those that have been posted by then the one with the most time to spare."""
    posts, takes, first = list[int](), list[int](), 0
    for poster, taker in zip(link.posts, link.takes, strict=True):
        while first < len(takes) and times.start[takes[first]] <= times.shown[poster]:
            first += 1
        posts.append(poster)
        takes.append(taker)
        while len(posts) - first > (link.channel.depth or 0):
            late, at = min((times.shown[posts[k + 1]] - times.start[takes[k]], k) for k in range(first, len(posts) - 1))
            if late > 0 or posts[at + 1] >= takes[at]:
                break
            del posts[at], takes[at + 1]
    link.posts[:], link.takes[:] = posts, takes


def _exceeds(link: Link) -> bool:
    """Whether a counter would be full when instructions ran one after the other."""
    depth = link.channel.depth or 0
    return any(taker > poster for taker, poster in zip(link.takes, link.posts[depth:], strict=False))


@dataclass
class _Use:
    """A link and how many of its tokens were posted and taken so far."""

    link: Link
    posted: int = 0
    taken: int = 0

    @property
    def full(self) -> bool:
        return self.link.channel.mode == "counting" and self.posted - self.taken == self.link.channel.depth

    def due(self, index: int) -> bool:
        """Whether `index` posts the next token."""
        return self.posted < len(self.link.posts) and self.link.posts[self.posted] == index


@dataclass
class _Run:
    """An execution that goes on wherever it can. started: instructions of each unit that began; owing: the last of them holds
    its unit, because a counter is full; fetched: instructions of each stream that entered their queues, which hold `depth` at most. takes, posts: by
    instruction, the tokens that it takes and posts; a unit goes in order, so these are the next ones when its turn comes."""

    plan: Plan
    started: list[int] = field(default_factory=list[int])
    owing: list[bool] = field(default_factory=list[bool])
    fetched: list[int] = field(default_factory=list[int])

    def __post_init__(self) -> None:
        units = range(len(self.plan.members))
        self.started, self.owing, self.fetched = [0 for _ in units], [False for _ in units], [0] * self.plan.streams
        self.width = len(self.plan.machine.units)
        self.issued: list[list[int]] = [[] for _ in self.fetched]
        for unit in self.plan.unit:
            self.issued[unit // self.width].append(unit)
        uses = [_Use(link) for link in self.plan.links.values()]
        self.takes, self.posts = defaultdict[int, list[_Use]](list), defaultdict[int, list[_Use]](list)
        for use in uses:
            for taker in use.link.takes:
                self.takes[taker].append(use)
            for poster in use.link.posts:
                self.posts[poster].append(use)
        self.entered = [0 for _ in units]

    def finish(self) -> None:
        """Runs to the end, merging wherever nothing can go on."""
        total = len(self.plan.source)
        while sum(self.started) < total or any(self.owing):
            moved = sum(self._fetch(stream) for stream in range(self.plan.streams)) > 0
            for unit in range(len(self.started)):
                while self._step(unit):
                    moved = True
            if not moved:
                self._merge()

    def _fetch(self, stream: int) -> bool:
        before, units = self.fetched[stream], self.issued[stream]
        while self.fetched[stream] < len(units) and self._room_in_window(stream):
            unit = units[self.fetched[stream]]
            room = self.plan.its(unit).depth
            if room is not None and self.entered[unit] - self.started[unit] >= room:
                break
            self.entered[unit] += 1
            self.fetched[stream] += 1
        return self.fetched[stream] > before

    def _room_in_window(self, stream: int) -> bool:
        interlock, own = self.plan.machine.interlock, range(stream * self.width, (stream + 1) * self.width)
        return interlock is None or interlock.window is None or self.fetched[stream] - sum(map(self._done, own)) < interlock.window

    def _step(self, unit: int) -> bool:
        """Posts the tokens that the unit owes, or starts its next instruction and then pays; False where neither can be."""
        if self.owing[unit]:
            self.owing[unit] = not self._pay(unit)
            return not self.owing[unit]
        if self.started[unit] >= self.entered[unit]:
            return False
        index = self.plan.members[unit][self.started[unit]]
        for use in self.takes[index]:
            if not self._ready(use):
                return False
        for other in self.plan.held[index]:
            if not self._over(other):
                return False
        for use in self.takes[index]:
            use.taken += 1
        self.started[unit] += 1
        self.owing[unit] = not self._pay(unit)
        return True

    def _ready(self, use: _Use) -> bool:
        if use.link.channel.mode != "all_prior":
            return use.posted > use.taken
        return self._over(use.link.posts[use.taken])

    def _done(self, unit: int) -> int:
        return self.started[unit] - int(self.owing[unit])

    def _over(self, index: int) -> bool:
        return self._done(self.plan.unit[index]) > self.plan.place[index]

    def _pay(self, unit: int) -> bool:
        """Posts the tokens that the unit's last instruction still owes; False where a counter is full."""
        index = self.plan.members[unit][self.started[unit] - 1]
        for use in self.posts[index]:
            if use.due(index):
                if use.full:
                    return False
                use.posted += 1
        return True

    def _merge(self) -> None:
        """One of the posters held up comes before the taker that would make room: the two last tokens become one.

        There is such a poster, because the program's own order would go on if every taker of a full counter came before.
        The taker of the token before now waits for this post, later in the same queue; whoever waited for this post
        comes behind that taker.
        """
        for unit, owes in enumerate(self.owing):
            index = self.plan.members[unit][self.started[unit] - 1] if owes else -1
            for use in self.posts[index] if owes else ():
                if use.due(index) and use.full and use.link.takes[use.taken] > index:
                    self.takes[use.link.takes[use.posted]].remove(use)
                    del use.link.posts[use.posted - 1], use.link.takes[use.posted]
                    use.posted -= 1
                    return
        raise AssertionError("counters that no merging frees")
