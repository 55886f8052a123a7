"""A model in a Python program: `Loaded` runs a bundle, also on pictures as they come from a camera or a file, `Compiled` is a build and its
reports, `InUse` calibrates itself by its first real inputs."""

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import cast

import numpy as np
from numpy.typing import ArrayLike

from toolchain.graph.importing.load import load_graph
from toolchain.graph.preparation import picture_size, pixels_as_input
from toolchain.runtime.assemble import assemble_bundle
from toolchain.runtime.contents import Interface
from toolchain.runtime.emulator_device import EmulatorDevice
from toolchain.runtime.executor import Executor, Outcome, open_bundle
from toolchain.runtime.length_executor import LengthExecutor, load_any
from toolchain.runtime.step_session import StepSession, open_steps
from toolchain.runtime.transfers import check_numbers
from toolchain.spec.arrays import Array
from toolchain.spec.errors import UserError, fail, nearest
from toolchain.spec.typed_json import Tree
from toolchain.tasks.actions.paths import (
    bundle_file,
    explain_file,
    graph_file,
    infer_file,
    machines_of,
    onnx_file,
    report_file,
    sizes_of,
    summary_file,
    verdict_file,
)
from toolchain.tasks.answers import infer_answer
from toolchain.tasks.plan import states_span, steps_of
from toolchain.tasks.stage import Job, Say, Step
from toolchain.tasks.work import fulfil


def prepare_picture(picture: Array, entry: Interface, resize: bool = False) -> Array:
    """picture: numbers [height, width, channels], or [height, width] where the input has one channel; [1, ...] of the input's shape and type.

    resize: to the input's size by bilinear interpolation that takes the mean where it shrinks, whatever that does to proportions.
    Raises UserError E1111 for a picture of another size or number of channels, E1112 for an input that is no picture or has no preparation, E1134 for
    NaN where the input is integers.
    """
    shape = _picture_shape(entry)
    height, width, channels = picture_size(shape)
    pixels = picture[:, :, None] if picture.ndim == 2 else picture
    if picture.dtype.kind not in "buif" or pixels.ndim != 3 or pixels.shape[2] != channels or not pixels.size:
        raise _misfit(picture, entry, (height, width, channels))
    if pixels.shape[:2] != (height, width) and not resize:
        raise _misfit(picture, entry, (height, width, channels), "resize it as those were that trained the model, or ask with resize=True")
    if picture.dtype.kind == "f" and not entry.dtype.startswith("float"):
        check_numbers({entry.name: picture}, frozenset((entry.name,)))
    return pixels_as_input(pixels.astype(np.float32), shape, entry.dtype, entry.preparation)


def _picture_shape(entry: Interface) -> tuple[int, ...]:
    shape = entry.shape or ()
    if len(shape) != 4 or shape[0] != 1 or min(shape) < 1:
        raise fail(
            "E1112", f"the input '{entry.name}' takes no single picture: it is {entry.dtype} {list(shape)}", hint="prepare its numbers yourself"
        )
    if entry.preparation is None and entry.dtype != "uint8":
        hint = "give 'mean', 'std', 'scale' or 'layout' of the input in the model's file, and build again"
        raise fail("E1112", f"the bundle does not say how a picture becomes the input '{entry.name}'", hint=hint)
    return shape


def _misfit(picture: Array, entry: Interface, wanted: tuple[int, ...], hint: str = "") -> UserError:
    message = f"a picture for the input '{entry.name}' is numbers [height, width, channels] of {list(wanted)}"
    return fail("E1111", f"{message}; given is {picture.dtype} {list(picture.shape)}", hint=hint)


