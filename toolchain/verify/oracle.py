"""What the integer network says: every stored tensor of several images, from ONNX Runtime."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from toolchain.graph.canary import check_oracle
from toolchain.graph.integer_graph import integer_tensors
from toolchain.graph.rewrite import shape_of
from toolchain.graph.running import open_model
from toolchain.graph.session import run_session

Array = NDArray[Any]
Samples = Mapping[str, Array]


def oracle_tensors(model: ir.Model, samples: Samples) -> dict[str, Array]:
    """By tensor name, outputs included: [images, ...]. samples: by input, [images, *shape without its batch], of which the model takes
    its own batch at a time.

    Raises UserError E0910 and E0914.
    """
    check_oracle()
    session = open_model(model, integer_tensors(model))
    sizes = {value.name or "": shape_of(value)[0] for value in model.graph.inputs}
    runs = [run_session(session, one) for one in batches(samples, sizes)]
    return {name: np.concatenate([run[name] for run in runs]) for name in runs[0]}


def batches(samples: Samples, sizes: Mapping[str, int]) -> list[dict[str, Array]]:
    """One after the other. sizes: how many of each input belong together. Raises ValueError where there is none, or inputs have different numbers."""
    (count,) = {len(array) // sizes[name] for name, array in samples.items()}
    if not count:
        raise ValueError("there is no sample")
    return [{name: array[k * sizes[name] : (k + 1) * sizes[name]] for name, array in samples.items()} for k in range(count)]


def first_images(samples: Samples, count: int) -> dict[str, Array]:
    """Exactly `count` samples: the first ones, from the beginning again where there are fewer."""
    return {name: array[np.arange(count) % len(array)] for name, array in samples.items()}
