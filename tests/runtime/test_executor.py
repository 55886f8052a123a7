"""A bundle gives what ONNX Runtime gives for the whole partitioned model, bit for bit."""

import numpy as np

from tests.runtime.small import bundle, images, network
from toolchain.graph.running import open_model
from toolchain.graph.session import run_session
from toolchain.runtime.emulator_device import EmulatorDevice
from toolchain.runtime.executor import open_bundle


def test_outputs_equal_those_of_the_integer_model() -> None:
    machine, model, _ = network()
    session = open_model(model)
    outcome = open_bundle(bundle(), machine, EmulatorDevice()).run({"x": images(3)})
    for number in range(3):
        for name, expected in run_session(session, {"x": images(3)[number : number + 1]}).items():
            assert np.array_equal(outcome.outputs[name][number : number + 1], expected)
