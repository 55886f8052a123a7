"""`tilewright profile`: times that a device measured beside those of the cycle model."""

import argparse
import json
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from toolchain.commands.machine import sign
from toolchain.spec.errors import fail
from toolchain.spec.files import write_atomic

if TYPE_CHECKING:
    from collections.abc import Mapping

    from toolchain.report.profile.read import Profile
    from toolchain.runtime.contents import RegionProgram


def profile(arguments: argparse.Namespace) -> None:
    """Prints a table for each region that the profile has, and writes page and JSON where asked to.

    Raises UserError E0001, E0002, E0005, E11xx for the bundle, E1128 for a profile that is none of its programs'.
    """
    from toolchain.report.bundle_programs import modelled_region, timed_regions
    from toolchain.report.profile.beside import beside, measured_spans, overlay
    from toolchain.report.profile.read import profile_file
    from toolchain.report.profile.text import profile_text
    from toolchain.report.timeline_data import write_timeline_page
    from toolchain.runtime.bundle import trusted_bundle
    from toolchain.spec.typed_json import to_json

    path = Path(arguments.bundle)
    bundle, machines = trusted_bundle(path, arguments.machine)
    regions = timed_regions(bundle, machines)
    found = profile_file(Path(arguments.profile))
    chosen = _chosen(found, regions, arguments.region)
    if arguments.html and len(chosen) > 1:
        raise fail("E0002", "a page is of one region", hint=f"choose it with --region: {', '.join(chosen)}")
    tables = list[object]()
    for name, region in chosen.items():
        with sign("timing"):
            modelled = modelled_region(bundle, region, machines[region.target], str(path))
        spans = measured_spans(found, found.of_region(name, len(regions) == 1), modelled)
        table = beside(found, spans, modelled)
        tables.append(to_json(table))
        print(profile_text(table, sys.stdout.isatty(), shutil.get_terminal_size().columns), end="")
        if arguments.html:
            title = f"{bundle.manifest.model} on {table.machine}, {name}, modelled and measured"
            write_timeline_page(Path(arguments.html), title, modelled.timeline, modelled.legend, overlay(modelled, spans))
    if arguments.json:
        write_atomic(Path(arguments.json), (json.dumps(tables, indent=1) + "\n").encode())


def _chosen(found: "Profile", regions: "Mapping[str, RegionProgram]", only: str | None) -> "Mapping[str, RegionProgram]":
    """The regions that the profile has rows of. Raises UserError E1128 for rows of none, E0003 for another region."""
    if only is not None and only not in regions:
        raise fail("E0003", f"the bundle has no program '{only}'", hint=f"known: {', '.join(regions)}")
    chosen = {name: regions[name] for name in found.regions(regions) if only in (None, name)}
    if not chosen:
        raise fail("E1128", f"the profile has no row of '{only}'", place=found.source.path)
    return chosen
