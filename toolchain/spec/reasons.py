"""Every reason that a report gives: its code, its words, and the advice that goes with it. docs/reasons.md is this table."""

from collections.abc import Mapping, Sequence
from enum import Enum, unique

from toolchain.spec.errors import Diagnostic, Span, UserError
from toolchain.spec.reason import Argument, Reason, Wording

CUT = "Let the model end before it and do the rest in your program, or accept it on the host."
HEAD = (
    "Rows of a detector's head, of all its maps one behind the other: the machine keeps the channels of a pixel in blocks, where rows of fewer "
    "numbers have no place. The host reads the result in any case, so it makes no border more. " + CUT
)
LIMIT = "The limit is the machine's own: `tilewright target manual {machine}` has it. A layer within it goes onto the machine."
KERNEL = (
    "The limit is of this kernel in the machine's kernels.yaml. A layer within it goes onto the machine; so does another kernel (docs/kernels.md)."
)
RAISE = "Raise `loss` under `accuracy` in the model's file to have it on the machine all the same (docs/graph.md)."
NOTHING = "Nothing of its own: it goes where the node before it goes."
PEAK = (
    "The peak changes shares, never cycles: compare `peak_macs` in the machine's file with its timing classes (`tilewright target show {machine}`)."
)
STEPWISE = "The products with the inputs go apart from it. Convolutions over time do not depend on steps before."
TOGETHER = "Join along the channels. " + CUT


