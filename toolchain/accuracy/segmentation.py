"""Masks: how much two of them have in common."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from toolchain.models.task import Segmentation

Array = np.typing.NDArray[Any]


def mask_iou(wanted: Mapping[str, Array], found: Mapping[str, Array], task: Segmentation) -> float:
    """Intersection over union of one sample's masks; 1 where both are empty."""
    name = task.output or next(iter(wanted))
    one, other = (outputs[name] > task.limit for outputs in (wanted, found))
    union = float((one | other).sum())
    return float((one & other).sum()) / union if union else 1.0
