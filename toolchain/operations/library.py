"""The operations that come with the toolchain, and those that a folder adds."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType

from toolchain.operations.kind import OperationKind
from toolchain.operations.kind_file import read_folder, read_kind
from toolchain.spec.errors import Source, fail
from toolchain.spec.model import Machine
from toolchain.spec.search import search_path
from toolchain.spec.suggest import nearest

FOLDER = Path(__file__).resolve().parent
Kinds = Mapping[str, OperationKind]


@cache
def builtin_kinds() -> Kinds:
    """Every operation of the toolchain, by name."""
    kinds = [read_kind(Source(str(path), path.read_text()), valid=True) for path in sorted(FOLDER.glob("*.yaml"))]
    return MappingProxyType({kind.name: kind for kind in kinds})


def kinds_with(folder: Path | None) -> Kinds:
    """The toolchain's operations and those that a folder describes. Raises UserError E1302 for a name that is taken already."""
    if folder is None or not folder.is_dir():
        return builtin_kinds()
    own = read_folder(folder)
    for name, kind in own.items():
        if name in builtin_kinds():
            raise fail("E1302", f"the toolchain has an operation '{name}' already", kind.span)
    return MappingProxyType({**builtin_kinds(), **own})


def kinds_of(machine: Machine) -> Kinds:
    """The toolchain's operations and those of the machine's own folder. Raises as `kinds_with`."""
    return kinds_with(own_operations(machine))


def own_operations(machine: Machine) -> Path | None:
    """The folder `operations` beside the machine's templates; None where it has none."""
    folders = [Path(machine.path).parent, *search_path("targets")]
    return next((found for folder in folders if (found := folder / machine.name / "operations").is_dir()), None)


def kind_named(kinds: Kinds, name: str) -> OperationKind:
    """Raises UserError E0107 where there is none."""
    if name not in kinds:
        raise fail("E0107", f"unknown operation '{name}'", hint=nearest(name, kinds) or f"known: {', '.join(kinds)}")
    return kinds[name]
