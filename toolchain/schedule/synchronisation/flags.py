"""Counters that hold one token and lose a second: a post must certainly come after the wait that took the token before it."""

from bisect import bisect_left

from toolchain.schedule.synchronisation.plan import Link, Plan
from toolchain.spec.errors import fail


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
