"""`tilewright fusion`: the groups of operations that a machine's templates find in a model, their prices, and whether each is right."""

import argparse
import json
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING

from toolchain.commands.machine import sign
from toolchain.commands.tasks import given
from toolchain.tasks.plan import make_plan

if TYPE_CHECKING:
    from toolchain.schedule.search.draft import Space
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


def _spaces(arguments: argparse.Namespace, say: Callable[[str], None]) -> "Iterator[Space]":
    """The drafts of each region that has a schedule."""
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
                yield Space(backend.machine, backend.kernels, region, Options())


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
