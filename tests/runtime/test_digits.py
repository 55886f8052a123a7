"""The digits network on every machine that has kernels: in a bundle, through its file, every output bit equal to the integer model's, and as many
test images right."""

from pathlib import Path

import numpy as np
import pytest

from toolchain.codegen.generators import GENERATORS
from toolchain.graph.regions import region_calls
from toolchain.graph.session import run_session
from toolchain.graph.store import Store, open_model
from toolchain.models.build import build_model
from toolchain.models.load import load_model
from toolchain.models.samples import calibration_samples, labelled_samples
from toolchain.passes.build import build_graph, calibration_table
from toolchain.passes.context import Context
from toolchain.runtime.assemble import assemble_bundle
from toolchain.runtime.bundle import write_bundle
from toolchain.runtime.executor import load
from toolchain.schedule.backend import Backend
from toolchain.schedule.kernels.kernel_file import load_kernels
from toolchain.schedule.offload import device_of
from toolchain.schedule.read_region import read_region
from toolchain.spec.load import load_machine


@pytest.mark.drawn(1)
@pytest.mark.parametrize("target", ["vta", "dpuv3", "clib"])
def test_the_test_images_of_digits(target: str, tmp_path: Path) -> None:
    machine, network = load_machine(target), load_model("digits")
    kernels, path = load_kernels(machine), build_model(network, tmp_path)
    table = calibration_table(path, {}, calibration_samples(network))
    context = Context(str(path), numerics=machine.quantisation, table=table, device=device_of(machine, kernels), policy="all")
    model = build_graph(path, {}, context, Store(tmp_path / "stages"))
    backend = Backend(machine, kernels)
    generator = GENERATORS[machine.codegen]
    regions = {call.op_type: generator.generate(backend, read_region(machine, kernels, model, call)) for call in region_calls(model)}
    write_bundle(tmp_path / "digits.bundle", assemble_bundle("digits", [machine], model, regions))
    executor, test = load(tmp_path / "digits.bundle", native=True), labelled_samples(network)
    assert test is not None
    images, labels = test
    assert labels is not None
    (name,), (result,) = ([entry.name for entry in side] for side in (executor.manifest.inputs, executor.manifest.outputs))
    pictures = np.concatenate(images[name])
    outcome, session = executor.run({name: pictures}), open_model(model)
    expected = np.concatenate([run_session(session, {name: image})[result] for image in images[name]])
    assert np.array_equal(outcome.outputs[result], expected)
    assert [step.kind for step in executor.manifest.plan] == ["host", "region", "host"]
    assert outcome.runs == -(-len(pictures) // executor.group)
    right = float((outcome.outputs[result].argmax(axis=1) == labels).mean())
    print(f"{target}: {right:.4f} of {len(pictures)} right, {outcome.runs} runs, {outcome.cycles:.0f} cycles")
    assert right >= 0.99
