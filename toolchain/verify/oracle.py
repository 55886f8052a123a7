"""The oracle: every stored tensor of the integer network for several images, from ONNX Runtime."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from toolchain.graph.calibration.table import sample_at
from toolchain.graph.integers.integer_graph import integer_tensors
from toolchain.graph.integers.ort_selftest import check_oracle
from toolchain.graph.running.graph_session import open_model
from toolchain.graph.running.session import run_session
from toolchain.verify.compare import stacked

Array = NDArray[Any]
Samples = Mapping[str, Array]


def oracle_tensors(model: ir.Model, samples: Samples, more: Iterable[str] = ()) -> dict[str, Array]:
    """By tensor name, outputs included: [samples, *shape], or objects, see `stacked`.

    samples: by input, [samples, *shape]. more: names of other tensors that are asked for.

    Without ONNX Runtime's own rewriting: it rounds floating-point operators of a part otherwise than those of the whole.

    Raises UserError E0910 and E0914, ValueError where there is no sample.
    """
    check_oracle()
    asked = set(more)
    further = [value for node in model.graph for value in node.outputs if value.name in asked]
    session = open_model(model, [*integer_tensors(model), *further], optimise=False)
    counts = {len(array) for array in samples.values()} or {1}
    if counts == {0} or len(counts) > 1:
        raise ValueError("there is no sample, or inputs have different numbers of them")
    runs = [run_session(session, sample_at(samples, k)) for k in range(counts.pop())]
    given = {name: array for name, array in samples.items() if name in asked}
    return given | {name: stacked([run[name] for run in runs]) for name in runs[0]}


def first_samples(samples: Samples, count: int) -> dict[str, Array]:
    """Exactly `count` samples: the first ones, from the beginning again where there are fewer."""
    return {name: array[np.arange(count) % len(array)] for name, array in samples.items()}
