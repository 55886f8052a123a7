"""`tilewright fusion`: the groups of operations that a machine's templates find in a model, their prices, and whether each is right."""

import argparse
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from toolchain.commands.machine import sign
from toolchain.commands.tasks import given
from toolchain.spec.errors import fail
from toolchain.spec.model import Machine
from toolchain.tasks.plan import make_plan

if TYPE_CHECKING:
    from toolchain.schedule.search.draft import Space
    from toolchain.schedule.search.learned import LearnedOracle, Sample
    from toolchain.schedule.search.listing import Listing, PricedGroup


def list_groups(arguments: argparse.Namespace) -> None:
    """Builds the graph where it has to be, then prints the embeddings of each region. Raises as `tilewright build`, E1011 and E1202."""
    from toolchain.schedule.search.listing import list_embeddings

    found: list[Listing] = []
    with sign("fusion") as say:
        for space in _spaces(arguments, say):
            say(f"pricing the groups of {space.region.name}")
            found.append(list_embeddings(space, arguments.oracle))
    if arguments.json:
        print(json.dumps([asdict(each) for each in found], indent=1))
        return
    for each in found:
        print(_text(each))


def check_groups(arguments: argparse.Namespace) -> None:
    """Runs every embedding as a program of its own. Raises as `list_groups`, E1305 for one that is wrong, E06xx for one that breaks rules."""
    from toolchain.schedule.search.templates import find_embeddings, fusion_graph, load_templates
    from toolchain.verify.group_check import check_groups as check_all

    with sign("fusion") as say:
        for space in _spaces(arguments, say):
            say(f"checking the groups of {space.region.name}")
            found = [each.members for each in find_embeddings(load_templates(space.machine), fusion_graph(space.region))]
            programs = check_all(space, found, arguments.seed)
            print(f"{space.region.name}: {len(found)} embeddings, {programs} different programs, all exact, no race, no deadlock")


def learn_oracle(arguments: argparse.Namespace) -> None:
    """Prices the groups of all models exactly, and writes an oracle that is learnt from those that are not held out. Raises as `list_groups`, E0005,
    E1012 for too few groups and for several machines, E1202 for a model to be held out that is not there."""
    from toolchain.schedule.search.learned import Sample, draw_samples, learn
    from toolchain.spec.files import write_atomic

    machines, drawn = dict[str, Machine](), dict[str, list[Sample]]()
    held = [name for name in arguments.held_out.split(",") if name]
    with sign("fusion") as say:
        for model, space in _spaces_of(arguments, say):
            machines[space.machine.name] = space.machine
            for sample in draw_samples(space):
                drawn.setdefault(model, []).append(sample)
                say(f"timing the groups of {model}: {len(drawn[model])}")
    for name in held:
        if name not in drawn:
            raise fail("E1202", f"'{name}' cannot be held out: no such model has operations on the machine", hint=f"known: {', '.join(drawn)}")
    if len(machines) != 1:
        raise fail("E1012", "an oracle is learnt for one machine", hint=f"given: {', '.join(machines) or 'none that has operations of its own'}")
    (machine,) = machines.values()
    found = learn(machine, [sample for model, samples in drawn.items() if model not in held for sample in samples])
    write_atomic(Path(arguments.output), found.text().encode())
    print(_deviations(found, drawn, held))
    print(f"learnt from {found.groups} groups for {machine.name}: {arguments.output}")
    if found.groups < len(found.weights):
        print(f"few groups for {len(found.weights)} weights: elsewhere the estimate may be closer; --held-out MODEL,... tells")


def _deviations(found: "LearnedOracle", drawn: "Mapping[str, Sequence[Sample]]", held: Sequence[str]) -> str:
    """A row for each model. Groups that equal some that were learnt from say nothing of a model that was held out."""
    from toolchain.report.tables import table_text

    learnt = {sample.facts for model, samples in drawn.items() if model not in held for sample in samples}
    rows: list[list[str]] = []
    for model, samples in drawn.items():
        own = [sample for sample in samples if model not in held or sample.facts not in learnt]
        if own:
            off = found.deviation(own)
            shares = (off.plain_mean, off.mean, off.plain_worst, off.worst)
            rows.append([model, "held out" if model in held else "learnt", str(off.groups), *(f"{100 * share:.1f}" for share in shares)])
    return table_text(["model", "groups", "count", "estimate off %", "oracle off %", "worst estimate %", "worst oracle %"], rows, (0, 1))


def _spaces(arguments: argparse.Namespace, say: Callable[[str], None]) -> "Iterator[Space]":
    return (space for _, space in _spaces_of(arguments, say))


def _spaces_of(arguments: argparse.Namespace, say: Callable[[str], None]) -> "Iterator[tuple[str, Space]]":
    """The model and the drafts of each region that has a schedule."""
    from toolchain.schedule.options import Options
    from toolchain.schedule.regions.region import Region
    from toolchain.schedule.search.draft import Space
    from toolchain.tasks.actions.program import regions_of
    from toolchain.tasks.work import fulfil

    plan = make_plan(given(arguments))
    for job, steps in zip(plan.jobs, plan.steps, strict=True):
        fulfil(steps["graph"], say)
        for backend, region in regions_of(job).regions:
            if backend.tiled and isinstance(region, Region):
                yield job.model, Space(backend.machine, backend.kernels, region, Options())


def _text(found: "Listing") -> str:
    """A row for each embedding, those that save most first, then the sums of the covers."""
    from toolchain.report.tables import table_text

    ranked = sorted(found.embeddings, key=lambda row: (row.together - row.apart, row.operations))
    rows = [[row.template, " ".join(row.operations), *_counts(row)] for row in ranked]
    head = ["template", "operations", "cycles apart", "cycles together", "cycles saved", "bytes saved"]
    covers = [[name, str(len(cover.groups)), f"{cover.cycles:,.0f}", f"{found.apart / cover.cycles:.3f}"] for name, cover in found.covers.items()]
    table = table_text(head, rows, (0, 1)) if rows else "no group of two or more operations fits a template"
    sums = table_text(["cover", "groups", "cycles", "speedup"], [["none", "0", f"{found.apart:,.0f}", "1.000"], *covers], (0,))
    return f"{found.region}: {len(found.embeddings)} embeddings\n{table}\n{sums}"


def _counts(row: "PricedGroup") -> list[str]:
    return [f"{row.apart:,.0f}", f"{row.together:,.0f}", f"{row.apart - row.together:,.0f}", f"{row.saved_bytes:,}"]
