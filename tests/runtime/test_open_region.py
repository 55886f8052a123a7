"""C out of a bundle runs only for those who say that they trust it.

A region's engine: as many runs as its samples fill, results by the graph's names, whatever device answers.
"""

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import toolchain
from tests.c_networks import clib, compiled, pictures
from tests.graph_networks import built, samples
from tests.runtime.small import bundle, network
from toolchain.abi.dram_map import DramMap, Segment, Shape, StoredTensor
from toolchain.graph.session import open_session, run_session
from toolchain.runtime.bundle import write_bundle
from toolchain.runtime.contents import Port, RegionProgram
from toolchain.runtime.device import ByteRange, Bytes, Ran
from toolchain.runtime.emulator_device import EmulatorDevice
from toolchain.runtime.executor import load, open_bundle
from toolchain.runtime.open_region import ALIGN, CodeEngine, PackedEngine, RegionEngine, build_engine, c_of, check_places, compile_c, engine_of
from toolchain.spec.errors import UserError


@dataclass
class Answering:
    """A device that answers zeros, and takes a second for each share."""

    writes: list[Mapping[ByteRange, Bytes]] = field(default_factory=list[Mapping[ByteRange, Bytes]])

    def run(self, writes: Mapping[ByteRange, Bytes], reads: Sequence[ByteRange]) -> Ran:
        self.writes.append(writes)
        return Ran(tuple(np.zeros(where.bytes, np.uint8) for where in reads), 1.0, 2.0, 3.0)


@pytest.mark.parametrize("target", ["vta", "dpuv3"])
def test_samples_fill_runs_and_shares_add_up(target: str) -> None:
    machine, (region, *_) = network(target)[0], bundle(target).manifest.regions
    device, count = Answering(), region.images + 1
    engine: RegionEngine = PackedEngine(machine, region, device)
    (port,) = region.inputs
    results, shares = engine.run([{port.name: np.zeros(port.shape, np.int8), "other": np.ones(1)}] * count)
    assert len(device.writes) == 2
    assert (shares.launch, shares.execute) == (4.0, 6.0)
    assert shares.transfer >= 2.0
    assert [{name: array.shape for name, array in result.items()} for result in results] == [{p.name: p.shape for p in region.outputs}] * count


def test_no_samples_are_no_runs() -> None:
    device, region = Answering(), bundle("vta").manifest.regions[0]
    results, _ = PackedEngine(network("vta")[0], region, device).run([])
    assert (results, device.writes) == ([], [])


SHAPE = (1, 2, 3)


def _stored(segment: str, size: int = 24) -> StoredTensor:
    return StoredTensor(Shape(1, 6, 1, 1), segment, 0, size, "", "", (1, 6, 1, 1))


def _region(result: StoredTensor, segment: Segment) -> RegionProgram:
    held = DramMap("", "", {"inputs": Segment(0, 64), "results": segment}, {"x": _stored("inputs"), "y": result}, ("x",), ("y",))
    ports = (Port("graph.x", "x", SHAPE),), (Port("graph.y", "y", SHAPE),)
    return RegionProgram("region0", "npu", 1, "region0.bin", "", "", held, *ports, {}, 0.0, {}, "")


class _Doubling:
    """A device that answers with twice what was written."""

    def run(self, writes: Mapping[ByteRange, Bytes], reads: Sequence[ByteRange]) -> Ran:
        ((where, data),) = writes.items()
        assert (where, [*reads]) == (ByteRange("inputs", 0, 24), [ByteRange("results", 0, 24)])
        return Ran(((data.view("<f4") * 2).view(np.uint8),), 0.5, 0.25, 2.0)


def test_each_sample_is_a_run() -> None:
    samples = [{"graph.x": np.arange(6, dtype=np.float32).reshape(SHAPE) + k} for k in range(3)]
    made, shares = CodeEngine(_region(_stored("results"), Segment(64, 64)), _Doubling()).run(samples)
    assert all(np.array_equal(one["graph.y"], 2 * sample["graph.x"]) for one, sample in zip(made, samples, strict=True))
    assert (shares.transfer, shares.launch, shares.execute) == (1.5, 0.75, 6.0)


@pytest.mark.parametrize(
    ("result", "segment"),
    [
        (_stored("nowhere"), Segment(64, 64)),
        (_stored("results", size=20), Segment(64, 64)),
        (_stored("results"), Segment(64, 16)),
        (replace(_stored("results"), offset=-8), Segment(64, 64)),
        (_stored("results"), Segment(-64, 64)),
    ],
)
def test_a_place_that_is_none_is_refused(result: StoredTensor, segment: Segment) -> None:
    check_places(_region(_stored("results"), Segment(64, 64)), "place")
    with pytest.raises(UserError, match="E1104 the tensor 'y' of region 'region0' has no place"):
        check_places(_region(result, segment), "place")


