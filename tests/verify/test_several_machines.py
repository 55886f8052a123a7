"""A network over two machines: every tensor of every region on its own machine's emulator, and all of it by the executor."""

import pytest

from tests.verify.builds import build
from toolchain.runtime.device import Device, Image, LoadedProgram
from toolchain.runtime.emulator_device import EmulatorDevice
from toolchain.runtime.executor import open_bundle
from toolchain.verify.built import Built
from toolchain.verify.compare import Samples
from toolchain.verify.ladder import verify_model
from toolchain.verify.reference_sample import SampleSize

MODEL = """\
model: {name: shared, summary: for a test, sources: [here]}
inputs: {image: [1, 5, 6, 6]}
layers:
  - conv: {out: 20, kernel: 3, pad: half, act: relu, name: first}
  - conv: {out: 17, kernel: 3, pad: half, act: relu, name: middle}
  - maxpool: {kernel: 2, stride: 2}
  - flatten
  - dense: {out: 10}
targets:
  vta: [middle*]
"""
IMAGES = {"dpuv3": 4, "vta": 1}


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> tuple[Built, Samples]:
    folder = tmp_path_factory.mktemp("shared")
    path = folder / "shared.yaml"
    path.write_text(MODEL)
    return build("dpuv3,vta", str(path), folder)[1:]


def test_every_tensor_is_exact_on_its_own_machine(shared: tuple[Built, Samples]) -> None:
    """Machines that take different numbers of images a run, in one plan."""
    built, samples = shared
    regions = built.bundle.manifest.regions
    assert {region.target for region in regions} == {"dpuv3", "vta"}
    assert {region.images == IMAGES[region.target] for region in regions} == {True}
    verdict = verify_model(built, samples, SampleSize())
    assert verdict.exact
    assert len(verdict.regions) == len(regions) == 3
    assert verdict.machine == "dpuv3 + vta"


class Counting:
    """The emulator, and the machines whose programs it was given."""

    def __init__(self) -> None:
        self.machines: list[str] = []

    def load(self, image: Image) -> LoadedProgram:
        self.machines.append(image.program.machine.name)
        return EmulatorDevice(check=False).load(image)


def test_the_runtime_has_a_device_for_each_machine(shared: tuple[Built, Samples]) -> None:
    devices = {"dpuv3": Counting(), "vta": Counting()}
    given: dict[str, Device] = {**devices}
    executor = open_bundle(shared[0].bundle, None, given)
    assert {name: set(device.machines) for name, device in devices.items()} == {"dpuv3": {"dpuv3"}, "vta": {"vta"}}
    modelled = executor.modelled()
    assert modelled.samples == 4
    clocks = {name: machine.timing.clock_khz for name, machine in executor.machines.items()}
    wanted = sum(region.cycles * region.runs(4) / clocks[region.target] for region in executor.manifest.regions)
    assert modelled.execute_ms == pytest.approx(wanted)
