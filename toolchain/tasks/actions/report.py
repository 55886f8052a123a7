"""The report of a model on the machine: its costs, how right it is, and why each node is where it is."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from toolchain.accuracy.inference import read_inference
from toolchain.analysis.checks import prepare_program
from toolchain.graph.regions import region_calls
from toolchain.models.load import load_model
from toolchain.report.explain_text import costs_text
from toolchain.report.page import report_page
from toolchain.report.plan_line import plan_line
from toolchain.report.sheets import rows_sheet
from toolchain.report.summary import Told, summarise_model
from toolchain.report.summary_text import operations_text, summary_data, summary_text
from toolchain.report.timeline_page import region_legend, write_timeline_page
from toolchain.spec.files import write_atomic
from toolchain.tasks.actions.paths import (
    bundle_file,
    graph_file,
    infer_file,
    machines_of,
    onnx_file,
    report_file,
    summary_file,
    verdict_file,
)
from toolchain.tasks.actions.reports import write_report
from toolchain.tasks.stage import Job, Say, Step
from toolchain.tasks.work import Made
from toolchain.timing.simulate import time_program
from toolchain.timing.trace import write_trace
from toolchain.verify.built import Built, read_built
from toolchain.verify.program_under_test import program_of_build
from toolchain.verify.text import read_verified

BETWEEN = "\n\n"
"""The text between a summary and its tables."""


def make_summary(step: Step, say: Say) -> Made:
    """Writes the summary, the last text of a build. Raises UserError E11xx for a damaged bundle."""
    say("timing the bundle")
    summary = summarise_model(*_built(step.job))
    return Made(write_report(summary_file(step.job), summary_text(summary), summary_data(summary)))


def make_report(step: Step, say: Say) -> Made:
    """The summary with what running and verifying the model gave, where the time goes, a line for each operation, and every region's instructions on
    a time line."""
    job = step.job
    say("timing the bundle")
    built, stages, tell = _built(job)
    inferred = read_inference(infer_file(job).read_text())
    verified = read_verified(verdict_file(job).with_suffix(".json").read_text())
    summary = summarise_model(built, stages, replace(tell, inferred=inferred, verified=verified))
    parts = (summary_text(summary), costs_text(summary.costs), operations_text(summary.regions))
    text = BETWEEN.join(part.rstrip() for part in parts)
    sheet = report_file(job).with_suffix(".csv")
    write_atomic(sheet, rows_sheet(summary.costs).encode())
    written = [*write_report(report_file(job), text, summary_data(summary)), sheet]
    if job.variables.html:
        write_atomic(page_file(job), report_page(summary, plan_line(built.machines, built.bundle.manifest), inferred, verified).encode())
        written.append(page_file(job))
    say("drawing timelines")
    return Made([*written, *_timelines(job, built)])


def _timelines(job: Job, built: Built) -> Iterator[Path]:
    """REGION.trace.json for Perfetto and chrome://tracing; with `html=yes` REGION.timeline.html for any browser."""
    for call in region_calls(built.partitioned):
        tested = program_of_build(built, call)
        ready = prepare_program(tested.program, tested.state({}))
        timeline = time_program(tested.program, ready.footprints, ready.provenance, ready.tokens)
        trace, page = (report_file(job).parent / f"{tested.region.name}{end}" for end in (".trace.json", ".timeline.html"))
        write_trace(timeline, trace)
        yield trace
        if job.variables.html:
            title = f"{built.bundle.manifest.model} on {tested.program.machine.label}, {tested.region.name}"
            write_timeline_page(page, title, timeline, region_legend(tested))
            yield page


def page_file(job: Job) -> Path:
    """The report for a browser."""
    return report_file(job).with_suffix(".html")


def artefacts_of(job: Job) -> dict[str, str]:
    """Paths of a build's files, for readers of a report."""
    page = {"page": str(page_file(job))} if job.variables.html else {}
    return page | {"bundle": str(bundle_file(job)), "programs": str(bundle_file(job).parent), "stages": str(job.folder / "graph")}


def _built(job: Job) -> tuple[Built, Path, Told]:
    """The build, its folder of stages and the further facts that a summary needs."""
    stages = graph_file(job).parent
    told = Told(artefacts_of(job), stand_in=load_model(str(job.path), dict(job.variables.dims)).stand_in)
    return read_built(machines_of(job), stages, bundle_file(job), onnx_file(job)), stages, told
