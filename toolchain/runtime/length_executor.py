"""Runs a bundle of several lengths: a sample in the smallest that holds it, filled up with zeros; its results are cut back to its own length."""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from math import prod
from pathlib import Path
from time import perf_counter

import numpy as np

from toolchain.graph.preparation import LengthAxis, sized, text_of
from toolchain.graph.session import Session, run_session
from toolchain.runtime.bundle import Given, bundle_machines
from toolchain.runtime.bundle_checks import trusted_keys
from toolchain.runtime.contents import Interface, Manifest
from toolchain.runtime.device import Device
from toolchain.runtime.emulator_device import EmulatorDevice
from toolchain.runtime.executor import Executor, Outcome, join_samples, open_bundle, open_segment, split_samples
from toolchain.runtime.lengths import Bucket, LengthBundle, Lengths, read_any
from toolchain.runtime.timing import Shares
from toolchain.spec.arrays import Array
from toolchain.spec.errors import UserError, fail
from toolchain.spec.model import Machine

Inputs = Mapping[str, Array]


def load_any(
    path: Path, machine: Given = None, device: Device | Mapping[str, Device] | None = None, native: bool = False
) -> "Executor | LengthExecutor":
    """As `load`, of a bundle of one length or of several."""
    found, own = read_any(path, trusted_keys()), device or EmulatorDevice()
    if isinstance(found, LengthBundle):
        return open_lengths(found, machine, own, str(path), native=native)
    return open_bundle(found, machine, own, str(path), native=native)


def open_lengths(
    joined: LengthBundle, machine: Given, device: Device | Mapping[str, Device], place: str = "", optimise: bool = True, native: bool = True
) -> "LengthExecutor":
    """As `load_any`, of several lengths in memory; each is opened when it is first run. optimise: whether ONNX Runtime may rewrite host segments."""

    machines = bundle_machines(joined.lengths.buckets[0].content.targets, place, machine, joined.members)

    def opened(bucket: Bucket) -> Executor:
        return open_bundle(joined.bundle(bucket), [*machines.values()], device, place, optimise, native)

    def whole() -> Session:
        return open_segment(joined.members[joined.lengths.beyond], joined.members, place, optimise)

    return LengthExecutor(joined.lengths, machines, place, opened, cache(whole))


