"""A bundle gives what ONNX Runtime gives for the whole partitioned model, bit for bit, whoever runs it and in whatever portions."""

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from numpy.typing import NDArray

from tests.runtime.small import bundle, images, network
from toolchain.codegen.binary import binary_code
from toolchain.graph.session import run_session
from toolchain.graph.store import open_model
from toolchain.runtime.assemble import assemble_bundle
from toolchain.runtime.bundle import data_name, write_bundle
from toolchain.runtime.contents import Bundle, RegionProgram
from toolchain.runtime.emulator_device import EmulatorDevice
from toolchain.runtime.executor import Executor, load, open_bundle
from toolchain.runtime.stand_alone import stand_alone
from toolchain.spec.errors import UserError

TARGETS = ["vta", "dpuv3"]
COUNT = 7


def opened(target: str, held: Bundle | None = None, **options: Any) -> Executor:
    return open_bundle(held or bundle(target), network(target)[0], EmulatorDevice(**options))


def expected(target: str, count: int) -> dict[str, NDArray[Any]]:
    session = open_model(network(target)[1])
    found = [run_session(session, {"x": images(count)[k : k + 1]}) for k in range(count)]
    return {name: np.concatenate([each[name] for each in found]) for name in found[0]}


@pytest.mark.parametrize(("target", "engine", "count"), [("vta", "fast", COUNT), ("dpuv3", "fast", COUNT), ("vta", "reference", 1)])
def test_outputs_are_those_of_the_integer_model(target: str, engine: str, count: int) -> None:
    outcome = opened(target, engine=engine).run({"x": images(count)})
    wanted = expected(target, count)
    assert outcome.outputs.keys() == wanted.keys()
    assert all(np.array_equal(outcome.outputs[name], array) and outcome.outputs[name].dtype == array.dtype for name, array in wanted.items())