def test_regions_and_host_together_give_the_models_results() -> None:
    found = built()
    assert [step.kind for step in found.executor.manifest.plan] == ["region", "host", "region"]
    session = open_session(found.folder / "00-import.onnx", optimise=False)
    for sample in samples(3):
        expected, outcome = run_session(session, {"x": sample}), found.executor.run({"x": sample})
        assert {name: array.tobytes() for name, array in outcome.outputs.items()} == {name: array.tobytes() for name, array in expected.items()}
        assert outcome.runs == 2
    assert found.executor.modelled().cycles == sum(region.cycles for region in found.executor.manifest.regions)


def damage(change: Callable[[Any], object]) -> bytes:
    region = built().bundle.manifest.regions[0]
    held = json.loads(built().bundle.members[region.binary])
    change(held)
    return json.dumps(held).encode()


WRONG: list[tuple[Callable[[Any], object], str]] = [
    (lambda held: held.update(version=2), "it is not tilewright-graph 1"),
    (lambda held: held.pop("nodes"), "'nodes'"),
    (lambda held: held["constants"][0].update(offset=1 << 40), "goes past its segment"),
    (lambda held: held["constants"][0].update(shape=[-1]), "cannot be"),
    (lambda held: held["constants"][0].update(dtype="object"), "cannot be"),
    (lambda held: held["nodes"][0].update(attributes={"group": {"tensor": 1}}), "'tensor'"),
    (lambda held: held["outputs"].clear(), "its inputs and outputs are not the region's"),
]


@pytest.mark.parametrize(("change", "message"), WRONG)
def test_a_damaged_graph_is_refused(change: Callable[[Any], object], message: str) -> None:
    bundle = built().bundle
    region = bundle.manifest.regions[0]
    constants = bundle.members[region.constants["constants"]]
    with pytest.raises(UserError, match=f"E1115 the graph of region 'region0' is damaged: .*{message}"):
        build_engine(region, damage(change), constants, "here")


def test_what_is_no_json() -> None:
    region = built().bundle.manifest.regions[0]
    with pytest.raises(UserError, match="E1115"):
        build_engine(region, b"{", b"", "here")
    assert engine_of(built().bundle, region, "here").region is region
    assert np.prod(region.inputs[0].shape) == 2 * 3 * 8 * 8


needs_c = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler on this machine")


@needs_c
def test_memory_is_aligned_and_holds_the_constants() -> None:
    bundle = compiled().bundle
    (region,) = bundle.manifest.regions
    found = c_of(bundle, region, clib().machine)
    assert found.memory.ctypes.data % ALIGN == 0
    held = region.map.segments["constants"]
    assert found.memory[held.address : held.address + held.bytes].tobytes() == bundle.members[region.constants["constants"]]


@needs_c
def test_what_does_not_fit_is_told() -> None:
    bundle, machine = compiled().bundle, clib().machine
    (region,) = bundle.manifest.regions
    with pytest.raises(UserError, match="E1104 the C of region 'region0' has no function 'other'"):
        c_of(bundle, replace(region, function="other"), machine)
    segments = {**region.map.segments, "swap": replace(region.map.segments["swap"], bytes=1 << 40)}
    with pytest.raises(UserError, match="E1104 the segment 'swap' of region 'region0' is outside 'memory' of clib"):
        c_of(bundle, replace(region, map=replace(region.map, segments=segments)), machine)


@needs_c
def test_c_that_does_not_compile() -> None:
    bundle = compiled().bundle
    (region,) = bundle.manifest.regions
    with pytest.raises(UserError, match=r"E0710 .* refused generated code"):
        compile_c(clib().machine, "region0", region.map, "region0", b"int region0(", {}, {})


@needs_c
def test_without_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    bundle = compiled().bundle
    monkeypatch.setenv("TILEWRIGHT_CC", "none")
    with pytest.raises(UserError, match="E0711 there is no C compiler"):
        open_bundle(bundle, clib().machine, EmulatorDevice())


@needs_c
def test_c_is_compiled_only_where_it_is_trusted(tmp_path: Path) -> None:
    path = tmp_path / "kinds.bundle"
    write_bundle(path, compiled().bundle)
    with pytest.raises(UserError, match="E1113 region 'region0' is C code, which would be compiled and run on this computer"):
        load(path)
    with pytest.raises(UserError, match="E1113"):
        toolchain.load(path)
    (sample,) = pictures(1)
    expected = compiled().executor.run({"x": sample}).outputs["y"]
    assert np.array_equal(load(path, native=True).run({"x": sample}).outputs["y"], expected)
    assert np.array_equal(toolchain.load(path, native=True).run({"x": sample})["y"], expected)
