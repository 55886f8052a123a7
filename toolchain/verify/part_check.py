"""Groups of a region's operations checked one by one: each as a program of its own, on random integers, against the operations' meaning.

Xing et al. (2019), section 3, check every fused operation before the network; here the emulator does, on whole tensors.
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from toolchain.emulator.engines import engine_named
from toolchain.schedule.compile_region import compile_region
from toolchain.schedule.compiled_region import CompiledRegion
from toolchain.schedule.options import Options
from toolchain.schedule.regions.region import Region, part_of_region
from toolchain.schedule.search.draft import Space
from toolchain.schedule.search.prices import Prices
from toolchain.spec.arrays import Array
from toolchain.spec.errors import fail
from toolchain.spec.model.quantisation import Numerics


def check_groups(space: Space, groups: Sequence[Sequence[int]], seed: int = 0) -> int:
    """How many programs were run: equal groups share one. Raises UserError E1305 for an element that is wrong, and all of `compile_region`, whose
    checks find races and deadlocks."""
    prices, done = Prices(space), set[tuple[object, ...]]()
    for number, members in enumerate(groups):
        key = prices.key(tuple(members))
        if key not in done:
            done.add(key)
            _check(space, part_of_region(space.region, members), np.random.default_rng((seed, number)))
    return len(done)


def random_results(compiled: CompiledRegion, rng: np.random.Generator) -> Iterator[tuple[str, Array, Array]]:
    """A compiled region run by the fast engine on random stored integers: by output, its name, the result, and the operations' meaning."""
    region, numerics = compiled.region, compiled.program.machine.quantisation or Numerics()
    low, high = numerics.activation.low, numerics.activation.high
    inputs: dict[str, Array] = {name: rng.integers(low, high + 1, region.tensors[name]).astype(numerics.stored) for name in region.inputs}
    state, wanted = compiled.state(inputs), region_values(region, inputs, numerics)
    engine_named("fast")(compiled.program, state, compiled.checked.order)
    yield from ((name, compiled.result(state, name), wanted[name]) for name in region.outputs)


def region_values(region: Region, inputs: Mapping[str, Array], numerics: Numerics) -> dict[str, Array]:
    """Every tensor of a region by the operations' meaning, stored integers [batch, channels, height, width]. inputs: by name."""
    known = dict(inputs)
    for bound in region.operations:
        operands = {name: _value(region, known, bound.tensors[name]) for name in bound.operation.kind.data}
        known[bound.tensors["y"]] = bound.operation.run(operands, numerics)
    return known


def _value(region: Region, known: Mapping[str, Array], name: str) -> Array:
    """A tensor, or its parts side by side, or its range of a larger one."""
    if name in known:
        return known[name]
    if parts := sorted((region.slices[part].channel, part) for part in region.parts.get(name, ())):
        return np.concatenate([_value(region, known, part) for _, part in parts], axis=1)
    own = region.slices[name]
    return _value(region, known, own.parent)[:, own.channel : own.channel + region.tensors[name].channels]


def _check(space: Space, region: Region, rng: np.random.Generator) -> None:
    compiled = compile_region(space.machine, space.kernels, region, Options(search="greedy"))
    for name, found, wanted in random_results(compiled, rng):
        if not np.array_equal(found, wanted):
            place = tuple(int(index) for index in np.argwhere(found != wanted)[0])
            names = ", ".join(f"'{bound.operation.name}'" for bound in region.operations)
            raise fail("E1305", f"{names} as a group make {found[place]} at {list(place)} of '{name}', not {wanted[place]}")
