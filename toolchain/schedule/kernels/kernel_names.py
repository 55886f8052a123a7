"""The names that expressions of a kernel may use, by what is known where they stand."""

from collections.abc import Iterable
from dataclasses import dataclass

from toolchain.schedule.kernels.kernel import Dimension, Place, Window, place_named

OF_WINDOW = ("first", "count", "before", "after", "window")


@dataclass(frozen=True)
class Seen:
    """Names that expressions about tiles may use. given: of the operation. sized: and of tiles. emitted: of the operation, for instructions.

    stored: of tensors in DRAM.
    """

    sized: frozenset[str]
    given: frozenset[str]
    emitted: frozenset[str]
    stored: frozenset[str]
    dims: tuple[Dimension, ...]
    windows: tuple[Window, ...]
    places: tuple[Place, ...]
    constants: tuple[str, ...]

    def step(self, kind: str, place: str, uses: Iterable[str]) -> set[str]:
        """Names of a step's instructions: a load knows the dimensions of its place only."""
        dims = place_named(self.places, place).by if kind == "load" else tuple(d.name for d in self.dims)
        found = {f"{d}{end}" for d in dims for end in ("", "_at")} | {name for name in self.stored if name.endswith("_channels")}
        found |= {f"{w.name}_{part}" for w in self.windows if w.of in dims for part in OF_WINDOW} | self.emitted
        return found | {f"{used}_{name}" for used in (place, *uses) for name in place_named(self.places, used).names}

    def placed(self, place: str, uses: Iterable[str], constants: Iterable[str]) -> set[str]:
        """Names that have a value only when tiles and tensors have their places."""
        used = [place_named(self.places, name) for name in (place, *uses)]
        found = {f"{each.name}_{part}" for each in used for part in ("slot", "bank", *each.starts)}
        found |= {f"{name}.{end}" for name in constants for end in ("first", "stop")}
        return found | {name for name in self.stored if not name.endswith("_channels")}
