"""Checks of a bundle, which may come from anywhere: its signature, and whether its plan can be run.

Signatures are in minisign's format: `digits.bundle.minisig` beside `digits.bundle`, made by anybody who holds the secret key.
Source of the format: https://jedisct1.github.io/minisign/; the library py-minisign, the extra `signatures`, reads it.
"""

import math
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from toolchain.abi.dram_map import MAX_IMAGES
from toolchain.graph.preparation import LAYOUTS, Preparation, channels_last
from toolchain.runtime.contents import Bundle, Interface, Manifest, RegionProgram, State, description_name, step_names, step_of
from toolchain.runtime.transfers import is_entering, is_leaving
from toolchain.spec.errors import fail
from toolchain.spec.files import read_limited
from toolchain.spec.model import Host

if TYPE_CHECKING:
    from minisign import PublicKey, Signature

VARIABLE = "TILEWRIGHT_KEYS"
SUFFIX = ".minisig"
MOST_BYTES = 1 << 14
"""The most bytes of a signature, and of a key."""


def trusted_keys() -> tuple[Path, ...]:
    """The files of public keys that the user's variable names, separated as in PATH; none: bundles need no signature."""
    return tuple(Path(name) for name in os.environ.get(VARIABLE, "").split(os.pathsep) if name)


def check_signature(path: Path, data: bytes, keys: Sequence[Path]) -> None:
    """data: of the bundle at that path, all of it. keys: files of public keys, of which one is enough.

    Raises UserError E1129 where none of them has signed these bytes, or the library is not installed; E0001 for a key that cannot be read.
    """
    try:
        from minisign import Signature
    except ImportError:
        text = "signatures of bundles are to be checked, and the library that does it is missing"
        raise fail("E1129", text, hint="pip install 'tilewright[signatures]'", place=str(path)) from None
    known = [_key(key) for key in keys]
    beside = path.with_name(path.name + SUFFIX)
    if not beside.is_file():
        raise fail("E1129", f"the bundle is not signed: there is no file {beside.name} beside it", hint=f"{VARIABLE} asks for it", place=str(path))
    try:
        signature = Signature.from_bytes(read_limited(beside, MOST_BYTES, "the signature"))
    except ValueError:
        raise fail("E1129", "this is no signature in minisign's format", place=str(beside)) from None
    if not any(_verifies(key, data, signature) for key in known):
        raise fail("E1129", "the bundle was changed after it was signed, or signed with a key that is not trusted here", place=str(path))


def _key(path: Path) -> "PublicKey":
    from minisign import PublicKey

    try:
        return PublicKey.from_bytes(read_limited(path, MOST_BYTES, "the key"))
    except ValueError:
        raise fail("E1129", "this is no public key in minisign's format", hint=f"{VARIABLE} names it", place=str(path)) from None


def _verifies(key: "PublicKey", data: bytes, signature: "Signature") -> bool:
    """Whether the key has signed these bytes."""
    try:
        key.verify(data, signature)
    except ValueError:
        return False
    return True


