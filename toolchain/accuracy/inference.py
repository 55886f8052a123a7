"""The results of running a model's samples three ways, as the task `infer` leaves them in a file."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from toolchain.accuracy.closeness import Closeness
from toolchain.accuracy.measure import Measured
from toolchain.spec.typed_json import from_json


@dataclass(frozen=True)
class Inference:
    """images: how many, of which kind. right: the share of right answers by way (float, integer, emulator), None without labels. task: the measure of
    the model's task by way, empty without one. exact: the emulator equals the integers in ONNX Runtime in every bit.

    images_per_run, cycles, machine_ms, total_ms: of one run. reference: why ONNX Runtime does not take the very file, empty where it does.
    """

    images: int
    kind: str
    right: Mapping[str, float | None]
    task: Mapping[str, Measured]
    exact: bool
    images_per_run: int
    cycles: float
    machine_ms: float
    total_ms: float
    clock_khz: int
    closeness: Closeness
    reference: str
    calibration: str


def inference_text(found: Inference) -> str:
    """The results as JSON, names in the order of the class."""
    return json.dumps(asdict(found), indent=1) + "\n"


def read_inference(text: str) -> Inference:
    """Raises ValueError for a text that `inference_text` did not write."""
    return from_json(Inference, json.loads(text))
