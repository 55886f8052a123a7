"""`tilewright studio MACHINE MODEL`: a build as a whole on one page."""

import argparse
import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolchain.commands.machine import sign
from toolchain.commands.tasks import given
from toolchain.spec.errors import fail
from toolchain.tasks.plan import make_plan

if TYPE_CHECKING:
    from toolchain.tasks.plan import Plan
    from toolchain.tasks.stage import Job

PLACES = ("target", "model")
"""The variables that the first words without a name are."""
STAGES = ("summary", "infer", "verify")
"""Stages whose results the page shows."""


def studio(arguments: argparse.Namespace) -> None:
    """Builds and verifies where that is not up to date, writes the page of each build, and prints its path; with --serve again and again.

    Raises as `tilewright verify`, and UserError E0002 for words that are no variables, or one file for several builds; with --serve as `serve`.
    """
    arguments.variables = named(arguments.variables)

    def make() -> "Plan":
        plan = make_plan(given(arguments))
        if (arguments.output or arguments.serve) and len(plan.jobs) > 1:
            one, hint = "one page" if arguments.serve else "one file", "name one machine and one model"
            raise fail("E0002", f"{len(plan.jobs)} builds cannot go into {one}", hint=hint if arguments.serve else f"{hint}, or leave --output out")
        return plan

    if arguments.serve:
        from toolchain.commands.studio_serve import serve

        serve(arguments.port, lambda plan: "".join(_pages(plan, arguments.output)), make)
    elif arguments.port:
        raise fail("E0002", "--port is for --serve")
    else:
        list(_pages(make(), arguments.output))


def _pages(plan: "Plan", output: str | None) -> Iterator[str]:
    """The page of each build, written and its path printed. output: the file of the one page that there is then."""
    from toolchain.spec.files import write_atomic
    from toolchain.tasks.actions.paths import studio_file
    from toolchain.tasks.work import fulfil

    with sign("studio") as say:
        for job, steps in zip(plan.jobs, plan.steps, strict=True):
            for name in STAGES:
                fulfil(steps[name], say)
            say(f"drawing {job.model}")
            path, page = Path(output) if output else studio_file(job), page_of(job)
            write_atomic(path, page.encode(errors="replace"))
            print(path, flush=True)
            yield page


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
