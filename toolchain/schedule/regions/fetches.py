"""Inputs that a region fetches: an operation of its own copies each once, so that its readers find it in a memory on chip that streams share.

No operator of a graph is such an operation. A schedule has them, and the region is extended by those that it has, before all other operations.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from toolchain.operations.library import builtin_kinds
from toolchain.operations.operation import make_operation
from toolchain.schedule.regions.region import Bound, Region
from toolchain.spec.arrays import Array

COPY = "copy"
"""The kind of operation that kernels which can fetch compute."""


class Fetch(NamedTuple):
    """An input, and the kernel that copies it."""

    tensor: str
    kernel: str


def fetched_name(tensor: str) -> str:
    """The tensor that a fetch makes of an input, and the operation that makes it."""
    return f"{tensor}.fetched"


def fetchable(region: Region) -> tuple[str, ...]:
    """Inputs that could be fetched, the largest first: those that operations read, and that stand alone, neither in another tensor nor around one."""
    read = {tensor for bound in region.operations for name, tensor in bound.tensors.items() if name != "y"}
    joined = {*region.slices, *(own.parent for own in region.slices.values())}
    names = [name for name in region.inputs if name in read - joined and fetched_name(name) not in region.tensors]
    return tuple(sorted(names, key=lambda name: -math.prod(region.tensors[name])))


def with_fetches(region: Region, fetches: Sequence[Fetch]) -> Region:
    """The region that fetches these inputs and no others; all of its operations read the copies. Raises KeyError for a tensor that is not there."""
    plain = without_fetches(region)
    if not fetches:
        return plain
    copies = {each.tensor: fetched_name(each.tensor) for each in fetches}
    tensors = {**plain.tensors, **{copy: plain.tensors[name] for name, copy in copies.items()}}
    return replace(plain, tensors=tensors, operations=(*(_copy(plain, each) for each in fetches), *_renamed(plain, copies)))


def without_fetches(region: Region) -> Region:
    """The region as it was given."""
    found = {bound.tensors["y"]: bound.tensors["x"] for bound in region.operations if is_fetch(bound)}
    if not found:
        return region
    own = replace(region, operations=tuple(bound for bound in region.operations if not is_fetch(bound)))
    return replace(region, tensors={name: shape for name, shape in region.tensors.items() if name not in found}, operations=_renamed(own, found))


def is_fetch(bound: Bound) -> bool:
    """Whether a region was extended by this operation."""
    return bound.operation.kind.name == COPY and bound.tensors["y"] == fetched_name(bound.tensors["x"])


def fetches_of(region: Region) -> tuple[Fetch, ...]:
    """The fetches of a region, in their order."""
    return tuple(Fetch(bound.tensors["x"], bound.kernel) for bound in region.operations if is_fetch(bound))


def copied_values(region: Region, known: Mapping[str, Array]) -> dict[str, Array]:
    """Values of tensors by name, those of copies as well."""
    return {**known, **{fetched_name(each.tensor): known[each.tensor] for each in fetches_of(region) if each.tensor in known}}


def _copy(region: Region, fetch: Fetch) -> Bound:
    name = fetched_name(fetch.tensor)
    operation = make_operation(builtin_kinds()[COPY], name, {"x": region.tensors[fetch.tensor]}, {}, {})
    return Bound(operation, {"x": fetch.tensor, "y": name}, kernel=fetch.kernel)


def _renamed(region: Region, names: Mapping[str, str]) -> tuple[Bound, ...]:
    """The operations, where they read tensors by other names."""
    return tuple(replace(bound, tensors=dict(_reads(bound, names))) for bound in region.operations)


def _reads(bound: Bound, names: Mapping[str, str]) -> Iterable[tuple[str, str]]:
    return ((name, tensor if name == "y" else names.get(tensor, tensor)) for name, tensor in bound.tensors.items())
