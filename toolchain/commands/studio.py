"""`tilewright studio MACHINE MODEL`: a build as a whole on one page."""

import argparse
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolchain.commands.machine import sign
from toolchain.commands.tasks import given
from toolchain.spec.errors import fail
from toolchain.tasks.plan import make_plan

if TYPE_CHECKING:
    from toolchain.tasks.stage import Job

PLACES = ("target", "model")
"""The variables that the first words without a name are."""
STAGES = ("summary", "infer", "verify")
"""Stages whose results the page shows."""


def studio(arguments: argparse.Namespace) -> None:
    """Builds and verifies where that is not up to date, writes the page of each build, and prints its path.

    Raises as `tilewright verify`, and UserError E0002 for words that are no variables, or one file for several builds.
    """
    from toolchain.spec.files import write_atomic
    from toolchain.tasks.actions.paths import studio_file
    from toolchain.tasks.work import fulfil

    arguments.variables = named(arguments.variables)
    plan = make_plan(given(arguments))
    if arguments.output and len(plan.jobs) > 1:
        raise fail("E0002", f"{len(plan.jobs)} builds cannot go into one file", hint="name one machine and one model, or leave --output out")
    with sign("studio") as say:
        for job, steps in zip(plan.jobs, plan.steps, strict=True):
            for name in STAGES:
                fulfil(steps[name], say)
            say(f"drawing {job.model}")
            path = Path(arguments.output) if arguments.output else studio_file(job)
            write_atomic(path, page_of(job).encode(errors="replace"))
            print(path)


def named(words: list[str]) -> list[str]:
    """Words without `=` as the machine and the model, in this order. Raises UserError E0002 for a third one."""
    bare = [word for word in words if "=" not in word]
    if len(bare) > len(PLACES):
        raise fail(
            "E0002", f"'{bare[2][:80]}' is neither a variable nor a machine nor a model", hint="tilewright studio MACHINE MODEL NAME=VALUE ..."
        )
    return [f"{name}={word}" for name, word in zip(PLACES, bare, strict=False)] + [word for word in words if "=" in word]


def page_of(job: "Job") -> str:
    """The page of a build that is verified. Raises UserError E1206 for results that are damaged."""
    from toolchain.accuracy.closeness import read_inference
    from toolchain.report.studio.page import studio_page
    from toolchain.report.studio.regions import studio_regions
    from toolchain.report.summary import summarise_model
    from toolchain.tasks.actions.paths import infer_file, read_result, verdict_file
    from toolchain.tasks.actions.report import built_of
    from toolchain.verify.verdict import read_verified

    built, stages, told = built_of(job)
    inferred = read_result(infer_file(job), read_inference)
    verified = read_result(verdict_file(job).with_suffix(".json"), read_verified)
    summary = summarise_model(built, stages, replace(told, inferred=inferred, verified=verified))
    return studio_page(built, summary, list(studio_regions(built, _records(job))), verified)


def _records(job: "Job") -> dict[str, Mapping[str, Any]]:
    """Records of the searches by region."""
    from toolchain.tasks.actions.paths import read_result, search_file

    ending = search_file(job, "").name
    files = sorted(search_file(job, "").parent.glob(f"*{ending}"))
    return {path.name.removesuffix(ending): read_result(path, json.loads) for path in files}
