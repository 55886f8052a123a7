"""`toolchain.calibrate_in_use`: a model whose first real inputs calibrate it; until then ONNX Runtime computes it.

Source: Chen et al., Bring Your Own Codegen (2021), section 4.2: quantisation on the fly by the first inputs.
"""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toolchain.api.compiled import Compiled
from toolchain.api.loaded import Loaded
from toolchain.graph.importing.load import load_graph
from toolchain.runtime.assemble import assemble_bundle
from toolchain.runtime.emulator_device import EmulatorDevice
from toolchain.runtime.executor import open_bundle
from toolchain.spec.errors import fail
from toolchain.tasks.actions.paths import machines_of, onnx_file, sizes_of
from toolchain.tasks.work import fulfil

Array = NDArray[Any]
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

    def run(self, inputs: Mapping[str, Any]) -> dict[str, Array]:
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

    Raises UserError E0808 for less than one sample, and for inputs of which a sample has no fixed number of rows.
    """
    if samples < 1:
        raise fail("E0808", f"{samples} samples calibrate nothing")
    fulfil(planned.steps["onnx"], planned.say)
    machines = machines_of(planned.job)
    graph = load_graph(onnx_file(planned.job), sizes_of(planned.job))
    whole = open_bundle(assemble_bundle(planned.job.model, machines, graph, {}), [*machines], EmulatorDevice())
    odd = next((entry for entry in whole.manifest.inputs if not entry.shape or entry.shape[0] < 1), None)
    if odd is not None:
        raise fail("E0808", f"the input '{odd.name}' has no fixed number of rows in a sample, so its samples cannot be told apart")
    return InUse(samples, None, Loaded(whole), again)
