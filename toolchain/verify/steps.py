"""Steps in a row: a bundle whose states the runtime keeps, beside the integer model in ONNX Runtime, whose states go from output to input."""

from collections.abc import Mapping

import onnx_ir as ir

from toolchain.graph.session import run_session
from toolchain.graph.states import Sequences, Tensors, each_step
from toolchain.graph.store import open_model
from toolchain.runtime.step_session import StepSession
from toolchain.spec.arrays import Array
from toolchain.verify.compare import differing_bits
from toolchain.verify.verdict import StepsVerdict

MOST = 64
"""Steps of the one sequence that is compared."""


def compare_steps(session: StepSession, integer: ir.Model, sequences: Sequences, place: str = "") -> StepsVerdict:
    """session: before its first step. integer: the oracle. The states are compared after every step, whatever keeps them.

    Raises UserError E0910 where ONNX Runtime stops, E07xx where the device does.
    """
    oracle, steps, elements, first, differing = open_model(integer, [], optimise=False), 0, 0, "", 0

    def run(inputs: Tensors) -> Tensors:
        return run_session(oracle, inputs, place=place)

    for inputs, wanted in each_step(run, sequences, 0):
        found = _outputs(session, {name: inputs[name] for name in sequences.given}, sequences.pairs)
        apart = {name: differing_bits(wanted[name], found[name]) for name in wanted}
        first = first or next((f"'{name}' in step {steps}" for name, count in apart.items() if count), "")
        differing, elements, steps = differing + sum(apart.values()), elements + sum(array.size for array in wanted.values()), steps + 1
        if steps == MOST:
            break
    stay = sum(place.place == "device" for place in session.places)
    return StepsVerdict(steps, elements, differing, first, stay, len(session.places))


def _outputs(session: StepSession, inputs: Tensors, pairs: Mapping[str, str]) -> dict[str, Array]:
    """All outputs of a step, states among them."""
    found = dict(session.step(inputs).outputs)
    return found | {pairs[name]: array for name, array in session.states().items()}
