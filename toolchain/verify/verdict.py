"""The verdict of a verification: every tensor that was compared, and the first difference with the instruction behind it."""

from dataclasses import dataclass

from toolchain.accuracy.closeness import Closeness
from toolchain.accuracy.errors import TensorError

Coordinates = tuple[int, ...]


@dataclass(frozen=True)
class LastWriter:
    """The last instruction that wrote an element. index: in the program. label: what the listing says of it. place: where it wrote.

    before: what it copied or computed from: the last instruction that wrote what it reads on chip, the one before that, and so on.
    """

    index: int
    instruction: str
    label: str
    place: str
    before: tuple[str, ...]


@dataclass(frozen=True)
class Difference:
    """The first element of a tensor that is not what the integer network says. coordinates: image, channel, row, column.

    differing: how many elements of the tensor differ. writer: None where no instruction wrote the element.
    nodes: of the ONNX graph that the operation stands for.
    """

    tensor: str
    coordinates: Coordinates
    expected: float
    found: float
    differing: int
    operation: str
    nodes: tuple[str, ...]
    writer: LastWriter | None


@dataclass(frozen=True)
class Compared:
    """A tensor that was compared element by element. where: the memory that it was read from. after: the operation that it was read after.

    difference: one that the machine's file does not allow. distance: the largest of all differences, where it allows some.
    """

    tensor: str
    after: str
    where: str
    elements: int
    difference: Difference | None = None
    distance: float = 0.0


@dataclass(frozen=True)
class Disagreement:
    """Engines that leave different bytes behind. instruction: what the engines executed last, empty after a whole program."""

    instruction: str
    label: str
    memory: str
    reference: str
    fast: str


@dataclass(frozen=True)
class Sampled:
    """The sample that the reference engine executed again: so many instructions of all, and so many elements that they write."""

    instructions: int
    of: int
    elements: int
    disagreement: Disagreement | None = None


@dataclass(frozen=True)
class RegionVerdict:
    """One region on the machine. hazards: what the checks before the run refuse (races, bad addresses); warnings: what they only tell.

    unseen: tensors that were not compared, each with the reason. ordered: whether runs in orders in which the units
    may issue leave the same outputs as one in the schedule's order. tolerated: hazards that the machine's file calls warnings.

    instructions: also calls of a library, or operators of a graph, as `told` says; these have no units and no reference engine, so sampled is
    None. allowed: how far results may be from the expected ones, and why; empty where they have to be the same bits.
    """

    region: str
    instructions: int
    compared: tuple[Compared, ...]
    unseen: tuple[tuple[str, str], ...]
    hazards: tuple[str, ...]
    warnings: tuple[str, ...]
    ordered: bool
    sampled: Sampled | None
    tolerated: int = 0
    told: str = ""
    allowed: str = ""

    @property
    def difference(self) -> Difference | None:
        """The first one: everything that its operation read was equal, as far as it was compared."""
        return next((item.difference for item in self.compared if item.difference), None)

    @property
    def exact(self) -> bool:
        """Whether all is right, and the same bits."""
        return self.right and not self.allowed

    @property
    def right(self) -> bool:
        """Whether all is as it has to be."""
        agreed = self.sampled is None or self.sampled.disagreement is None
        return self.difference is None and self.ordered and agreed and not self.unseen and not self.hazards


@dataclass(frozen=True)
class OutputVerdict:
    """An output of the whole model, by the executor and by ONNX Runtime on the integer model, compared bit by bit.

    With a machine whose file allows differences they may be as large; distance: the largest. mixed: elements that are others where several samples
    go through together than where each is alone, which no machine may do.
    """

    output: str
    elements: int
    differing: int
    distance: float = 0.0
    mixed: int = 0


@dataclass(frozen=True)
class ModelVerdict:
    """images: compared in every region, in one or several runs of its program. outputs: of the whole model.

    errors: of the integer network against the float one, worst first. closeness: the same in short. integers: whether there is an integer network;
    else all is compared with the float one.
    """

    model: str
    machine: str
    images: int
    regions: tuple[RegionVerdict, ...]
    outputs: tuple[OutputVerdict, ...]
    errors: tuple[TensorError, ...]
    closeness: Closeness
    integers: bool = True

    @property
    def exact(self) -> bool:
        """Whether all is right, and the same bits."""
        return self.right and not self.allowed

    @property
    def right(self) -> bool:
        """Whether all is as it has to be."""
        return all(region.right for region in self.regions) and not any(output.differing or output.mixed for output in self.outputs)

    @property
    def allowed(self) -> str:
        """How far results may be from the expected ones, and why, by the file of one of the machines; empty where all have to be the same bits."""
        return next((region.allowed for region in self.regions if region.allowed), "")

    @property
    def tensors(self) -> int:
        """How many tensors of all regions were compared."""
        return sum(len(region.compared) for region in self.regions)
