"""A region's tensors out of a state, wherever they are: in DRAM where the map says, or on chip."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from toolchain.analysis.state import State
from toolchain.isa.footprint.footprints import Footprints, granules
from toolchain.verify.diagnosis.on_chip import OnChipReader, Piece
from toolchain.verify.diagnosis.writers import element_address
from toolchain.verify.program_under_test import ProgramUnderTest
from toolchain.verify.verdict import Coordinates

ON_CHIP = "on chip"


Beside = dict[str, State]
"""By tensor, the state in whose DRAM its pieces are gathered."""


@dataclass(frozen=True)
class TensorReader:
    """peek: for what never reaches DRAM; None where everything does."""

    tested: ProgramUnderTest
    peek: OnChipReader | None = None

    def where(self, tensor: str) -> str:
        """The memory of DRAM, or `on chip`; empty for a tensor that cannot be read."""
        if tensor in self.tested.map.tensors:
            return self.tested.map.memory_of(tensor)[0]
        return ON_CHIP if self.peek and self.peek.knows(tensor) else ""

    def pieces(self, tensors: Iterable[str]) -> list[Piece]:
        """Readings of tensors on chip, in the order of the program under test."""
        peek = self.peek
        wanted = [name for name in tensors if peek and name not in self.tested.map.tensors]
        origins = self.tested.origins.taken(self.tested.order)
        return sorted((piece for name in wanted for piece in peek.pieces(name, origins)), key=lambda p: p.stop) if peek else []

    def gather(self, state: State, piece: Piece, beside: Beside) -> None:
        """Reads a piece out of the state in which it is there."""
        if self.peek is not None:
            beside[piece.tensor] = self.peek.copy(state, piece, beside.get(piece.tensor))

    def read(self, state: State, tensor: str, beside: Beside) -> NDArray[Any]:
        """[images, channels, height, width]. Raises KeyError for a tensor that cannot be read."""
        if tensor in self.tested.map.tensors:
            return self.tested.result(state, tensor)
        if self.peek is None:
            raise KeyError(tensor)
        return self.peek.read(beside[tensor], tensor)

    def made(self, tensor: str, coordinates: Coordinates, stop: int) -> int:
        """How much of the program ran when the element was read; stop: when the tensor was complete."""
        if tensor in self.tested.map.tensors or self.peek is None:
            return stop
        store = self.peek.store_of(tensor, coordinates)
        return next((piece.stop for piece in self.pieces([tensor]) if store in piece.stores), stop)

    def locate(self, state: State, prints: Footprints, tensor: str, coordinates: Coordinates) -> tuple[str, int] | None:
        """Memory and granule of an element, as footprints count them; None where nothing says where it is."""
        machine = self.tested.program.machine
        if tensor in self.tested.map.tensors:
            name, instance = self.tested.map.memory_of(tensor)
            place = element_address(machine, self.tested.map, tensor, coordinates) // machine.memory[name].granule
            return name, instance * granules(machine.memory[name]) + place
        element = self.peek.locate(state, tensor, coordinates) if self.peek else None
        if element is None:
            return None
        memory = machine.memory[element.memory]
        instance = 0 if element.memory in prints.alike else element.instance
        return element.memory, instance * granules(memory) + element.start // memory.granule