@pytest.mark.parametrize("target", TARGETS)
def test_samples_come_in_groups_and_the_last_one_is_filled_up(target: str) -> None:
    executor = opened(target)
    group = executor.group
    assert group == (1 if target == "vta" else 4)
    assert executor.initialise > 0
    wanted = expected(target, COUNT)
    for count in (1, group, group + 1):
        outcome = executor.run({"x": images(COUNT)[:count]})
        assert outcome.runs == 2 * -(-count // group)
        assert outcome.samples == count
        assert outcome.cycles == sum(r.cycles for r in executor.manifest.regions) * -(-count // group)
        assert all(np.array_equal(array, wanted[name][:count]) for name, array in outcome.outputs.items())


@pytest.mark.drawn(1)
@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_copies_take_a_sample_each_and_none_knows_of_the_others(count: int) -> None:
    several, one = opened("stcp920", bundle("stcp920", 3)), opened("stcp920", bundle("stcp920"))
    assert (several.group, one.group) == (3, 1)
    for number in range(2):  # again: what the last run left in a room that has no sample now is nobody's
        pictures = images(6)[number : number + count]
        found, wanted = several.run({"x": pictures}), one.run({"x": pictures})
        assert all(np.array_equal(found.outputs[name], wanted.outputs[name]) for name in wanted.outputs)
        assert (found.runs, wanted.runs) == (2 * -(-count // 3), 2 * count)


def test_a_program_of_its_own_takes_one_image() -> None:
    with pytest.raises(UserError, match="E1114 region 'region0' takes 3 images a run, and a program takes one: build without 'images='"):
        stand_alone(bundle("stcp920", 3), {"stcp920": network("stcp920")[0]})


def test_a_map_for_more_streams_than_there_are_is_one_line() -> None:
    held = bundle("stcp920", 3)
    wrong = [replace(region, map=replace(region.map, streams=11)) for region in held.manifest.regions]
    with pytest.raises(UserError, match="E1104 the map of region 'region0' is for 33 streams, stcp920 runs 32"):
        opened("stcp920", replace(held, manifest=replace(held.manifest, regions=tuple(wrong))))


def test_a_model_without_regions_runs_on_the_host(tmp_path: Path) -> None:
    x = ir.Value(name="x", shape=ir.Shape((2, 3)), type=ir.TensorType(ir.DataType.FLOAT))
    node = ir.node("Exp", [x], name="e", num_outputs=1)
    node.outputs[0].name, node.outputs[0].shape, node.outputs[0].type = "y", ir.Shape((2, 3)), ir.TensorType(ir.DataType.FLOAT)
    model = ir.Model(ir.Graph([x], [node.outputs[0], x], nodes=[node], opset_imports={"": 21}, name="host"), ir_version=8)
    write_bundle(tmp_path / "host.bundle", assemble_bundle("host", [network()[0]], model, {}))
    executor, given = load(tmp_path / "host.bundle"), np.arange(12, dtype=np.float32).reshape(4, 3)
    outcome = executor.run({"x": given})
    assert (outcome.samples, outcome.runs, executor.group) == (2, 0, 1)
    assert np.allclose(outcome.outputs["y"], np.exp(given))
    assert np.array_equal(outcome.outputs["x"], given)


def test_a_region_without_a_program_is_one_line() -> None:
    machine, model, compiled = network()
    with pytest.raises(UserError, match="small: E1109 the region 'region1' has no program"):
        assemble_bundle("small", [machine], model, {"region0": binary_code(compiled["region0"])})


def test_no_samples_are_no_runs() -> None:
    outcome = opened("vta").run({"x": images(0)})
    assert (outcome.samples, outcome.runs, outcome.cycles) == (0, 0, 0.0)
    assert {name: array.shape for name, array in outcome.outputs.items()} == {"end.y": (0, 10, 8, 8), "conv3.y": (0, 10, 8, 8)}


def test_any_tensor_of_the_plan_can_be_watched() -> None:
    outcome = opened("vta").run({"x": images(2)}, watch=["q.y", "conv2.y"])
    assert {name: array.shape for name, array in outcome.watched.items()} == {"q.y": (2, 3, 8, 8), "conv2.y": (2, 16, 8, 8)}
    assert all(array.dtype == np.int8 for array in outcome.watched.values())


def test_threads_and_bundles_do_not_meet() -> None:
    executors = {target: opened(target) for target in TARGETS}
    wanted = {target: expected(target, COUNT) for target in TARGETS}
    wrong: list[str] = []

    def work(target: str, first: int) -> None:
        for _ in range(3):
            found = executors[target].run({"x": images(COUNT)[first:]}).outputs
            wrong.extend(name for name, array in found.items() if not np.array_equal(array, wanted[target][name][first:]))

    threads = [threading.Thread(target=work, args=(target, first)) for target in TARGETS for first in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_file_brings_its_machine(tmp_path: Path) -> None:
    write_bundle(tmp_path / "small.bundle", bundle())
    executor = load(tmp_path / "small.bundle")
    assert executor.machine.name == "vta"
    assert np.array_equal(executor.run({"x": images(1)}).outputs["end.y"], expected("vta", 1)["end.y"])


def test_cycles_are_counted_again_where_the_timing_is_another() -> None:
    held = bundle()
    stale = replace(held.manifest, targets=(replace(held.manifest.targets[0], timing="0"),), regions=tuple(_slow(r) for r in held.manifest.regions))
    executor = opened("vta", replace(held, manifest=stale))
    assert [r.cycles for r in executor.manifest.regions] == [r.cycles for r in held.manifest.regions]


def _slow(region: RegionProgram) -> RegionProgram:
    return replace(region, cycles=1e9)


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"y": images(1)},
        {"x": images(1), "y": images(1)},
        {"x": images(1)[0]},
        {"x": images(1).astype(np.float64)},
        {"x": images(1)[:, :2]},
        {"x": np.float32(1)},
    ],
)
def test_inputs_that_do_not_fit_are_one_line(given: dict[str, Any]) -> None:
    with pytest.raises(UserError, match="E1108") as caught:
        opened("vta").run(given)
    assert "\n" not in str(caught.value)


def changed(change: Any) -> Bundle:
    """The bundle with another first region."""
    held = bundle()
    region = change(held.manifest.regions[0])
    return replace(held, manifest=replace(held.manifest, regions=(region, *held.manifest.regions[1:])))


def test_a_map_that_the_machine_does_not_have_is_one_line() -> None:
    def with_map(**fields: Any) -> Bundle:
        return changed(lambda region: replace(region, map=replace(region.map, **fields)))

    whole = bundle().manifest.regions[0].map
    name, stored = next((name, stored) for name, stored in whole.tensors.items() if name in whole.inputs)
    wrong = [{"layout": "rows"}, {"view": "inp"}, {"extents": (1 << 20, 1, 8, 8)}, {"extents": (1, 64, 8, 8)}, {"channel": 16}]
    bundles = [with_map(tensors={**whole.tensors, name: replace(stored, **fields)}) for fields in wrong]
    bundles += [with_map(memory="inp"), with_map(registers="acc")]
    bundles += [with_map(segments={key: replace(segment, address=1 << 40) for key, segment in whole.segments.items()})]
    for held in bundles:
        with pytest.raises(UserError, match="E1104"):
            opened("vta", held)


def test_a_damaged_program_is_not_run() -> None:
    held = bundle()
    members = dict(held.members)
    members["region0.two"] = members["region0.two"][:-400]
    with pytest.raises(UserError, match="E032"):
        opened("vta", replace(held, members=members))


def test_other_weights_are_other_results() -> None:
    """The constants that run are those of the bundle."""
    held = bundle()
    region = held.manifest.regions[0]
    name, member = max(region.constants.items(), key=lambda item: len(held.members[item[1]]))
    other = bytes(byte ^ 1 for byte in held.members[member])
    region = replace(region, constants={**region.constants, name: data_name(other)})
    manifest = replace(held.manifest, regions=(region, held.manifest.regions[1]))
    found = opened("vta", Bundle(manifest, {**held.members, data_name(other): other}), check=False).run({"x": images(1)})
    assert not np.array_equal(found.outputs["end.y"], expected("vta", 1)["end.y"])


def test_inputs_of_open_sizes_are_one_sample() -> None:
    held = bundle("vta")
    (entry,) = held.manifest.inputs
    open_sizes = replace(held, manifest=replace(held.manifest, inputs=(replace(entry, shape=(-1, 3, -1, 8)),)))
    found = opened("vta", open_sizes).run({"x": images(1)})
    assert found.samples == 1
    assert all(np.array_equal(found.outputs[name], array) for name, array in expected("vta", 1).items())
    with pytest.raises(UserError, match=r"E1108 the input 'x' is float32 \[\?, 3, \?, 8\]; given is float32 \[1, 3, 8, 7\]"):
        opened("vta", open_sizes).run({"x": images(1)[..., :7]})


def test_host_segments_run_as_they_are_or_rewritten() -> None:
    plain = open_bundle(bundle("vta"), network("vta")[0], EmulatorDevice(), optimise=False).run({"x": images(2)}).outputs
    assert all(np.array_equal(plain[name], array) for name, array in expected("vta", 2).items())
