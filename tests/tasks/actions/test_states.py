"""Samples of a model with states are the steps of its sequences, by its own file, and the bundle knows where each state starts."""

import numpy as np

from tests.steps_network import built
from toolchain.graph.quantisation.table import read_table
from toolchain.graph.session import open_session, run_session
from toolchain.models.load import load_model
from toolchain.models.samples import calibration_samples
from toolchain.models.states import state_starts
from toolchain.tasks.actions.paths import model_of, table_file
from toolchain.tasks.actions.states import read_states, samples_counted, samples_of, sequences_of


def test_samples_are_steps_with_the_states_that_the_file_makes() -> None:
    job, model = built().job, model_of(built().job)
    found, session = samples_of(job, model), open_session(job.path.with_suffix(".onnx"), optimise=False)
    assert {name: array.shape for name, array in found.items()} == {"x": (15, 1, 16), "h": (15, 1, 32), "count": (15, 1)}
    assert found["count"].ravel().tolist() == [3, 4, 5, 6, 7] * 3
    for number in (0, 1, 2, 5, 6):
        made = run_session(session, {name: array[number] for name, array in found.items()})
        assert np.array_equal(made["next_h"], found["h"][number + 1])


def test_ranges_are_of_all_steps_and_not_of_the_start_alone() -> None:
    found, samples = read_table(table_file(built().job)).tensors["h"], samples_of(built().job, model_of(built().job))["h"]
    assert samples.max() > samples[0].max()
    assert np.isclose(found.spread.maximum, samples.max(), rtol=1e-3)


def test_the_states_that_later_stages_read() -> None:
    starts = state_starts(model_of(built().job))
    assert read_states(built().job) == (("h", "next_h", starts["h"].tobytes()), ("count", "next_count", starts["count"].tobytes()))


def test_models_without_states_keep_their_samples() -> None:
    model = load_model("digits")
    assert sequences_of(model) is None
    assert samples_of(built().job, model).keys() == calibration_samples(model).keys()
    assert samples_counted(model) == len(calibration_samples(model)["image"])


def test_every_step_counts() -> None:
    assert samples_counted(model_of(built().job)) == 15
