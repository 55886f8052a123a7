"""A machine, and what a bundle says of a build when its folder is not there."""

from collections.abc import Iterator
from pathlib import Path

from toolchain.report.comparison.report_side import machine_keys, times
from toolchain.report.comparison.schedule_side import schedule_keys
from toolchain.report.comparison.side import BUILD, LESS, MACHINE, Figure, Part, Side
from toolchain.runtime.bundle import bundle_machine, read_bundle
from toolchain.runtime.contents import Bundle, Manifest, Target
from toolchain.runtime.timing import modelled
from toolchain.schedule.form.files import read_schedule
from toolchain.spec.errors import Source, UserError
from toolchain.spec.model import Machine
from toolchain.spec.render import NOTES, values_by_path

UNWORKING = ("assumptions", "target.summary", "target.sources")
"""Paths below which stand notes for people."""


def working_values(machine: Machine) -> dict[str, str]:
    """Every value by its path, notes left out."""
    return {path: text for path, text in values_by_path(machine, NOTES).items() if not path.startswith(UNWORKING)}


def machine_side(machine: Machine, name: str) -> Side:
    """Its values, and the multiply-accumulates that it could do in a second."""
    clock, peak = machine.timing.clock_khz, machine.timing.peak_macs
    figures = {"clock": Figure(clock / 1000, "MHz")} | ({"peak": Figure(peak * clock / 1e6, "GMAC/s")} if peak else {})
    figures |= {"area": Figure(machine.costs.area_mm2, "mm2", LESS)} if machine.costs and machine.costs.area_um2 else {}
    return Side(name, MACHINE, machine.summary, working_values(machine), figures=figures)


def bundle_side(path: Path, name: str) -> Side:
    """Regions stand for their operations, which a bundle does not name. Raises UserError E0001, E11xx."""
    bundle = read_bundle(path)
    manifest = bundle.manifest
    machines = {target.name: _known(target, str(path)) for target in manifest.targets}
    keys = {each.name: working_values(known) if (known := machines[each.name]) else _parameters(each) for each in manifest.targets}
    found = {each: machine for each, machine in machines.items() if machine is not None}
    figures = dict(_figures(found, manifest)) if len(found) == len(machines) else {}
    parts = tuple(Part(region.name, "region", region.cycles / region.images) for region in manifest.regions)
    return Side(name, BUILD, f"{manifest.model} on {' + '.join(keys)}", machine_keys(keys), _schedules(bundle, str(path)), figures, parts)


def _schedules(bundle: Bundle, place: str) -> dict[str, str]:
    texts = {
        region.name: Source(f"{place}/{region.schedule}", bundle.members[region.schedule].decode())
        for region in bundle.manifest.regions
        if region.schedule
    }
    return schedule_keys({name: read_schedule(source) for name, source in texts.items()})


def _known(target: Target, place: str) -> Machine | None:
    """None where no machine on the search path is the one that the bundle was made for; its parameters are still known."""
    try:
        return bundle_machine(target, place)
    except UserError:
        return None


def _parameters(target: Target) -> dict[str, str]:
    return {"target.fingerprint": target.fingerprint} | {f"params.{name}": str(value) for name, value in target.params.items()}


def _figures(machines: dict[str, Machine], manifest: Manifest) -> Iterator[tuple[str, Figure]]:
    time = modelled(machines, manifest)
    yield from times(time.samples, time.cycles, time.execute_ms, time.total_ms)