@dataclass(frozen=True, repr=False)
class Loaded:
    """A bundle on the emulator of its machine. Any number of threads may call it.

    executor: the same with everything that the runtime knows, for tools; of a bundle of several lengths, one that picks the length of each call.
    """

    executor: Executor | LengthExecutor

    def __repr__(self) -> str:
        inputs, outputs = (", ".join(f"{entry.name} {entry.dtype} {entry.shape}" for entry in side.values()) for side in (self.inputs, self.outputs))
        return f"<{self.executor.manifest.model} on {', '.join(self.executor.machines)}: {inputs} -> {outputs}>"

    @property
    def _machines(self) -> str:
        return ", ".join(self.executor.machines)

    @property
    def inputs(self) -> Mapping[str, Interface]:
        """Name, shape and type of each input, by name."""
        return {entry.name: entry for entry in self.executor.manifest.inputs}

    @property
    def outputs(self) -> Mapping[str, Interface]:
        """Shapes of the outputs; -1 stands for a size that depends on the data."""
        return {entry.name: entry for entry in self.executor.manifest.outputs}

    def run(self, inputs: Mapping[str, object]) -> dict[str, Array]:
        """Outputs by name, of inputs by name, each [samples * first size, ...].

        Raises UserError E1108 for inputs of another name, shape or type, E1134 for NaN in one that becomes integers, E0910 where ONNX Runtime stops,
        E07xx where the machine does.
        """
        return dict(self.timed(inputs).outputs)

    def run_each(self, samples: Sequence[Mapping[str, object]]) -> list[dict[str, Array]]:
        """Outputs of each sample, of samples that may differ in length; those of one length run together. Raises as `run`."""
        given = [{name: self._array(name, value) for name, value in inputs.items()} for inputs in samples]
        several = self.executor if isinstance(self.executor, LengthExecutor) else None
        return several.run_each(given) if several else [dict(self.executor.run(inputs).outputs) for inputs in given]

    def timed(self, inputs: Mapping[str, object]) -> Outcome:
        """As `run`, with cycles of the machine and seconds that it took here."""
        return self.executor.run({name: self._array(name, value) for name, value in inputs.items()})

    def steps(self) -> StepSession:
        """A new sequence of steps of a model with states, which the runtime keeps between them; any number of sequences may go on beside each other.

        Raises UserError E1133 for a model without states.
        """
        if isinstance(self.executor, LengthExecutor):
            raise fail("E1133", "a bundle of several lengths has no states, so it has no steps")
        return open_steps(self.executor)

    def prepare(self, picture: ArrayLike, name: str = "", *, resize: bool = False) -> Array:
        """A picture as one sample of an input, the only one where no name is given: put in order and normalised as the bundle says.

        picture: numbers [height, width, channels], such as uint8. resize: to the input's size, whatever that does to proportions.
        Raises UserError E1108 for an unknown input, E1111 for a picture that does not fit, E1112 where the bundle says nothing of a preparation,
        E1134 for NaN where the input is integers.
        """
        inputs = self.inputs
        wanted = name or (next(iter(inputs)) if len(inputs) == 1 else "")
        if wanted not in inputs:
            hint = nearest(wanted, inputs) if wanted else "name one of them"
            raise fail("E1108", f"the model's inputs are {', '.join(inputs)}" + (f", not '{wanted}'" if wanted else ""), hint=hint)
        return prepare_picture(np.asarray(picture), inputs[wanted], resize)

    def _array(self, name: str, value: object) -> Array:
        """Lists of numbers as arrays of the input's type; a value that is no tensor stays as it is. Raises UserError E1108 for other lists."""
        entry = self.inputs.get(name)
        if entry is None or entry.shape is None or hasattr(value, "dtype"):
            return cast(Array, value)
        try:
            return np.asarray(value, entry.dtype if entry.dtype in np.sctypeDict else None)
        except (ValueError, TypeError, OverflowError) as error:
            raise fail("E1108", f"the input '{name}' is {entry.dtype}, and the value given makes no such array: {error}") from None


def load_bundle(bundle: str | Path, machine: str | Path | Sequence[str | Path] = "", *, native: bool = False) -> Loaded:
    """A bundle, ready to run. machine: the file of a machine that is not on the search path; of several, each one's in the bundle's order.

    native: whether C that the bundle brings may be compiled and run on this computer; say so only of a bundle that you trust.

    Raises UserError E0001 and E11xx for the bundle, E1105 where it was made for another machine, E1113 where it brings C and `native` is not set,
    E05xx and E06xx for a program that must not run.
    """
    given = [str(machine)] if isinstance(machine, str | Path) else [*map(str, machine)]
    machines = [name for name in given if name] or None
    return Loaded(load_any(Path(bundle), machines, native=native))


