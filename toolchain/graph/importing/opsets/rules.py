"""The operators that need rewriting, and up to which operator set. Every other change since the first one only added: types, attributes, inputs."""

from collections.abc import Mapping
from types import MappingProxyType

from toolchain.graph.importing.opsets import attributes, rewrites
from toolchain.graph.importing.opsets.site import Adapter

Rules = tuple[tuple[int, Adapter], ...]

LEGACY = ("Add", "And", "Div", "Equal", "Greater", "Less", "Mul", "Or", "Pow", "Sub", "Xor")
REDUCTIONS = ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "SumSquare")

RULES: Mapping[str, Rules] = MappingProxyType(
    {
        **dict.fromkeys(LEGACY, ((7, rewrites.aligned),)),
        **{f"Reduce{kind}": ((18, attributes.as_input("axes")),) for kind in REDUCTIONS},
        **{kind: ((7, attributes.without("output_sequence")),) for kind in ("LSTM", "RNN")},
        **dict.fromkeys(("Hardmax", "LogSoftmax", "Softmax"), ((13, rewrites.coerced),)),
        "BatchNormalization": ((14, rewrites.batch_norm),),
        "Cast": ((6, attributes.cast_by_name),),
        "Clip": ((6, attributes.open_clip), (11, attributes.clip_limits)),
        "Concat": ((4, attributes.explicit(axis=1)),),
        "DFT": ((20, attributes.transform_axis),),
        "Dropout": ((12, rewrites.dropout),),
        "GRU": ((3, attributes.forward), (7, attributes.without("output_sequence"))),
        "Gemm": ((7, attributes.without("broadcast")),),
        "GlobalLpPool": ((2, attributes.whole_power),),
        "GridSample": ((20, attributes.grid_mode),),
        "GroupNormalization": ((21, rewrites.group_norm),),
        "LpPool": ((2, attributes.lp_window),),
        "PRelu": ((7, rewrites.slope),),
        "Pad": ((2, attributes.pad_name), (11, attributes.pad_sizes)),
        "ReduceSum": ((13, attributes.as_input("axes")),),
        "Reshape": ((5, attributes.reshape_attribute),),
        "Resize": ((11, rewrites.early_resize), (13, rewrites.resize)),
        "RoiAlign": ((16, attributes.explicit(coordinate_transformation_mode="output_half_pixel")),),
        "Scan": ((9, rewrites.batched_scan),),
        "Scatter": ((11, attributes.scatter_elements),),
        "Selu": ((6, attributes.explicit(alpha=1.6732, gamma=1.0507)),),
        "Slice": ((10, attributes.slice_ranges),),
        "Split": ((2, attributes.split_sizes_attribute), (13, attributes.as_input("split")), (18, attributes.split_count)),
        "Squeeze": ((13, attributes.squeeze_axes),),
        "Tile": ((6, attributes.tile_axis),),
        "TopK": ((10, attributes.top_k),),
        "Unsqueeze": ((13, attributes.unsqueeze_axes),),
        "Upsample": ((10, rewrites.upsample),),
    }
)


def due(kind: str, version: int, target: int) -> list[Adapter]:
    """The adapters that take an operator from one operator set to another, in order."""
    adapters = [adapter for before, adapter in RULES.get(kind, ()) if version < before <= target]
    return [attributes.without("consumed_inputs"), *adapters] if version < 6 <= target else adapters