NAME, FILE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,79}\Z"), re.compile(r"[A-Za-z0-9_]{1,80}(\.[A-Za-z0-9_]{1,8})?\Z")
"""Names of regions and functions, which programs in C declare, and of the files that come with them, which are written beside a program."""
ORIGIN, HASH = re.compile(r"[0-9A-Za-z.+-]{1,40}\Z"), re.compile(r"([0-9a-f]{64})?\Z")
MAX_ELEMENTS = 1 << 34
MAX_STATE = 1 << 31
"""Bytes of one state."""
NUMBERS = ("bool", "float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
"""Types of states."""


def plan_faults(bundle: Bundle) -> Iterator[str]:
    """Yields the faults of a bundle's plan, in words; one is enough to refuse the bundle."""
    manifest = bundle.manifest
    if not ORIGIN.match(manifest.toolchain) or not HASH.match(manifest.source):
        yield "it does not say which toolchain and model it was made of"
    yield from _targets(manifest)
    yield from _interfaces(manifest)
    yield from _members(bundle)
    for region in manifest.regions:
        yield from _region(region)
    found = [*_order(manifest)]
    found = found or [*_states(manifest)]
    yield from found or _starts(bundle)


def _targets(manifest: Manifest) -> Iterator[str]:
    names = [target.name for target in manifest.targets]
    if not names or len(set(names)) < len(names):
        yield "it names no machine, or one twice"
    yield from (f"region '{r.name[:80]}' is for '{r.target[:80]}', which is none of its machines" for r in manifest.regions if r.target not in names)
    yield from (f"the costs of the host beside '{t.name[:80]}' are out of range" for t in manifest.targets if t.host and not _possible(t.host))


def _possible(host: Host) -> bool:
    """Whether times can be computed: rates are above zero, times are not below, and all are finite."""
    rates = [*host.gmac_per_s.values(), host.gb_per_s, host.transfer_gb_per_s]
    times = [host.launch_us, host.transfer_us, *([host.step_us] if host.step_us else [])]
    return all(0 < rate.value < math.inf for rate in rates) and all(0 <= time.value < math.inf for time in times)


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


def _states(manifest: Manifest) -> Iterator[str]:
    """Whether each state is an input and an output alike, and the plan goes on where its conversions are left out."""
    inputs, outputs = ({entry.name: entry for entry in side} for side in (manifest.inputs, manifest.outputs))
    for side in ("input", "output", "taken", "made"):
        names = [getattr(state, side) for state in manifest.states]
        if len(set(names)) < len(names):
            yield "two states are one tensor"
    for state in manifest.states:
        taken, made, where = inputs.get(state.input), outputs.get(state.output), f"the state '{state.input[:80]}'"
        if taken is None or made is None or taken.shape is None or (taken.shape, taken.dtype) != (made.shape, made.dtype) or not _bytes_of(taken):
            yield f"{where} is no input and output of one shape and type"
        elif (state.taken, state.made) != (state.input, state.output):
            yield from (f"{where} {fault}" for fault in _round(manifest, state))


def _round(manifest: Manifest, state: State) -> Iterator[str]:
    """Faults of a state that goes round in another form than the model's own."""
    runs = [step_of(manifest, step) for step in manifest.plan]
    outputs, inputs = ({getattr(each, side) for each in manifest.states} for side in ("output", "input"))
    entering = {name for run in runs if is_entering(manifest, run) for name in step_names(run)[1]}
    others = [run for run in runs if not is_entering(manifest, run) and not is_leaving(manifest, run)]
    made = {name for run in others for name in step_names(run)[1]}
    left = {name for run in runs if is_leaving(manifest, run) for name in step_names(run)[1]}
    if state.taken not in entering - outputs - inputs or state.made not in made - outputs:
        yield "is handed on as a tensor that no step makes"
    if any({*step_names(run)[0]} - {each.made for each in manifest.states} for run in runs if is_leaving(manifest, run)):
        yield "is none of the tensors that the last step converts"
    if any(state.input in step_names(run)[0] or left & {*step_names(run)[0]} for run in others):
        yield "is read in the model's own type between steps"


def _starts(bundle: Bundle) -> Iterator[str]:
    entries = {entry.name: entry for entry in bundle.manifest.inputs}
    for state in bundle.manifest.states:
        if state.start and len(bundle.members.get(state.start, b"")) != _bytes_of(entries[state.input]):
            yield f"the start of the state '{state.input[:80]}' has another size"


def _bytes_of(entry: Interface) -> int:
    """0 for a type that numpy has not, a size that is not known, no elements, or too many."""
    shape = entry.shape or ()
    size = math.prod(shape) * (np.dtype(entry.dtype).itemsize if entry.dtype in NUMBERS else 0)
    return size if min(shape, default=1) > 0 and size <= MAX_STATE else 0


def _sizes(shape: tuple[int, ...]) -> bool:
    return all(size > 0 for size in shape) and math.prod(shape) <= MAX_ELEMENTS


def _members(bundle: Bundle) -> Iterator[str]:
    manifest = bundle.manifest
    described = [name for name in bundle.members if name.startswith("machine")]
    yield from (f"'{name}' describes none of its machines" for name in described if name not in map(description_name, range(len(manifest.targets))))
    wanted = [*(state.start for state in manifest.states if state.start)]
    wanted += [*(segment.model for segment in manifest.hosts), *(name for region in manifest.regions for name in region.members)]
    yield from (f"there is no member '{name[:80]}'" for name in wanted if name not in bundle.members)
    for region in manifest.regions:
        yield from (f"region '{region.name[:80]}' has no segment '{name[:80]}'" for name in region.constants if name not in region.map.segments)


def _region(region: RegionProgram) -> Iterator[str]:
    where, held = f"of region '{region.name[:80]}'", region.map
    named = (region.name, *((region.function,) if region.function else ()))
    if not all(map(NAME.match, named)) or not all(map(FILE.match, region.files)):
        yield f"the name, function or files {where} are no names"
    if not 1 <= region.images <= MAX_IMAGES or not 0 <= region.cycles < math.inf or not region.outputs or min(held.rooms, held.streams) < 1:
        yield f"the images, cycles or outputs {where} are out of range"
    if not region.binary or not all((*region.constants.values(), *region.files.values())):
        yield f"the program, constants or files {where} are no members"
    if any(held.segments[name].memory for name in region.constants if name in held.segments):
        yield f"the constants {where} stand in another memory than '{held.memory[:80]}'"
    yield from (
        f"the segment '{name[:80]}' {where} has no proper place"
        for name, s in held.segments.items()
        if min(s.address, s.bytes, s.pitch, s.parts - 1) < 0
    )
    for name, stored in held.tensors.items():
        segment = held.segments.get(stored.segment)
        last = stored.offset + stored.bytes + (held.rooms - 1) * (segment.pitch if segment and not segment.memory else 0)
        inside = segment is not None and min(stored.offset, stored.bytes, stored.channel) >= 0 and last <= segment.bytes
        if not inside or not _sizes(stored.shape) or not _sizes(stored.extents):
            yield f"the tensor '{name[:80]}' {where} has no proper place"
    for port in (*region.inputs, *region.outputs):
        stored = held.tensors.get(port.tensor)
        if stored is None or not port.shape or not _sizes(port.shape) or not _holds(stored.shape, port.shape, region):
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
