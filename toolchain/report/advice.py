"""Advice to a user, for every reason why a node stays on the host."""

import re
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from types import MappingProxyType

from toolchain.passes.fuse import KNOWN, NO_KERNEL, UNKNOWN
from toolchain.passes.pattern import Pattern
from toolchain.passes.placement import DEARER, NO_DEVICE, ONLY_MOVES
from toolchain.passes.templates import Template
from toolchain.passes.wishes import GIVEN, KEPT, RULED, is_wished

CUT = "Let the model end before it and do the rest in your program, or accept it on the host."
GATE = (
    "A gate (one tensor times another: SiLU, HardSwish, squeeze-and-excite) stays on the host, and so does arithmetic between computed tensors. "
    "Trained with {activations} in its place, the layers around it stay in one region."
)
SMOOTH = "The machine's own activations are {activations}: trained with one of them, the layers around it stay in one region."
HEAD = (
    "Rows of a detector's head, of all its maps one behind the other: the machine keeps the channels of a pixel in blocks, where rows of fewer "
    "numbers have no place. The host reads the result in any case, so it makes no border more. " + CUT
)
OTHER = "The limit is the machine's own: `tilewright target manual {machine}` has it. A layer within it goes onto the machine."
ADVICE: tuple[tuple[str, str], ...] = (
    (KEPT, "Take its pattern out of `host` in the model's file."),
    (f"{GIVEN}*", "Take its pattern out of `targets` in the model's file."),
    (f"{RULED}*", "Change the rule in the deployment's file."),
    (NO_DEVICE, "Build it for a machine with kernels."),
    (KNOWN, "Leave it: an output that no input changes is kept in the host's part."),
    (ONLY_MOVES, "Leave it: it only moves data, and has no layer of the machine's beside it."),
    (DEARER, "Leave it: with `place=pays` or `place=all` the machine has it, and the model takes longer."),
    ("its operand is made on the host", "Nothing of its own: it goes where the node before it goes."),
    ("its integers put its output off*", "Lower 'float_percent' under 'quantisation' in the model's file to have it on the machine all the same."),
    ("the transposed convolution is in groups", "Write it with one group, and zeros for the others."),
    ("the result is larger than its taps reach", "Give it the size that its taps reach, and pad the result."),
    ("*does not pay*", "A region pays where it is large: see what stands between these and others. `place=all` makes them all the same."),
    ("there are no ranges*", "Record samples of the model's inputs and name them under `calibration` in the model's file."),
    ("a calibration sample made NaN*", "Look for the sample, or for a division by zero in the model: there is no range for such a tensor."),
    ("the quantised model declares no range*", "Quantise that tensor as well, or record samples under `calibration` in the model's file."),
    ("*is not a constant", "The machine multiplies by weights known when compiling; a product of computed tensors (attention) stays on the host."),
    ("*is a constant", "Only two computed tensors are added: a constant belongs into the bias of the layer before it."),
    ("neither operand is a constant with one number*", GATE),
    ("* does not have one number for each channel", "Give it one number for each channel. " + CUT),
    ("* has the shape *", "Give the factors one number for each channel: [n, c, 1, 1]."),
    ("a factor is not finite", "Look for a division by zero among the constants of the model."),
    ("the operands have different shapes", "Give both operands one shape: a sum that broadcasts stays on the host."),
    ("*has 3 axes, not 2", "Reshape it to rows [n * s, c] before the product, and back after it."),
    ("*has * axes*", "Pictures [n, c, h, w] and rows [n, c] run on the machine: keep the tensor in that form. " + CUT),
    ("the attribute * is *", OTHER),
    ("*holds *", "Integers and booleans of the model's own stay on the host. " + CUT),
    ("the type of * is not known", "Export the model with types, for example through `onnx.shape_inference`."),
    ("the shape of * depends on the data", "Export the model with fixed shapes, or give open sizes by `dim=`."),
    ("the limits of the clip are not constant", "Make the limits constants of the model."),
    ("the clip leaves no zero", "Only limits around zero are an activation of the machine."),
    ("the bias does not stand along the channels", "Give the layer a bias of one number a channel."),
    ("the dense layer reads its operand by columns", "Transpose the operand in the model before it, or export the layer with transA=0."),
    ("the indices of the pool are used", "Use resizing in place of unpooling by indices."),
    ("the size of the pool is rounded up", "Export with ceil_mode=0, or pad the picture."),
    ("a window lies outside the picture", "Pad by less than the window."),
    ("the divisor of the average changes at the border", "Export with count_include_pad=1, or pool without padding."),
    ("the * is not over height and width", "Only a mean or a maximum over the whole picture is a pool. " + CUT),
    ("the concat puts rows behind rows", HEAD),
    ("the result is a sequence of rows*", HEAD),
    ("the concat is not over channels", "Join along the channels. " + CUT),
    ("it does not put channels side by side", "Join along the channels. " + CUT),
    ("the picture does not grow by a whole factor", "Resize by a whole factor."),
    ("the picture is not simply repeated", "Resize to the nearest pixel in place of between pixels."),
    ("the slice runs backwards*", "Take a range that runs forwards."),
    ("the padding is not with zeros", "Pad with zeros."),
    ("the padding is not around the picture", "Pad height and width only, by amounts known when compiling."),
    ("the result is not one row for each picture", "Of all reshapes only flattening costs nothing. " + CUT),
    ("the channels are not shuffled between groups", "Of all reshapes only flattening and shuffling channels cost nothing. " + CUT),
    ("it computes with what was flattened", "Compute with it before flattening."),
    ("channels are shuffled by the convolution*", "Shuffle right behind a convolution that nothing else reads."),
    ("*whose channels it shuffles, does not run on the machine", "Nothing of its own: it goes where the convolution goes."),
    ("one tensor stands in it twice", "Join different tensors: one that is repeated is copied by the host."),
    ("*would begin at channel * of the result*", "Choose channels that are multiples of this number."),
    ("*is part of what * makes already", "A tensor can be part of one concatenation only: join them all at once."),
    ("*is part of * already", "A part stands where it was taken from: join the whole tensor, or all its parts in their order."),
    ("*which is no multiple of *", "Split where the channels are multiples of this number."),
    ("it does not take neighbouring channels*", "Take neighbouring channels, of all rows and columns."),
    ("padding goes into a convolution*", "Give the layers that read it padding of their own."),
    ("with it, * does not run on the machine*", "Nothing of its own: it goes where the layer goes whose padding it is."),
    ("*window*larger than*", "Use a smaller window: a mean over a large picture can be two pools, one after the other."),
    ("*limited as*", "Use one of these activations, or train with samples that make the limit the machine's."),
    ("*wants * in a layout*", "The layer before it stores pictures otherwise. " + CUT),
    ("*no tile of it fits on chip*", "Make the layer narrower, or the picture."),
)  # fmt: skip
"""Reasons as patterns, the first that fits counts."""

