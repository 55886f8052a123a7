"""What the integer network says: every stored tensor of several images, from ONNX Runtime."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from toolchain.graph.canary import check_oracle
from toolchain.graph.integer_graph import integer_tensors
from toolchain.graph.running import open_model
from toolchain.graph.session import run_session

Array = NDArray[Any]
Samples = Mapping[str, Array]


def oracle_tensors(model: ir.Model, samples: Samples) -> dict[str, Array]:
    """By tensor name, outputs included: [images, ...]. samples: by input, [images, *shape without its batch]; the model takes one at a time.

    Raises UserError E0910 and E0914.
    """
    check_oracle()
    session = open_model(model, integer_tensors(model))
    runs = [run_session(session, one) for one in single_samples(samples)]
    return {name: np.concatenate([run[name] for run in runs]) for name in runs[0]}


def single_samples(samples: Samples) -> list[dict[str, Array]]:
    """One after the other, each with a batch of one. Raises ValueError where there is none, or inputs have different numbers of them."""
    (count,) = {len(array) for array in samples.values()}
    if not count:
        raise ValueError("there is no sample")
    return [{name: array[k : k + 1] for name, array in samples.items()} for k in range(count)]


def first_images(samples: Samples, count: int) -> dict[str, Array]:
    """Exactly `count` samples: the first ones, from the beginning again where there are fewer."""
    return {name: array[np.arange(count) % len(array)] for name, array in samples.items()}
