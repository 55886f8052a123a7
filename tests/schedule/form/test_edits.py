"""Random edits of schedules: whatever is not refused with its line is exact and free of races."""

from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.schedule.form.edits import compiled, read
from tests.schedule.test_compile_region import KERNELS, MACHINES, block, proven, random_region
from tests.yaml_text import dumped, loaded
from toolchain.schedule.compile_region import find_schedule
from toolchain.schedule.form.files import write_schedule
from toolchain.schedule.form.realise import realise
from toolchain.schedule.regions.region import Region
from toolchain.spec.errors import UserError


@dataclass(frozen=True)
class Editor:
    """Changes the data of a region's schedule as a draw says; an edit that is refused, with its line, is taken back."""

    name: str
    region: Region
    draw: Random

    def edit(self, data: dict[str, Any]) -> dict[str, Any]:
        if self.draw.random() < 0.5:
            data = self.attempt(data, lambda new: new.update(groups=list(self.reordered(new["groups"]))))
        for tensor in [buffer["tensor"] for buffer in data["buffers"]]:
            if self.draw.random() < 0.3:
                data = self.attempt(data, lambda new, tensor=tensor: self.spill(new, tensor))
        places = [(number, member) for number, group in enumerate(data["groups"]) for member in range(len(group["operations"]))]
        for number, member in places:
            for _ in range(3):
                data = self.attempt(data, lambda new, number=number, member=member: self.operation(new["groups"][number]["operations"][member]))
        return data

    def attempt(self, data: dict[str, Any], change: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
        new = deepcopy(data)
        change(new)
        try:
            realise(MACHINES[self.name], KERNELS[self.name], self.region, read(dumped(new)))
        except UserError as error:
            assert error.diagnostics[0].code.startswith("E14"), error  # noqa: PT017 any other refusal is a fault
            assert str(error).startswith("mine.yaml:"), error  # noqa: PT017
            return data
        return new

    def spill(self, data: dict[str, Any], tensor: str) -> None:
        """The tensor goes through DRAM, and slots stand wherever there is room then."""
        data["buffers"] = [buffer for buffer in data["buffers"] if buffer["tensor"] != tensor]
        for operation in (each for group in data["groups"] for each in group["operations"]):
            operation.pop("slots", None)
            operation.pop("within", None)

    def reordered(self, groups: list[Any]) -> Iterator[Any]:
        """Some order in which everything is made before it is read."""
        left, made = list(groups), self.whole(set(self.region.inputs))
        while left:
            ready = [group for group in left if self.reads(group) <= self.whole(made | self.made(group))]  # parts of a concat may be made inside
            chosen = self.draw.choice(ready)
            left.remove(chosen)
            made |= self.made(chosen)
            made |= self.whole(made)
            yield chosen

    def bound(self, group: Any) -> list[Mapping[str, str]]:
        return [self.region.operations[each["operation"]].tensors for each in group["operations"]]

    def made(self, group: Any) -> set[str]:
        return {tensors["y"] for tensors in self.bound(group)}

    def reads(self, group: Any) -> set[str]:
        return {name for tensors in self.bound(group) for place, name in tensors.items() if place != "y"} - self.made(group)

    def whole(self, made: set[str]) -> set[str]:
        """Concats all of whose parts are made, and parts of what is."""
        grown = made | {parent for parent, parts in self.region.parts.items() if all(name in made for name in parts)}
        grown |= {name for name, part in self.region.slices.items() if part.parent in grown}
        return grown if grown == made else self.whole(grown)

    def operation(self, data: dict[str, Any]) -> None:
        """Another tile, another order of loops, some of them backward, other slots."""
        tile = {name: self.size(size) for name, size in data["tile"].items()}
        names = [name for name in tile if name != "ic"]
        if self.draw.random() < 0.5:
            self.draw.shuffle(names)
        data["tile"] = {name: tile[name] for name in [*names, *(name for name in tile if name == "ic")]}
        data["slots"] = {place: self.draw.randint(1, 4) for place in data.get("slots", {}) if self.draw.random() < 0.5}
        data.pop("within", None)
        data.pop("backward", None)
        if self.draw.random() < 0.4:
            data["backward"] = self.draw.sample(list(tile), self.draw.randint(1, 2))

    def size(self, size: int) -> int:
        return max(1, self.draw.choice([size, size, size - 1, size // 2, size // 2 // 8 * 8, self.draw.randint(1, size), size + 8]))


def outcome(name: str, region: Region, text: str, seed: int) -> str:
    """`same` or `other` for a program of as many cycles as the search's schedule, `text`, or not; it is exact."""
    machine = MACHINES[name]
    changed = dumped(Editor(name, region, Random(seed)).edit(loaded(text)))
    found = compiled(name, changed, region)
    assert proven(found, machine), changed
    return "same" if found.cycles == compiled(name, text, region).cycles else "other"


@pytest.mark.parametrize(("name", "batch"), [("vta", 1), ("dpuv3", 4)])
@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 1 << 30), steps=st.integers(2, 7))
def test_whatever_an_edit_makes_is_exact_or_refused(name: str, batch: int, seed: int, steps: int) -> None:
    region = random_region(KERNELS[name], seed, steps, batch)
    if region is not None:
        try:
            text = write_schedule(find_schedule(MACHINES[name], KERNELS[name], region))
        except UserError:
            return  # a kernel's own matter
        outcome(name, region, text, seed)


def test_edits_change_the_time() -> None:
    region = block(20)
    text = write_schedule(find_schedule(MACHINES["dpuv3"], KERNELS["dpuv3"], region))
    assert "other" in {outcome("dpuv3", region, text, seed) for seed in range(3)}
