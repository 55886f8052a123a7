"""Each sample runs in the smallest length that holds it, and gets what the integer network of that length computes for the filled sample."""

from functools import cache

import numpy as np
import onnx
import pytest

from tests.lengths_network import WORDS, built
from toolchain.graph.session import open_session, run_session
from toolchain.runtime.emulator_device import EmulatorDevice
from toolchain.runtime.length_executor import LengthExecutor, open_lengths
from toolchain.runtime.lengths import join_bundles
from toolchain.spec.arrays import Array
from toolchain.spec.errors import UserError
from toolchain.tasks.actions.paths import graph_file, machines_of


@cache
def executor(refusal: str = "", beyond: bool = False) -> LengthExecutor:
    held = built().bundle
    bundles = [(bucket.sizes, held.bundle(bucket)) for bucket in held.lengths.buckets]
    whole = onnx.load(built().plan.jobs[0].path) if beyond else None
    bundle = join_bundles(held.lengths.inputs, bundles, refusal, whole)
    return open_lengths(bundle, [*machines_of(built().plan.jobs[0])], EmulatorDevice(), optimise=False)


def sample(length: int, count: int = 1) -> dict[str, Array]:
    """Every word counts."""
    ids = np.random.default_rng(length).integers(1, WORDS, (count, length))
    return {"ids": ids, "mask": np.ones_like(ids)}


def integers(length: int, bucket: int) -> Array:
    """The integer network in ONNX Runtime, of the sample that is filled up to the bucket with this number."""
    size = (8, 16)[bucket]
    given = {name: np.pad(array, ((0, 0), (0, size - length))) for name, array in sample(length).items()}
    session = open_session(graph_file(built().plan.jobs[bucket]), optimise=False)
    return run_session(session, given)["words"][:, :length]


@pytest.mark.parametrize(("length", "bucket"), [(1, 0), (7, 0), (8, 0), (9, 1), (16, 1)])
def test_a_sample_gets_the_integers_of_its_bucket(length: int, bucket: int) -> None:
    outcome = executor().run(sample(length))
    assert outcome.outputs["words"].shape == (1, length, 16)
    assert np.array_equal(outcome.outputs["words"], integers(length, bucket))
    assert outcome.cycles == sum(region.cycles for region in executor().lengths.buckets[bucket].content.regions)


def test_results_are_near_those_of_the_file_whatever_the_length() -> None:
    session = open_session(built().plan.jobs[0].path)
    for length in (3, 8, 12, 16):
        given = sample(length)
        found, wanted = executor().run(given).outputs["words"].ravel(), run_session(session, given)["words"].ravel()
        assert found @ wanted / np.linalg.norm(found) / np.linalg.norm(wanted) > 0.99


def test_samples_of_mixed_lengths_come_back_in_their_order() -> None:
    lengths = [16, 3, 9, 8, 3]
    found = executor().run_each([sample(length) for length in lengths])
    for length, one in zip(lengths, found, strict=True):
        assert np.array_equal(one["words"], executor().run(sample(length)).outputs["words"])
    assert executor().run_each([]) == []


def test_several_samples_of_one_length_in_one_array() -> None:
    outcome = executor().run(sample(5, 3))
    assert outcome.samples == 3
    assert outcome.outputs["words"].shape == (3, 5, 16)


def test_its_interface_has_open_sizes() -> None:
    assert [entry.shape for entry in (*executor().manifest.inputs, *executor().manifest.outputs)] == [(1, -1), (1, -1), (1, -1, 16)]
    assert [*executor().machines] == ["dpuv3"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (sample(17), "E1131 no length of the bundle holds sequence 17; it has sequence 8; sequence 16"),
        (sample(0), "E1131 no length of the bundle holds sequence 0"),
        ({"ids": sample(4)["ids"], "mask": sample(5)["mask"]}, "E1108 the inputs differ in 'sequence': 4 and, of 'mask', 5"),
        ({"ids": sample(4)["ids"]}, "E1108 the input 'mask' needs an axis 1, whose size is 'sequence'"),
        ({"ids": sample(4)["ids"][0], "mask": sample(4)["mask"]}, "E1108 the input 'ids' needs an axis 1"),
        ({**sample(4), "more": sample(4)["ids"]}, "E1108 the model's inputs are ids, mask"),
    ],
)
def test_samples_that_no_length_takes(given: dict[str, Array], message: str) -> None:
    with pytest.raises(UserError) as raised:
        executor().run(given)
    assert message in str(raised.value)


def test_the_host_runs_by_the_own_file_of_the_model_whatever_no_length_takes() -> None:
    session = open_session(built().plan.jobs[0].path, optimise=False)
    for opened, length in ((executor(beyond=True), 20), (executor("rows mix", beyond=True), 7)):
        outcome = opened.run(sample(length))
        assert np.array_equal(outcome.outputs["words"], run_session(session, sample(length))["words"])
        assert (outcome.cycles, outcome.runs, outcome.samples) == (0, 0, 1)
    assert executor(beyond=True).run(sample(20, 3)).outputs["words"].shape == (3, 20, 16)
    mixed = executor(beyond=True).run_each([sample(20), sample(4)])
    assert [each["words"].shape[1] for each in mixed] == [20, 4]
    assert np.array_equal(mixed[1]["words"], executor().run(sample(4)).outputs["words"])
    with pytest.raises(UserError, match="E1131"):
        executor(beyond=True).run(sample(0))


def test_without_exact_padding_only_the_lengths_themselves_are_run() -> None:
    assert executor("rows mix").run(sample(8)).samples == 1
    with pytest.raises(UserError, match="E1132 sequence 7 is none of the bundle's lengths, and filling up is not exact: rows mix"):
        executor("rows mix").run(sample(7))