@dataclass(frozen=True)
class Answer:
    """text: for a reader. data: the same figures by name, as in the JSON file that the command of the same name leaves."""

    text: str
    data: Mapping[str, Tree]

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, repr=False)
class Compiled:
    """One model on one machine. Whatever is asked for is worked out when it is, once, and kept in the build's folder."""

    job: Job
    steps: Mapping[str, Step]
    say: Say

    def __repr__(self) -> str:
        return f"<{self.job.model} on {self.job.machines}: {self.bundle}>"

    @property
    def bundle(self) -> Path:
        """The file that `toolchain.load` takes."""
        return bundle_file(self.job)

    @property
    def folder(self) -> Path:
        """Everything that was made for this model on this machine."""
        return self.job.folder

    @cached_property
    def calibration(self) -> str:
        """Origin of the tensors' ranges: `recorded` samples, `declared` by a quantised model, or `made-up` samples, whose accuracy means little."""
        from toolchain.graph.quantisation.ranges import calibration_kind
        from toolchain.graph.store import read_stage

        fulfil(self.steps["graph"], self.say)
        return calibration_kind(read_stage(graph_file(self.job)))

    @property
    def summary(self) -> str:
        """The costs of the model on the machine, in about ten lines."""
        return self._answer("summary", summary_file).text

    @property
    def figures(self) -> Mapping[str, Tree]:
        """The summary's figures by name."""
        return self._answer("summary", summary_file).data

    def explain(self) -> Answer:
        """Explain the time by node, the reasons for host nodes and the remedies; from the graph, before compilation."""
        return self._answer("explain", explain_file)

    def verify(self) -> Answer:
        """Compares every tensor with the integer model, bit for bit. Raises UserError E1204 where one differs."""
        return self._answer("verify", verdict_file)

    def infer(self) -> Answer:
        """Runs the model's test images, or those that calibrate it: accuracy of the file, as integers, and on the emulator."""
        fulfil(self.steps["infer"], self.say)
        return Answer(infer_answer(self.job), json.loads(infer_file(self.job).read_text()))

    def report(self, *, html: bool = False) -> Answer:
        """Cost, accuracy and exactness, operation by operation. html: leaves `report.html` as well, a page for a browser, in the folder `report`."""
        return (self._with_page() if html else self)._answer("report", report_file)

    def load(self) -> "Loaded":
        """The bundle, ready to run."""

        return load_bundle(self.bundle, [target.path for target in self.job.targets], native=True)

    def _with_page(self) -> "Compiled":
        job = replace(self.job, variables=replace(self.job.variables, html=True))
        return replace(self, job=job, steps=steps_of(job, self.steps["report"].code))

    def _answer(self, stage: str, file: Callable[[Job], Path]) -> Answer:
        fulfil(self.steps[stage], self.say)
        path = file(self.job)
        return Answer(path.read_text().rstrip(), json.loads(path.with_suffix(".json").read_text()))


Compile = Callable[[Mapping[str, Array]], Compiled]


@dataclass
class InUse:
    """Any number of threads may call it. samples: real ones that calibrate it.

    compiled: the model on the machine, None before there were so many samples; then `run` computes there.
    """

    samples: int
    compiled: Compiled | None
    _loaded: Loaded
    _compile: Compile
    _seen: dict[str, list[Array]] = field(default_factory=dict[str, "list[Array]"])
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def run(self, inputs: Mapping[str, object]) -> dict[str, Array]:
        """Outputs by name, of inputs by name, each [samples * first size, ...], as `Loaded.run` takes them.

        The call that brings the last sample compiles the model; it is still computed in floating point itself.

        Raises UserError as `Loaded.run`, and all of `toolchain.compile`.
        """
        if self.compiled is not None:
            return self._loaded.run(inputs)
        with self._lock:
            if self.compiled is not None:
                return self._loaded.run(inputs)
            found = self._loaded.run(inputs)
            self._keep({name: np.asarray(array, self._loaded.inputs[name].dtype) for name, array in inputs.items()})
            if self._count() >= self.samples:
                made = self._compile({name: np.stack(arrays[: self.samples]) for name, arrays in self._seen.items()})
                self._loaded, self.compiled = made.load(), made
                self._seen.clear()
            return found

    def _count(self) -> int:
        return min(map(len, self._seen.values()))

    def _keep(self, inputs: Mapping[str, Array]) -> None:
        for name, array in inputs.items():
            first = (self._loaded.inputs[name].shape or (0,))[0]
            self._seen.setdefault(name, []).extend(np.array(part) for part in np.split(array, len(array) // first))


def in_use(planned: Compiled, again: Compile, samples: int) -> InUse:
    """planned: the build, of which only the model's file is made now. again: compiles it with recorded samples.

    Raises UserError E0808 for less than one sample, and for inputs of which a sample has no fixed number of rows; E0816 for a model with states.
    """
    if samples < 1:
        raise fail("E0808", f"{samples} samples calibrate nothing")
    if span := states_span(planned.job.path):
        raise fail("E0816", "calibration by the first inputs does not go with states", span, "record sequences of steps")
    fulfil(planned.steps["onnx"], planned.say)
    machines = machines_of(planned.job)
    graph = load_graph(onnx_file(planned.job), sizes_of(planned.job))
    whole = open_bundle(assemble_bundle(planned.job.model, machines, graph, {}), [*machines], EmulatorDevice())
    odd = next((entry for entry in whole.manifest.inputs if not entry.shape or entry.shape[0] < 1), None)
    if odd is not None:
        raise fail("E0808", f"the input '{odd.name}' has no fixed number of rows in a sample, so its samples cannot be told apart")
    return InUse(samples, None, Loaded(whole), again)
