"""Copies beside that of one image: where their loads make it quicker they are taken, and never where the program found is slower."""

from collections.abc import Sequence

import pytest

from tests.schedule.test_compile_region import three_convolutions
from toolchain.schedule import helping
from toolchain.schedule.alike import Asked, search_all
from toolchain.schedule.compile_region import compile_schedule
from toolchain.schedule.helping import quickest_searched
from toolchain.schedule.kernels.kernel_file import load_kernels
from toolchain.schedule.options import Options
from toolchain.schedule.workers import Workers
from toolchain.spec.load import load_machine


def asked(target: str = "stcp920", streams: int = 1, images: int = 1) -> list[Asked]:
    machine = load_machine(target)
    return [Asked(machine, load_kernels(machine), three_convolutions(8), Options(streams=streams, images=images))]


def tried(monkeypatch: pytest.MonkeyPatch, given: Sequence[Asked], cycles: dict[int, float] | None = None) -> list[int]:
    """The numbers of copies that are estimated. cycles: in place of those of their programs."""
    found, rough = list[int](), helping._rough_cycles

    def noted(each: Asked) -> float:
        found.append(each.options.copies)
        return cycles.get(each.options.copies, 1e9) if cycles else rough(each)

    monkeypatch.setattr(helping, "_rough_cycles", noted)
    quickest_searched(given, Workers(1))
    return found


def test_cores_that_only_load_make_an_image_quicker() -> None:
    (own,) = asked()
    ((alone, _),) = search_all([own], Workers(1))
    (helped,), ((schedule, _),) = quickest_searched([own], Workers(1))
    assert helped.options.copies > 1
    assert (schedule.copies.times, schedule.multicast) == (helped.options.copies, True)
    one, several = (
        compile_schedule(each.machine, each.kernels, each.region, found, each.options) for each, found in ((own, alone), (helped, schedule))
    )
    assert several.cycles < 0.9 * one.cycles


def test_the_programs_that_are_found_decide(monkeypatch: pytest.MonkeyPatch) -> None:
    """Estimates that promise too much of eight cores lead to no slower program than one core's."""
    monkeypatch.setattr(helping, "_best_times", lambda _: 8)
    own = asked()
    alone = own, [*search_all(own, Workers(1))]
    eight = helping.with_copies(own, 8)
    together = eight, [*search_all(eight, Workers(1))]
    wanted = min(alone, together, key=helping._cycles)
    assert quickest_searched(own, Workers(1)) == wanted
    monkeypatch.setattr(helping, "_cycles", lambda found: float(found[0][0].options.copies))
    assert quickest_searched(own, Workers(1)) == alone


def test_copies_that_cannot_load_together_are_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cluster has eight cores; copies of several images have work of their own."""
    assert tried(monkeypatch, asked(), {1: 1.0}) == [1, 2, 4, 8]
    assert tried(monkeypatch, asked(streams=4), {1: 1.0}) == [1, 2]
    assert tried(monkeypatch, asked(streams=8)) == tried(monkeypatch, asked(images=2)) == tried(monkeypatch, asked("vta")) == []
