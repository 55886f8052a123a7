"""The origin of a network's ranges: stored in the integer network's file, and printed beside every figure of accuracy."""

import onnx_ir as ir

CALIBRATED = "tilewright.calibrated"
"""Metadata of an integer model: RECORDED, REPLACED, KEPT, DECLARED or MADE_UP."""
RECORDED, REPLACED, KEPT, DECLARED, MADE_UP = "recorded", "replaced", "kept", "declared", "made-up"
"""REPLACED: recorded samples in place of a quantised model's own scales. KEPT: its scales as they are. DECLARED: scales of the machine's for its
ranges."""


def calibration_kind(model: ir.Model) -> str:
    """The origin of an integer model's ranges; empty for any other model."""
    return model.metadata_props.get(CALIBRATED, "")


def calibration_text(kind: str) -> str:
    """One line for a summary."""
    match kind:
        case "recorded":
            return "on recorded samples"
        case "replaced":
            return "on recorded samples, in place of the scales that the quantised model declares"
        case "kept":
            return "by the scales that the quantised model declares, kept as they are"
        case "declared":
            return (
                "by the ranges that the quantised model declares, quantised anew in the machine's own scales, which may lose much: recorded samples "
                "(calibration=FILE), or the network before it was quantised, lose less; what it says nothing of, on made-up samples"
            )
        case "made-up":
            return "on made-up samples, so figures of accuracy say little: give recorded ones by calibration=FILE or in the model's file"
        case "":
            return "not at all, as nothing is computed in integers"
        case _:
            return "it is not known how"
