"""The names that expressions of a kernel may use, by the values that are known where they stand."""

from dataclasses import dataclass
from functools import cached_property

from toolchain.schedule.kernels.kernel import Constant, Dimension, Place, Window, place_named
from toolchain.schedule.kernels.mentions import PARTS
from toolchain.schedule.kernels.scene import Scene, scene_of

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
    constants: tuple[Constant, ...]

    def step(self, kind: str, place: str) -> set[str]:
        """Names of a step's instructions: a load knows the dimensions of its place only."""
        dims = place_named(self.places, place).by if kind == "load" else tuple(d.name for d in self.dims)
        found = {f"{d}{end}" for d in dims for end in ("", "_at")} | {name for name in self.stored if name.endswith("_channels")}
        found |= {f"{w.name}_{part}" for w in self.windows if w.of in dims for part in OF_WINDOW} | self.emitted
        return found | {f"{p.name}_{name}" for p in self.places for name in p.names}

    @cached_property
    def scene(self) -> Scene:
        return scene_of(self.places, self.constants, self.sized)

    @cached_property
    def placed(self) -> frozenset[str]:
        """Names that have a value only when tiles and tensors have their places."""
        found = {f"{p.name}_{part}" for p in self.places for part in ("slot", "bank", *p.starts)}
        found |= {f"{c.name}.{end}" for c in self.constants for end in PARTS}
        return frozenset(found | {name for name in self.stored if not name.endswith("_channels")})
