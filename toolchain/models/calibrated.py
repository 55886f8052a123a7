"""Where the ranges of a network's integers come from, said wherever figures of accuracy are."""

from toolchain.models.model import Model, Recorded

MADE_UP = "made-up"


def calibration_kind(model: Model, quantised: bool) -> str:
    """`recorded`, `declared` (by a quantised model itself), or `made-up`. quantised: whether the file rounds its own tensors."""
    if isinstance(model.calibration, Recorded):
        return "recorded"
    return "declared" if quantised else MADE_UP


def calibration_text(kind: str) -> str:
    """One line for a summary."""
    match kind:
        case "recorded":
            return "on recorded samples"
        case "declared":
            return "by the ranges that the quantised model declares; what it says nothing of, on made-up samples"
        case _:
            return "on made-up samples, so figures of accuracy say little: give recorded ones by calibration=FILE or in the model's file"
