"""A network with states for tests: a recurrent layer whose state a machine reads and makes, and a counter of the host's."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import onnx
from onnx import numpy_helper, parser

from toolchain.graph.session import open_session, run_session
from toolchain.graph.states import Sequences, Tensors, each_step
from toolchain.models.states import model_sequences
from toolchain.runtime.bundle import read_bundle
from toolchain.runtime.contents import Bundle
from toolchain.runtime.device import Device
from toolchain.runtime.emulator_device import EmulatorDevice
from toolchain.runtime.executor import Executor, open_bundle
from toolchain.runtime.step_session import StepSession, open_steps
from toolchain.spec.arrays import Array
from toolchain.tasks.actions.paths import bundle_file, graph_file, machines_of, model_of
from toolchain.tasks.plan import make_plan
from toolchain.tasks.stage import Job, Step
from toolchain.tasks.work import fulfil

GIVEN, HELD, MADE = 16, 32, 8
NETWORK = f"""<ir_version: 10, opset_import: ["": 21]>
steps (float[1, {GIVEN}] x, float[1, {HELD}] h, int64[1] count) => (float[1, {MADE}] y, float[1, {HELD}] next_h, int64[1] next_count) {{
  from_x = MatMul (x, wx)
  from_h = MatMul (h, wh)
  sum = Add (from_x, from_h)
  next_h = Relu (sum)
  y = MatMul (next_h, wy)
  one = Constant <value = int64[1] {{1}}> ()
  next_count = Add (count, one)
}}"""
SEEN = NETWORK.replace("int64[1] next_count)", f"int64[1] next_count, float[1, {HELD}] seen)").replace("  y = ", "  seen = Exp (next_h)\n  y = ")
"""The same, but the host reads the state in the step that makes it."""
ALONE = f"""<ir_version: 10, opset_import: ["": 21]>
steps (float[1, {GIVEN}] x, float[1, {HELD}] h) => (float[1, {MADE}] y, float[1, {HELD}] next_h) {{
  from_x = MatMul (x, wx)
  from_h = MatMul (h, wh)
  sum = Add (from_x, from_h)
  next_h = Relu (sum)
  y = MatMul (next_h, wy)
}}"""
"""The same without the counter: all its tensors are floats."""
COUNTER = "  count: {output: next_count, start: 3}\n"
YAML = f"""model: {{name: steps, summary: a test}}
onnx: steps.onnx
state:
  h: {{output: next_h, start: {{file: start.npz, array: h}}}}
{COUNTER}calibration: {{seeded: 3, steps: 5}}
place: all
"""
SHAPES = {"wx": (GIVEN, HELD), "wh": (HELD, HELD), "wy": (HELD, MADE)}


def written(folder: Path, text: str = YAML, network: str = NETWORK) -> Path:
    """The model's file, its ONNX file and its start."""
    model, random = parser.parse_model(network), np.random.default_rng(2)
    for name, shape in SHAPES.items():
        model.graph.initializer.append(numpy_helper.from_array((random.standard_normal(shape) / np.sqrt(shape[0])).astype(np.float32), name))
    onnx.save(model, folder / "steps.onnx")
    np.savez(folder / "start.npz", h=random.random((1, HELD), np.float32))
    path = folder / "steps.yaml"
    path.write_text(text if "next_count" in network else text.replace(COUNTER, ""))
    return path


@dataclass(frozen=True)
class Built:
    """steps: of the build by stage, made as far as the bundle. folder: lives as long as this does."""

    steps: dict[str, Step]
    folder: TemporaryDirectory[str]

    @property
    def job(self) -> Job:
        return self.steps["bundle"].job

    @property
    def bundle(self) -> Bundle:
        return read_bundle(bundle_file(self.job))

    @property
    def sequences(self) -> Sequences:
        return model_sequences(model_of(self.job))

    def executor(self, device: Device | None = None) -> Executor:
        return open_bundle(self.bundle, [*machines_of(self.job)], device or EmulatorDevice(), optimise=False)

    def session(self, device: Device | None = None) -> StepSession:
        return open_steps(self.executor(device))

    def oracle(self, number: int = 0) -> list[tuple[Tensors, Tensors]]:
        """Inputs and outputs of each step of a sequence, by the integer network in ONNX Runtime."""
        session = open_session(graph_file(self.job), optimise=False)

        def run(inputs: Tensors) -> dict[str, Array]:
            return run_session(session, inputs)

        return list(each_step(run, self.sequences, number))


@cache
def built(target: str = "gemmini", network: str = NETWORK) -> Built:
    """Once for all tests of a process."""
    folder = TemporaryDirectory(prefix="steps-")
    root = Path(folder.name)
    plan = make_plan({"target": target, "model": str(written(root, network=network)), "effort": "0"}, root / "build")
    steps = dict(plan.steps[0])
    fulfil(steps["bundle"], lambda _: None)
    return Built(steps, folder)
