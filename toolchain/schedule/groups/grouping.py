"""A plan and the groups that were chosen for it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from toolchain.schedule.form.plan import Plan
from toolchain.schedule.groups.members import Members
from toolchain.schedule.groups.search import Proposal, with_groups
from toolchain.schedule.placement.on_chip_allocation import Candidate
from toolchain.schedule.placement.shared_memory import SharedSlot, SharedSlots


@dataclass(frozen=True)
class Grouping:
    """base: the plan without groups. candidates: all tensors that may stay on chip, by operations one by one. members: tiles of operations in a
    group. chosen: the groups, in order. shared: buffers in memories that streams share."""

    base: Plan
    candidates: Mapping[str, Candidate]
    members: Members
    chosen: Sequence[Proposal] = ()
    shared: SharedSlots = field(default_factory=dict[str, SharedSlot])

    @cached_property
    def plan(self) -> Plan:
        """With its groups."""
        return replace(with_groups(self.base, self.candidates, self.members.storage, self.chosen), shared=self.shared)

    def joined(self, proposal: Proposal) -> "Grouping":
        """With one more group."""
        chosen = sorted([*self.chosen, proposal], key=lambda each: each.group.operations.start)
        return replace(self, chosen=chosen)