@dataclass(frozen=True)
class LengthExecutor:
    """Any number of threads may run it. machines: by name, the first choice first."""

    lengths: Lengths
    machines: Mapping[str, Machine]
    place: str
    _opening: Callable[[Bucket], Executor]
    _whole: Callable[[], Session]
    _opened: dict[int, Executor] = field(default_factory=dict[int, Executor])
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def manifest(self) -> Manifest:
        """The greatest length's manifest, with -1 for each size of its inputs and outputs that is a length."""
        content, lengths = self.lengths.buckets[-1].content, self.lengths
        inputs, outputs = _open(content.inputs, lengths.inputs), _open(content.outputs, lengths.outputs)
        return replace(content, inputs=inputs, outputs=outputs)

    def sizes_of(self, inputs: Inputs) -> dict[str, int]:
        """The lengths of samples, by dimension. Raises UserError E1108 for inputs without such an axis, or of different lengths."""
        found: dict[str, int] = {}
        for axis in self.lengths.inputs:
            shape = np.shape(inputs[axis.tensor]) if axis.tensor in inputs else ()
            if axis.axis >= len(shape):
                raise fail("E1108", f"the input '{axis.tensor}' needs an axis {axis.axis}, whose size is '{axis.name}'", place=self.place)
            if found.setdefault(axis.name, shape[axis.axis]) != shape[axis.axis]:
                text = f"the inputs differ in '{axis.name}': {found[axis.name]} and, of '{axis.tensor}', {shape[axis.axis]}"
                raise fail("E1108", text, place=self.place)
        return found

    def bucket_of(self, sizes: Mapping[str, int]) -> Bucket:
        """The smallest that holds samples of these sizes, filled up where that is exact.

        Raises UserError E1131 where none does, E1132 where none has just these and filling up would change results.
        """
        names = list(self.lengths.buckets[0].sizes)
        told = "; ".join(text_of(bucket.sizes) for bucket in self.lengths.buckets)
        held = [each for each in self.lengths.buckets if all(each.sizes[name] >= sizes[name] for name in names)]
        if not held or min(sizes.values()) < 1:
            hint = f"it has {told}"
            raise fail("E1131", f"no length of the bundle holds {text_of(sizes)}", hint=hint, place=self.place)
        found = min(held, key=lambda each: prod(each.sizes.values()))
        if self.lengths.refusal and any(found.sizes[name] != sizes[name] for name in names):
            text = f"{text_of(sizes)} is none of the bundle's lengths, and filling up is not exact: {self.lengths.refusal}"
            raise fail("E1132", text, hint=f"it has {told}", place=self.place)
        return found

    def executor(self, bucket: Bucket) -> Executor:
        """The executor of one length, opened once."""
        number = self.lengths.buckets.index(bucket)
        with self._lock:
            if number not in self._opened:
                self._opened[number] = self._opening(bucket)
            return self._opened[number]

    def run(self, inputs: Inputs) -> Outcome:
        """inputs: as of `Executor.run`, samples of one length. Raises as that, and as `sizes_of` and `bucket_of`."""
        sizes = self.sizes_of(inputs)
        bucket = self._bucket(sizes)
        if bucket is None:
            return self._beyond(inputs)
        ran = self.executor(bucket).run(sized(inputs, self.lengths.inputs, bucket.sizes))
        return Outcome(sized(ran.outputs, self.lengths.outputs, sizes), {}, ran.samples, ran.runs, ran.cycles, ran.shares)

    def run_each(self, samples: Sequence[Inputs]) -> list[dict[str, Array]]:
        """Outputs of each sample; they may differ in length. Those of one bucket run together. Raises as `run`."""
        sizes = [self.sizes_of(sample) for sample in samples]
        buckets = [self._bucket(each) for each in sizes]
        found = {number: dict(self._beyond(samples[number]).outputs) for number, bucket in enumerate(buckets) if bucket is None}
        for bucket in self.lengths.buckets:
            numbers = [number for number, each in enumerate(buckets) if each is bucket]
            filled = [sized(samples[number], self.lengths.inputs, bucket.sizes) for number in numbers]
            if filled:
                ran = self.executor(bucket).run_samples({name: np.stack([each[name] for each in filled]) for name in filled[0]})
                found |= {number: sized(one, self.lengths.outputs, sizes[number]) for number, one in zip(numbers, ran, strict=True)}
        return [found[number] for number in range(len(samples))]

    def _bucket(self, sizes: Mapping[str, int]) -> Bucket | None:
        """None where no length takes samples of these sizes, and the model's own file does. Raises as `bucket_of`."""
        try:
            return self.bucket_of(sizes)
        except UserError:
            if self.lengths.beyond and min(sizes.values()) > 0:
                return None
            raise

    def _beyond(self, inputs: Inputs) -> Outcome:
        """In floating point, by the model's own file. Raises UserError E0910 where ONNX Runtime stops, and as `split_samples`."""
        start, own = perf_counter(), {name: np.shape(array) for name, array in inputs.items()}
        open_axes = {(axis.tensor, axis.axis) for axis in self.lengths.inputs}
        entries = [
            replace(e, shape=tuple(own[e.name][axis] if (e.name, axis) in open_axes else size for axis, size in enumerate(e.shape or ())))
            for e in self.manifest.inputs
        ]
        names = [entry.name for entry in self.manifest.outputs]
        ran = [run_session(self._whole(), each, names, self.place) for each in split_samples(entries, inputs)]
        return Outcome(join_samples(ran, names), {}, len(ran), 0, 0.0, Shares(host=perf_counter() - start))


def _open(entries: Sequence[Interface], axes: Sequence[LengthAxis]) -> tuple[Interface, ...]:
    """With -1 for sizes that are lengths."""
    places = {(axis.tensor, axis.axis) for axis in axes}
    shapes = [None if e.shape is None else tuple(-1 if (e.name, axis) in places else size for axis, size in enumerate(e.shape)) for e in entries]
    return tuple(replace(entry, shape=shape) for entry, shape in zip(entries, shapes, strict=True))