@unique
class Why(Enum):
    """A member makes a reason: `Why.NOT_CONSTANT(tensor=name)`; its name in lower case is the code. Tensors and nodes among the arguments are the
    model's, a `name` is the machine's."""

    # the user's own choice
    KEPT = Wording("the model's file keeps it on the host", "Take its pattern out of `host` in the model's file.")
    GIVEN = Wording("the model's file gives it to {owner}", "Take its pattern out of `targets` in the model's file.")
    RULED = Wording("by a rule of the deployment it is on {owner}: {note}", "Change the rule in the deployment's file, if it is not meant so.")
    RULED_HOST = Wording("by a rule of the deployment it is on the host: {note}", "Change the rule in the deployment's file.")

    # no operation or kernel for it
    NO_TEMPLATE = Wording("the machine computes no such {family}")
    RECURRENT = Wording(
        "the machine computes no recurrence; of its {steps} steps the products with the inputs alone would take {inputs_machine_ms:.3g} ms "
        "on the machine at least ({inputs_host_ms:.3g} ms on the host), and the loop that is left {loop_ms:.3g} ms to start its steps; those with "
        "the states would take {states_machine_ms:.3g} ms, a run for each step ({states_host_ms:.3g} ms)",
        "Of float32 layers with known weights the machine takes the products with the inputs of one sample where that pays (docs/graph.md). "
        "Convolutions over time do not depend on steps before.",
    )
    STEPS = Wording(
        "each of its {steps} steps needs the state after the step before; the products with the states, {macs:,.0f} multiply-accumulates a step, "
        "would take {machine_ms:.3g} ms on the machine at least, a run for each step, and take {host_ms:.3g} ms on the host",
        STEPWISE,
    )
    STEPS_UNPRICED = Wording(
        "each of its {steps} steps needs the state after the step before; the products with the states have {macs:,.0f} multiply-accumulates a step",
        STEPWISE,
    )
    NO_KERNEL = Wording("the machine has no kernel for {operation:name}")
    UNLISTED = Wording(
        "the machine's file does not list the operator {operator}", "If the engine has it, list it in `operators` of the machine's file."
    )
    NO_FUNCTION = Wording(
        "the machine's library has no function for the operator {operator}", "Write one, and describe its call (docs/code-generators.md)."
    )

    UNWRITTEN = Wording(
        "no rule writes this {operator} in operators that a machine knows: {note}", "Export the layer in operators of the standard (docs/graph.md)."
    )

    # regions
    NO_MACHINE = Wording("no machine was named", "Build it for a machine with kernels.")
    NO_OPERATION = Wording("it is not an operation of the machine's", CUT)
    ONLY_MOVES = Wording(
        "no operation beside it is computed on the machine", "Leave it: it only moves data, and has no layer of the machine's beside it."
    )
    DEARER = Wording(
        "the whole model takes less time with it on the host",
        "Leave it: with `place=pays` or `place=all` the machine has it, and the model takes longer.",
    )
    LOSS = Wording(
        "its region ({operations} in all, from {first:node} on) does not pay: with its border it costs at least {machine_ms:.3g} ms, on the host "
        "{host_ms:.3g} ms",
        "A region pays where it is large: see what stands between these and others. `place=all` makes them all the same.",
    )
    OVERSIZE = Wording(
        "it has {value:,.0f} {measure}, and the machine's file allows {limit:,.0f} in a region",
        "Raise the limit in `regions` of the machine's file, if the machine takes more.",
    )
    CONVERTS = Wording("converts between floating point and stored integers")
    CONSTANT_RESULT = Wording("it computes with constants alone", "Leave it: an output that no input changes is kept in the host's part.")
    NO_ELEMENTS = Wording("a tensor of it has no elements", "Leave it: there is nothing to compute.")
    HOST_OPERAND = Wording("its operand is made on the host", NOTHING)

    # integers
    INTEGER_ERROR = Wording(
        "its integers put its output off by {percent:.2g} %, and 'float_percent' allows it to stay",
        "Lower 'float_percent' under 'quantisation' in the model's file to have it on the machine all the same.",
    )
    COSTLY = Wording(
        "its integers alone put the outputs off by {percent:.2g} %, and with others by more than the model may lose; in floating point it takes "
        "{ms:.3g} ms more",
        RAISE,
    )
    COSTLY_UNPRICED = Wording("its integers alone put the outputs off by {percent:.2g} %, and with others by more than the model may lose", RAISE)
    NO_INTEGERS = Wording("node {node:node} ({operation}) cannot be quantised: {because}", LIMIT)
    STAGES = Wording("its stages compute in floating point, and say nothing of integers")
    NO_FLOATS = Wording(
        "the machine's floating format knows sums, means and choices of elements; {operation:node} is none of them, and no file has stages for it",
        "Say in stages how the machine computes it (docs/operations.md), or name a second machine behind this one.",
    )
    NO_ORDER = Wording(
        "the order in which the machine would add up the sum of node {node:node} is not the one that its file declares",
        "Leave it, or state the order for such numbers in the machine's file (docs/machine-description.md).",
    )
    NO_HALF = Wording(
        "node {node:node} has weights that float16 does not hold", "Divide the weights in the model by a power of two, and multiply the result by it."
    )
    NO_WEIGHT_SCALE = Wording("no scale of its weights keeps the sum within the accumulator")
    SHIFT = Wording("it needs a shift by {needed}, the machine has {low} to {high}")
    SUM_BITS = Wording("the sum can leave the accumulator of {bits} bits")
    PRODUCT_BITS = Wording("the product can leave the accumulator of {bits} bits")
    EXACT_BITS = Wording("{product} is more than {bits} bits")
    NO_MULTIPLIER = Wording("no multiplier of {bits} bits stands for {factor:g}")
    ARITHMETIC = Wording("the machine's own arithmetic cannot compute it with these scales: {message}")
    NO_STEP = Wording("one step of the machine's own arithmetic is {step:g}, which is no power of two")
    NO_WHOLE_FACTORS = Wording("its factors of channels are no whole numbers from 1 to {high}")
    NO_FACTOR_SCALE = Wording("its factors have no scale that is a power of two below 1")
    NO_RANGES = Wording(
        "there are no ranges: {failure}", "Record samples of the model's inputs and name them under `calibration` in the model's file."
    )
    UNUSABLE = Wording(
        "a calibration sample made NaN or infinity of {tensor:tensor}",
        "Look for the sample, or for a division by zero in the model: there is no range for such a tensor.",
    )
    UNDECLARED = Wording(
        "the quantised model declares no range of {tensor:tensor}",
        "Quantise that tensor as well, or record samples under `calibration` in the model's file.",
    )

    # tensors
    NO_TYPE = Wording("the type of {tensor:tensor} is not known", "Export the model with types, for example through `onnx.shape_inference`.")
    NOT_FLOAT = Wording("{tensor:tensor} holds {dtype}", "Integers and booleans of the model's own stay on the host. " + CUT)
    DATA_SHAPE = Wording("the shape of {tensor:tensor} depends on the data", "Export the model with fixed shapes, or give open sizes by `dim=`.")
    OTHER_NUMBER = Wording(
        "{tensor:tensor} is not the number {wanted:g}", "Write the function as ONNX has it, such as Gelu, or with its usual numbers."
    )
    NOT_CONSTANT = Wording(
        "{tensor:tensor} is not a constant",
        "The machine multiplies by weights known when compiling; a product of computed tensors (attention) stays on the host.",
    )
    IS_CONSTANT = Wording(
        "{tensor:tensor} is a constant", "Only two computed tensors are added: a constant belongs into the bias of the layer before it."
    )
    SHAPES_DIFFER = Wording("the operands have different shapes", "Give both operands one shape: a sum that broadcasts stays on the host.")
    WRONG_SHAPE = Wording("{tensor:tensor} has the shape {shape}", "Give the factors one number for each channel: [n, c, 1, 1].")
    NO_ROWS = Wording("{tensor:tensor} has 3 axes, not 2", "Reshape it to rows [n * s, c] before the product, and back after it.")
    WRONG_RANK = Wording(
        "{tensor:tensor} has {rank} axes, not {wanted}",
        "Pictures [n, c, h, w] and rows [n, c] run on the machine: keep the tensor in that form. " + CUT,
    )
    AXES = Wording("{tensor:tensor} has {rank} axes", "Pictures [n, c, h, w] and rows [n, c] run on the machine: keep the tensor in that form.")
    ATTRIBUTE = Wording("the attribute {attribute} is {value}, not {wanted}", LIMIT)
    NO_NUMBER = Wording("{tensor:tensor} is no constant of one number", "Export the model with that number written out.")
    ATTRIBUTE_MISSING = Wording("the attribute {attribute} of {operator} is left out", "Export the model with that attribute written out.")

    # activations and products
    OPEN_CLIP = Wording("the limits of the clip are not constant", "Make the limits constants of the model.")
    CLIP_WITHOUT_ZERO = Wording("the clip leaves no zero", "Only limits around zero are an activation of the machine.")
    BIAS = Wording("the bias does not stand along the channels", "Give the layer a bias of one number a channel.")
    NO_FACTORS = Wording("neither operand is a constant with one number for each channel")
    NO_CHANNEL_VECTOR = Wording("{tensor:tensor} does not have one number for each channel", "Give it one number for each channel. " + CUT)
    DOUBLE = Wording("{tensor:tensor} holds double, for which ONNX Runtime has no convolution", "Export the model in float32.")
    NOT_FINITE = Wording("a factor is not finite", "Look for a division by zero among the constants of the model.")
    COLUMNS = Wording(
        "the dense layer reads its operand by columns", "Transpose the operand in the model before it, or export the layer with transA=0."
    )
    GROUPS = Wording("the transposed convolution is in groups", "Write it with one group, and zeros for the others.")
    BEYOND_TAPS = Wording("the result is larger than its taps reach", "Give it the size that its taps reach, and pad the result.")

    # pools
    INDICES = Wording("the indices of the pool are used", "Use resizing in place of unpooling by indices.")
    ROUNDED_UP = Wording("the size of the pool is rounded up", "Export with ceil_mode=0, or pad the picture.")
    OUTSIDE = Wording("a window lies outside the picture", "Pad by less than the window.")
    DIVISOR = Wording("the divisor of the average changes at the border", "Export with count_include_pad=1, or pool without padding.")
    NOT_WHOLE = Wording("the {reduction} is not over height and width", "Only a mean or a maximum over the whole picture is a pool. " + CUT)

    # moves of data
    ROWS_BEHIND_ROWS = Wording("the concat puts rows behind rows", HEAD)
    ROW_SEQUENCE = Wording("the result is a sequence of rows, not one row for each picture", HEAD)
    OTHER_AXIS = Wording("the concat is not over channels", TOGETHER)
    NOT_BESIDE = Wording("it does not put channels side by side", TOGETHER)
    NO_WHOLE_FACTOR = Wording("the picture does not grow by a whole factor", "Resize by a whole factor.")
    NOT_REPEATED = Wording("the picture is not simply repeated", "Resize to the nearest pixel in place of between pixels.")
    PAD_VALUE = Wording("the padding is not with zeros", "Pad with zeros.")
    PAD_AXES = Wording("the padding is not around the picture", "Pad height and width only, by amounts known when compiling.")
    NOT_FLATTENED = Wording("the result is not one row for each picture", "Of all reshapes only flattening costs nothing. " + CUT)
    NOT_SHUFFLED = Wording(
        "the channels are not shuffled between groups", "Of all reshapes only flattening and shuffling channels cost nothing. " + CUT
    )
    BACKWARDS = Wording("the slice runs backwards or holds no element", "Take a range that runs forwards.")
    FLATTENED = Wording("it computes with what was flattened", "Compute with it before flattening.")
    SHUFFLE_ALONE = Wording(
        "channels are shuffled by the convolution that makes them for nobody else, and {tensor:tensor} has none",
        "Shuffle right behind a convolution that nothing else reads.",
    )
    SHUFFLE_MAKER = Wording(
        "{node:node}, whose channels it shuffles, does not run on the machine", "Nothing of its own: it goes where the convolution goes."
    )
    TWICE = Wording("one tensor stands in it twice", "Join different tensors: one that is repeated is copied by the host.")
    CHANNEL_START = Wording(
        "{tensor:tensor} would begin at channel {channel} of the result, which is no multiple of {block}",
        "Choose channels that are multiples of this number.",
    )
    PART_OF_RESULT = Wording(
        "{tensor:tensor} is part of what {node:node} makes already", "A tensor can be part of one concatenation only: join them all at once."
    )
    PART_OF = Wording(
        "{tensor:tensor} is part of {whole:tensor} already",
        "A part stands where it was taken from: join the whole tensor, or all its parts in their order.",
    )
    BEGINS = Wording(
        "it begins at channel {channel} of {tensor:tensor}, which is no multiple of {block}", "Split where the channels are multiples of this number."
    )
    ENDS = Wording(
        "it ends before channel {channel} of {tensor:tensor}, which is no multiple of {block}",
        "Split behind channels that are multiples of this number.",
    )
    NOT_NEIGHBOURS = Wording("it does not take neighbouring channels of whole pictures", "Take neighbouring channels, of all rows and columns.")
    PAD_READER = Wording(
        "padding goes into a convolution or an average after it, and {node:node} reads this one", "Give the layers that read it padding of their own."
    )
    PAD_OUTPUT = Wording("padding goes into a convolution or an average after it, and an output reads this one", "Let the model end before it.")
    PAD_REFUSED = Wording(
        "with it, {node:node} does not run on the machine: {because}", "Nothing of its own: it goes where the layer goes whose padding it is."
    )

    # the machine's own limits
    RULE = Wording("{note}", LIMIT)
    REQUIRES = Wording("kernel {kernel:name} cannot do this: {note}", KERNEL)
    WINDOW = Wording("kernel {kernel:name} cannot do this: a window along {axis} lies in the padding as a whole", "Pad by less than the window.")
    OUT_OF_RANGE = Wording("{instruction}'s {field} would be {value}, outside {low}..{high}")
    FIELD = Wording("kernel {kernel:name} cannot do this: {because}", LIMIT)
    NUMBER = Wording("kernel {kernel:name} cannot do this: {number} is {value}, outside {low}..{high}", LIMIT)
    LAYOUT = Wording(
        "kernel {kernel:name} wants {operand:name} in a layout that the machine does not write",
        "The layer before it stores pictures otherwise. " + CUT,
    )
    REACH = Wording(
        "a sum of {node:node} may reach {reach}, which {bits} bits do not hold", "Use fewer input channels, or a machine with a wider accumulator."
    )
    SLOPE = Wording("{node:node} has a slope of {slope:g} below zero", "Use a slope from 0 to 1.")
    NO_TILE = Wording("no tile of it fits on chip", "Make the layer narrower, or the picture.")
    TILE_FIELD = Wording("no tile of it fits its fields: {because}", "Make the layer narrower, or the picture.")
    TILE_ROOM = Wording(
        "no tile of it fits on chip: {place:name} takes {elements} elements of {memory:name}, which has {depth}",
        "Make the layer narrower, or the picture.",
    )
    BANK_ROOM = Wording("{because} in each bank", "Make the layer narrower, or the picture.")
    UNCUT_ROOM = Wording(
        "{because}, and kernel {kernel:name} has no dimension that reduces, to cut sums by",
        "Give the kernel a dimension that reduces (docs/kernels.md), or make the layer narrower.",
    )
    SUBGRAPH = Wording("it has a graph or a tensor among its attributes", CUT)
    NO_TENSOR = Wording("{tensor:tensor} is no tensor", CUT)
    ENGINE_SHAPE = Wording(
        "the shape of {tensor:tensor} is not known when the engine is built, or has no axes or no elements",
        "Export the model with fixed shapes, or give open sizes by `dim=`.",
    )
    ENGINE_TYPE = Wording("{tensor:tensor} is {dtype}, and the engine computes in float32", "Export the model in float32. " + CUT)
    REFUSED = Wording("{note} ({error})", "docs/errors/{error}.md is the page of this code.")

    # a build as a whole
    UNUSED_STREAMS = Wording(
        "{used} of the machine's {streams} programs at a time work on it",
        "Build it with `batch={streams}`: so many images side by side, as takes least time; or with `streams={streams}`: all share the work of one.",
    )
    HELPED = Wording(
        "{used} programs share the loads of weights, so that one image takes least time, and a run has room for {used}: one alone takes "
        "{milliseconds:.3g} ms with the host",
        "Leave it; `images=1` takes one program for an image, and more time.",
    )
    RUNS = Wording(
        "{region:node} runs {runs} times, as its program takes {images} of {batch} rows or pictures at a time",
        "Samples of fewer rows or pictures, or a machine that takes more at a time, run it less often.",
    )
    ROW_RUNS = Wording(
        "{region:node} runs {runs} times, once for each row: {because}", "A kernel that takes all rows runs it once (docs/kernels.md)."
    )
    UNREACHED_PEAK = Wording("no operation keeps its unit above {best:.0f} % of the declared peak of {peak} multiply-accumulates a cycle", PEAK)
    EXCEEDED_PEAK = Wording(
        "the timing classes of the machine's file allow {reached:,.1f} multiply-accumulates a cycle, more than its declared peak of {peak}", PEAK
    )

    # nodes that nobody computes
    FOLDED = Wording("taken away by the pass {step}")
    UNUSED = Wording("no result depends on it any more")

    def __call__(self, because: Sequence[Reason] = (), **arguments: Argument) -> Reason:
        """Raises TypeError where the arguments are not those of its words."""
        if arguments.keys() != self.value.arguments.keys():
            raise TypeError(f"{self.name} takes {', '.join(self.value.arguments) or 'no arguments'}, not {', '.join(arguments) or 'none'}")
        return Reason(self.name.lower(), {name: tuple(v) if isinstance(v, list) else v for name, v in arguments.items()}, tuple(because))

    def gave(self, reason: Reason) -> bool:
        """Whether a reason has this code."""
        return reason.code == self.name.lower()


