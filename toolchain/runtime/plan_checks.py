"""Whether a plan can be run at all: every name stands for something, every tensor is made before it is read."""

import math
from collections.abc import Iterator

from toolchain.graph.preparation import LAYOUTS, Preparation, channels_last
from toolchain.runtime.contents import Bundle, HostSegment, Manifest, PlanStep, RegionProgram

MAX_ELEMENTS, MAX_IMAGES = 1 << 34, 1 << 16


def plan_faults(bundle: Bundle) -> Iterator[str]:
    """Yields the faults of a bundle's plan, in words; one is enough to refuse the bundle."""
    manifest = bundle.manifest
    yield from _targets(manifest)
    yield from _interfaces(manifest)
    yield from _members(bundle)
    for region in manifest.regions:
        yield from _region(region)
    yield from _order(manifest)


def step_of(manifest: Manifest, step: PlanStep) -> HostSegment | RegionProgram:
    """The host segment or the region that a step of the plan runs."""
    return manifest.hosts[step.index] if step.kind == "host" else manifest.regions[step.index]


def step_names(run: HostSegment | RegionProgram) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The graph's tensors that a step reads, and those that it makes."""
    if isinstance(run, HostSegment):
        return run.inputs, run.outputs
    return tuple(port.name for port in run.inputs), tuple(port.name for port in run.outputs)


def _targets(manifest: Manifest) -> Iterator[str]:
    names = [target.name for target in manifest.targets]
    if not names or len(set(names)) < len(names):
        yield "it names no machine, or one twice"
    yield from (f"region '{r.name[:80]}' is for '{r.target[:80]}', which is none of its machines" for r in manifest.regions if r.target not in names)


def _interfaces(manifest: Manifest) -> Iterator[str]:
    for side in (manifest.inputs, manifest.outputs):
        names = [entry.name for entry in side]
        if len(set(names)) < len(names):
            yield "two inputs or two outputs have one name"
        for entry in side:
            if not entry.dtype or (entry.shape is not None and not _interface_sizes(entry.shape)):
                yield f"'{entry.name[:80]}' has no proper type and shape"
            if entry.preparation is not None and not _preparation(entry.preparation, entry.shape or ()):
                yield f"'{entry.name[:80]}' is prepared in a way that cannot be"


def _preparation(held: Preparation, shape: tuple[int, ...]) -> bool:
    """Whether every channel has a mean and something to divide by."""
    channels = (1, shape[3] if channels_last(shape) else shape[1] if len(shape) == 4 else 1)
    return held.layout in LAYOUTS and len(held.mean) in channels and len(held.std) in channels and min(held.scale, *held.std) > 0


def _interface_sizes(shape: tuple[int, ...]) -> bool:
    """-1 stands for a size that depends on the data, 0 is one."""
    return all(size >= -1 for size in shape) and math.prod(max(size, 1) for size in shape) <= MAX_ELEMENTS


def _sizes(shape: tuple[int, ...]) -> bool:
    return all(size > 0 for size in shape) and math.prod(shape) <= MAX_ELEMENTS


def _members(bundle: Bundle) -> Iterator[str]:
    manifest = bundle.manifest
    wanted = [*(segment.model for segment in manifest.hosts), *(name for region in manifest.regions for name in region.members)]
    yield from (f"there is no member '{name[:80]}'" for name in wanted if name not in bundle.members)
    for region in manifest.regions:
        yield from (f"region '{region.name[:80]}' has no segment '{name[:80]}'" for name in region.constants if name not in region.map.segments)


def _region(region: RegionProgram) -> Iterator[str]:
    where, held = f"of region '{region.name[:80]}'", region.map
    if not 1 <= region.images <= MAX_IMAGES or region.cycles < 0 or not region.outputs or min(held.rooms, held.streams) < 1:
        yield f"the images, cycles or outputs {where} are out of range"
    yield from (f"the segment '{name[:80]}' {where} has no proper place" for name, s in held.segments.items() if min(s.address, s.bytes, s.pitch) < 0)
    for name, stored in held.tensors.items():
        segment = held.segments.get(stored.segment)
        last = stored.offset + stored.bytes + (held.rooms - 1) * (segment.pitch if segment and not segment.memory else 0)
        inside = segment is not None and min(stored.offset, stored.bytes, stored.channel) >= 0 and last <= segment.bytes
        if not inside or not _sizes(stored.shape) or not _sizes(stored.extents):
            yield f"the tensor '{name[:80]}' {where} has no proper place"
    for port in (*region.inputs, *region.outputs):
        stored = held.tensors.get(port.tensor)
        if stored is None or not _sizes(port.shape) or not _holds(stored.shape, port.shape, region):
            yield f"the tensor '{port.name[:80]}' {where} is not in its map, or of another size there"


def _holds(stored: tuple[int, ...], shape: tuple[int, ...], region: RegionProgram) -> bool:
    """Whether a region's tensor is a run's images, each of the shape that the graph has for one, or one whole sample."""
    if region.whole:
        return bool(shape) and math.prod(stored) == math.prod(shape)
    images = stored[0] * region.map.rooms
    return bool(shape) and shape[0] == region.batch and images == region.images and math.prod(stored[1:]) == math.prod(shape[1:])


def _order(manifest: Manifest) -> Iterator[str]:
    known = {entry.name for entry in manifest.inputs}
    for step in manifest.plan:
        count = {"host": len(manifest.hosts), "region": len(manifest.regions)}.get(step.kind, 0)
        if not 0 <= step.index < count:
            yield f"the plan has a step '{step.kind[:20]}' {step.index}"
            return
        inputs, outputs = step_names(step_of(manifest, step))
        yield from (f"the tensor '{name[:80]}' is read before it is made" for name in inputs if name not in known)
        yield from (f"the tensor '{name[:80]}' is made twice" for name in outputs if name in known)
        known.update(outputs)
    yield from (f"the output '{entry.name[:80]}' is never made" for entry in manifest.outputs if entry.name not in known)
