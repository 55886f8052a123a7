"""Other operations that compute the same: a grouped convolution as a dense one, a dense layer as a convolution, rows as a picture."""

from collections.abc import Iterator, Mapping

import numpy as np

from toolchain.operations.kind import OperationKind, Way
from toolchain.operations.library import Kinds, kind_named
from toolchain.operations.operation import BY_CHANNEL, Operation, finished
from toolchain.operations.reads import read_all
from toolchain.spec.arrays import Array
from toolchain.spec.evaluate import constant
from toolchain.spec.expr import Expr, Index, Name, rewrite, walk


def candidates(operation: Operation, kinds: Kinds) -> Iterator[Operation]:
    """Every way to compute an operation, the most fitting first; each is exact."""
    return (other for _, other in ways_of(operation, kinds))


def ways_of(operation: Operation, kinds: Kinds) -> Iterator[tuple[Way | None, Operation]]:
    """The chains, each with the operation's own way that begins it; None where the operation has no ways."""
    if not operation.kind.ways:
        yield None, operation
    for way in open_ways(operation):
        if way.stays(operation.kind.name):
            yield way, operation
        else:
            yield from ((way, other) for other in candidates(apply_way(way, operation, kinds), kinds))


def open_ways(operation: Operation) -> list[Way]:
    """An operation's own ways whose conditions hold."""
    return [way for way in operation.kind.ways if way.when is None or constant(way.when, operation.numbers)]


def stands(operation: Operation) -> bool:
    """Whether kernels are asked for an operation as it is: convolutions in groups, for one, are computed in other ways."""
    return not operation.kind.ways or any(way.stays(operation.kind.name) for way in open_ways(operation))


def reachable(kind: OperationKind, kinds: Kinds) -> frozenset[str]:
    """Names of the operations that a kind may be computed as, its own included."""
    found, waiting = {kind.name}, [kind]
    while waiting:
        for way in waiting.pop().ways:
            if way.operation not in found:
                found.add(way.operation)
                waiting.append(kind_named(kinds, way.operation))
    return frozenset(found)


def apply_way(way: Way, operation: Operation, kinds: Kinds) -> Operation:
    """The other operation. Numbers and known tensors of the same name carry over where the way does not give them.

    Raises UserError E0107 for an operation that is not there.
    """
    kind, numbers = kind_named(kinds, way.operation), operation.numbers
    derived = {*kind.shape, *kind.fixed, "half", "bias_least", "bias_most"}
    known = {name: numbers[name] for name in kind.numbers if name in numbers and name not in derived}
    known |= {name: constant(expr, numbers) for name, expr in way.numbers.items()}
    zeros = dict(zip(operation.kind.data, kind.data, strict=False)) | {"y": "y"}
    known |= {f"zero_{theirs}": numbers[f"zero_{own}"] for own, theirs in zeros.items() if f"zero_{own}" in numbers}
    extents = {**known, **{name: numbers[name] for name in kind.extents if name in numbers and name not in known}}
    arrays = {name: _array(kind, name, way, operation, extents) for name in kind.known}
    arrays |= {name: _channels(kind, name, way, operation, extents) for name in BY_CHANNEL if name in operation.arrays}
    return finished(kind, operation.name, known, arrays)


def _array(kind: OperationKind, name: str, way: Way, operation: Operation, extents: Mapping[str, int]) -> Array:
    """A known tensor of the other operation, in the type of the one that it is made of."""
    if name not in way.arrays:
        return operation.arrays[name]
    axes = kind.operand[name].axes
    loops = {index: range(extents[extent]) for index, extent in axes.items()}
    expr = way.arrays[name]
    read = next(each for each in _reads(expr) if each in operation.arrays)
    stored = operation.arrays[read]
    bits = {each: array.view(f"i{array.dtype.itemsize}") if array.dtype.kind == "f" else array for each, array in operation.arrays.items()}
    found = np.broadcast_to(spelled(expr, bits, operation.numbers, loops), [len(loop) for loop in loops.values()])
    return np.ascontiguousarray(found.astype(bits[read].dtype)).view(stored.dtype)


def _channels(kind: OperationKind, name: str, way: Way, operation: Operation, extents: Mapping[str, int]) -> Array:
    """The tensor that scales each channel of the other operation, placed as the bias is."""
    if kind.bias not in way.arrays:
        return operation.arrays[name]
    own = operation.kind.bias
    expr = rewrite(way.arrays[kind.bias], lambda e: Name(name, span=e.span) if isinstance(e, Name) and e.id == own else None)
    loops = {index: range(extents[extent]) for index, extent in kind.operand[kind.bias].axes.items()}
    places = {name: np.arange(len(operation.arrays[name]))}
    return operation.arrays[name][np.broadcast_to(spelled(expr, places, operation.numbers, loops), [len(loop) for loop in loops.values()])]


def _reads(expr: Expr) -> list[str]:
    return [e.base.id for e in walk(expr) if isinstance(e, Index) and isinstance(e.base, Name)]


def spelled(expr: Expr, arrays: Mapping[str, Array], numbers: Mapping[str, int], loops: Mapping[str, range]) -> Array:
    """An expression over elements of arrays, along loops: int64, or for one element alone as it is stored.

    Raises UserError E1301 for a read past an edge.
    """
    scope = read_all(arrays, numbers, loops, 0, unbounded=False)
    if isinstance(expr, Index):
        return scope.read(expr).array  # elements as they are: weights may be many
    ready, found = scope.opened(expr)
    return scope.value(ready, {name: array.astype(np.int64) for name, array in found.items()})