def text_of(reason: Reason, general: bool = False) -> str:
    """A reason in words. general: without the names of the model's own parts."""
    return _wording(reason).say(reason, "; ".join(text_of(each, general) for each in reason.because), general)


def texts_of(reasons: Sequence[Reason]) -> str:
    """Several ways that are all closed, each once."""
    return "; ".join(dict.fromkeys(map(text_of, reasons)))


def change_of(reason: Reason, facts: Mapping[str, str]) -> str:
    """Advice to the user; empty where the code has no advice of its own. facts: `machine`, as commands take it, and `activations`."""
    arguments = {name: str(value) for name, value in reason.arguments.items()}
    return _wording(reason).change.format(**{**facts, **arguments})


def group_key(reason: Reason) -> str:
    """Equal for reasons that differ in names of the model's own parts alone."""
    forms = _wording(reason).arguments
    kept = {name: "" if forms.get(name) in ("tensor", "node") else value for name, value in reason.arguments.items()}
    return f"{Reason(reason.code, kept).key}{[group_key(each) for each in reason.because]}"


def refuse(error: str, reason: Reason, span: Span | None = None, hint: str = "") -> UserError:
    """An error whose message is a reason, for `raise refuse(...)`. error: its code."""
    return UserError(Diagnostic(error, text_of(reason), span, hint, reason=reason))


def reasons_of_error(error: UserError) -> tuple[Reason, ...]:
    """The reasons of an error's messages, each once."""
    found = [d.reason or Why.REFUSED(error=d.code, note=d.message) for d in error.diagnostics]
    return tuple({reason.key: reason for reason in found}.values())


def _wording(reason: Reason) -> Wording:
    return Why[reason.code.upper()].value