FAMILIES: tuple[tuple[str, str, str], ...] = (
    (
        "activation",
        "Sigmoid HardSigmoid HardSwish Swish Tanh Gelu Erf Mish Elu Selu Celu Softplus Softsign PRelu LeakyRelu Relu Clip ThresholdedRelu",
        SMOOTH,
    ),
    ("arithmetic", "Mul Div Sub Add Sum Pow Sqrt Exp Log Neg Abs Reciprocal Min Max Sign Floor Ceil Round Mod Where", GATE),
    (
        "move of data",
        "Reshape Transpose Slice Split Gather GatherND Squeeze Unsqueeze Expand Tile Concat Pad Flatten DepthToSpace SpaceToDepth",
        "The machine stores pictures in its own order, and the host rearranges them. " + CUT,
    ),
    (
        "normalisation",
        "Softmax LogSoftmax LayerNormalization InstanceNormalization GroupNormalization RMSNormalization LRN LpNormalization ReduceMean ReduceSum",
        "A batch normalisation folds into the layer before it and costs nothing; this one needs the values of each sample. " + CUT,
    ),
    ("recurrence", "LSTM GRU RNN", "Recurrent layers stay on the host; convolutions over time do not."),
    ("product", "MatMul Gemm Einsum ConvTranspose ConvInteger MatMulInteger", OTHER),
)
"""Operators that no template begins with: what they are, and what to do about them."""


def advise(reason: str, operator: str, machine: str, templates: Sequence[Template]) -> str:
    """One or two sentences on what to change. operator: of the node, for which there may be no template."""
    names: Mapping[str, str] = MappingProxyType({"activations": _listed(activations(templates)), "machine": machine})
    if reason == UNKNOWN or reason.startswith(NO_KERNEL):
        found = next((change for _, operators, change in FAMILIES if operator in operators.split()), CUT)
    else:
        found = next((change for pattern, change in ADVICE if fnmatchcase(reason, pattern)), OTHER)
    return found.format(**names)


def told(reason: str, operator: str, machine: str) -> str:
    """A reason in the user's words, without the names of tensors, so that equal reasons read alike."""
    if reason.startswith(NO_KERNEL):
        return f"{machine} has no kernel for {reason.removeprefix(NO_KERNEL)}"
    if reason == UNKNOWN:
        family = next((name for name, operators, _ in FAMILIES if operator in operators.split()), f"operator like {operator}")
        return f"{machine} computes no such {family}"
    if is_wished(reason):
        return reason
    plain = re.sub(r"kernel '([^']*)' cannot do this: ", r"as \1: ", reason)
    return re.sub(r"'[^']*'", "a tensor", plain)


def activations(templates: Sequence[Template]) -> list[str]:
    """The operators that templates take as a layer's activation."""
    found = [name for template in templates for pattern in _patterns(template.pattern) if pattern.role == "activation" for name in pattern.operators]
    return list(dict.fromkeys(found))


def _patterns(pattern: Pattern) -> list[Pattern]:
    inner = [part for part in (*pattern.inputs, *pattern.alternatives) if isinstance(part, Pattern)]
    return [pattern, *(each for part in inner for each in _patterns(part))]


def _listed(names: Sequence[str]) -> str:
    return " or ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else "".join(names) or "none"
