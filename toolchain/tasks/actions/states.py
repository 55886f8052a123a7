"""Models with states: the samples that their sequences of steps become, and the facts of their states that later stages read."""

import base64
import json
from collections.abc import Mapping
from pathlib import Path

from toolchain.graph.importing.load import load_graph
from toolchain.graph.quantisation.table import sample_count
from toolchain.graph.session import ONCE, open_session, run_session
from toolchain.graph.states import Sequences, Step, Tensors, unrolled
from toolchain.models.model import Model
from toolchain.models.samples import Samples, calibration_samples
from toolchain.models.states import check_states, model_sequences, state_starts
from toolchain.spec.files import write_atomic
from toolchain.tasks.actions.paths import onnx_file, sizes_of
from toolchain.tasks.stage import Job


def states_file(job: Job) -> Path:
    """The states of the model; not there where it has none."""
    return job.home("onnx") / "onnx" / "states.json"


def write_states(job: Job, model: Model) -> list[Path]:
    """Leaves the file, once the model's own ONNX file is there. Raises UserError E0815 as `check_states` and `state_starts`."""
    if not model.states:
        return []
    check_states(model, load_graph(onnx_file(job), sizes_of(job)))
    starts, path = state_starts(model), states_file(job)
    zero = {name: not array.view("u1").any() if array.ndim else not array for name, array in starts.items()}
    data = {name: "" if zero[name] else base64.b64encode(array.tobytes()).decode() for name, array in starts.items()}
    write_atomic(path, (json.dumps([[name, output, data[name]] for name, output in model.pairs.items()]) + "\n").encode())
    return [path]


def read_states(job: Job) -> tuple[tuple[str, str, bytes], ...]:
    """As `write_states` left them: input, output, and the bytes of the start, none for zeros."""
    path = states_file(job)
    held: list[list[str]] = json.loads(path.read_text()) if path.is_file() else []
    return tuple((name, output, base64.b64decode(data)) for name, output, data in held)


def samples_of(job: Job, model: Model) -> Mapping[str, Samples]:
    """As `calibration_samples`; of a model with states each step of its sequences, with the states that the file made itself, in floating point.

    Raises UserError E0808, E0910, and E0815 for a start that cannot be.
    """
    return unrolled(float_step(job), model_sequences(model)) if model.states else calibration_samples(model)


def samples_counted(model: Model) -> int:
    """How many there are. Raises UserError as `samples_of`."""
    sequences = sequences_of(model)
    return sequences.count * sequences.steps if sequences else sample_count(calibration_samples(model))


def sequences_of(model: Model) -> Sequences | None:
    """None for a model without states. Raises UserError E0808 and E0815."""
    return model_sequences(model) if model.states else None


def float_step(job: Job) -> Step:
    """One step of the model's file in ONNX Runtime. Raises UserError E0910 where it is refused."""
    place = str(onnx_file(job))
    session = open_session(onnx_file(job), optimise=False, threads=ONCE)

    def run(inputs: Tensors) -> Tensors:
        return run_session(session, inputs, place=place)

    return run
