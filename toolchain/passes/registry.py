"""Every pass by the name that pipelines use."""

from collections.abc import Mapping
from types import MappingProxyType

from toolchain.passes.as_pictures import AsPictures
from toolchain.passes.base import Pass
from toolchain.passes.correct_bias import CorrectBias
from toolchain.passes.equalise import Equalise
from toolchain.passes.fold_batch_norm import FoldBatchNorm
from toolchain.passes.fold_constants import FoldConstants
from toolchain.passes.fuse import Fuse
from toolchain.passes.merge_limits import MergeLimits
from toolchain.passes.merge_pads import MergePads
from toolchain.passes.partition import Partition
from toolchain.passes.quantize import Quantize
from toolchain.passes.remove_dead import RemoveDead
from toolchain.passes.remove_identity import RemoveIdentity
from toolchain.passes.remove_qdq import RemoveQdq

ALL: tuple[type[Pass], ...] = (
    FoldConstants,
    RemoveIdentity,
    RemoveQdq,
    MergeLimits,
    AsPictures,
    MergePads,
    FoldBatchNorm,
    Equalise,
    RemoveDead,
    Fuse,
    Quantize,
    CorrectBias,
    Partition,
)
PASSES: Mapping[str, type[Pass]] = MappingProxyType({kind.name: kind for kind in ALL})
