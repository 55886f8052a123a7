"""Comparisons of several runs of one program, put together tensor by tensor."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from toolchain.verify.verdict import Compared


@dataclass(frozen=True)
class Comparison:
    """One run. during: tensors as soon as they were complete, in the same order in every run.

    again: outputs that were right then and not in the end.
    """

    during: tuple[Compared, ...]
    again: tuple[Compared, ...]


def unite(runs: Sequence[Comparison]) -> tuple[Compared, ...]:
    """One entry for each tensor: the elements of all runs, and the first difference of the first run that has one."""
    during = [_united(items) for items in zip(*(run.during for run in runs), strict=True)]
    again: dict[str, Compared] = {}
    for item in (item for run in runs for item in run.again):
        again.setdefault(item.tensor, item)
    return *during, *again.values()


def _united(items: Sequence[Compared]) -> Compared:
    found = [item.difference for item in items if item.difference]
    first = replace(found[0], differing=sum(difference.differing for difference in found)) if found else None
    return replace(items[0], elements=sum(item.elements for item in items), difference=first)
