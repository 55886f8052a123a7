"""`toolchain.load`: a bundle that answers arrays with arrays."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toolchain.runtime.contents import Interface
from toolchain.runtime.executor import Executor, Outcome, load
from toolchain.runtime.pictures import prepare_picture
from toolchain.spec.errors import fail, nearest

Array = NDArray[Any]


@dataclass(frozen=True, repr=False)
class Loaded:
    """A bundle on the emulator of its machine. Any number of threads may call it.

    executor: the same with everything that the runtime knows, for tools.
    """

    executor: Executor

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

    def run(self, inputs: Mapping[str, Any]) -> dict[str, Array]:
        """Outputs by name, of inputs by name, each [samples * first size, ...].

        Raises UserError E1108 for inputs of another name, shape or type, E0910 where ONNX Runtime stops, E07xx where the machine does.
        """
        return dict(self.timed(inputs).outputs)

    def timed(self, inputs: Mapping[str, Any]) -> Outcome:
        """As `run`, with cycles of the machine and seconds that it took here."""
        return self.executor.run({name: self._array(name, value) for name, value in inputs.items()})

    def prepare(self, picture: Any, name: str = "", *, resize: bool = False) -> Array:
        """A picture as one sample of an input, the only one where no name is given: put in order and normalised as the bundle says.

        picture: numbers [height, width, channels], such as uint8. resize: to the input's size, whatever that does to proportions.
        Raises UserError E1108 for an unknown input, E1111 for a picture that does not fit, E1112 where the bundle says nothing of a preparation.
        """
        inputs = self.inputs
        wanted = name or (next(iter(inputs)) if len(inputs) == 1 else "")
        if wanted not in inputs:
            hint = nearest(wanted, inputs) if wanted else "name one of them"
            raise fail("E1108", f"the model's inputs are {', '.join(inputs)}" + (f", not '{wanted}'" if wanted else ""), hint=hint)
        return prepare_picture(np.asarray(picture), inputs[wanted], resize)

    def _array(self, name: str, value: Any) -> Any:
        """Lists of numbers as arrays of the input's type; what is no tensor stays as it is."""
        entry = self.inputs.get(name)
        if entry is None or entry.shape is None or hasattr(value, "dtype"):
            return value
        return np.asarray(value, entry.dtype if entry.dtype in np.sctypeDict else None)


def load_bundle(bundle: str | Path, machine: str | Path | Sequence[str | Path] = "", *, native: bool = False) -> Loaded:
    """A bundle, ready to run. machine: the file of a machine that is not on the search path; of several, each one's in the bundle's order.

    native: whether C that the bundle brings may be compiled and run on this computer; say so only of a bundle that you trust.

    Raises UserError E0001 and E11xx for the bundle, E1105 where it was made for another machine, E1113 where it brings C and `native` is not set,
    E05xx and E06xx for a program that must not run.
    """
    given = [str(machine)] if isinstance(machine, str | Path) else [*map(str, machine)]
    return Loaded(load(Path(bundle), [name for name in given if name] or None, native=native))
