"""The report of a model on the machine: its costs, how right it is, and why each node is where it is."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from toolchain.accuracy.closeness import read_inference
from toolchain.analysis.checks import prepare_program
from toolchain.graph.regions import region_calls
from toolchain.report.costs import rows_sheet
from toolchain.report.explain_text import costs_text
from toolchain.report.page import plan_line, report_page
from toolchain.report.summary import summarise_model
from toolchain.report.summary_text import operations_text, summary_data, summary_text
from toolchain.report.timeline_page import region_legend, write_timeline_page
from toolchain.spec.files import write_atomic
from toolchain.tasks.actions.paths import infer_file, read_result, report_file, verdict_file, write_report
from toolchain.tasks.actions.summary import built_of, page_file
from toolchain.tasks.stage import Job, Say, Step
from toolchain.tasks.work import Made
from toolchain.timing.simulate import time_program
from toolchain.timing.trace import write_trace
from toolchain.verify.built import Built
from toolchain.verify.program_under_test import program_of_build
from toolchain.verify.verdict import read_verified

BETWEEN = "\n\n"
"""The text between a summary and its tables."""


def make_report(step: Step, say: Say) -> Made:
    """The summary with what running and verifying the model gave, where the time goes, a line for each operation, and every region's instructions on
    a time line."""
    job = step.job
    say("timing the bundle")
    built, stages, tell = built_of(job)
    inferred = read_result(infer_file(job), read_inference)
    verified = read_result(verdict_file(job).with_suffix(".json"), read_verified)
    summary = summarise_model(built, stages, replace(tell, inferred=inferred, verified=verified))
    parts = (summary_text(summary), costs_text(summary.costs), operations_text(summary.regions))
    text = BETWEEN.join(part.rstrip() for part in parts)
    sheet = report_file(job).with_suffix(".csv")
    write_atomic(sheet, rows_sheet(summary.costs).encode())
    written = [*write_report(report_file(job), text, summary_data(summary)), sheet]
    if job.variables.html:
        write_atomic(
            page_file(job), report_page(summary, plan_line(built.machines, built.bundle.manifest), inferred, verified, _tiled(built)).encode()
        )
        written.append(page_file(job))
    say("drawing timelines")
    return Made([*written, *_timelines(job, built)])


def _tiled(built: Built) -> list[str]:
    """Regions with instructions."""
    return [call.op_type for call in region_calls(built.partitioned) if built.backend(call).tiled]


def _timelines(job: Job, built: Built) -> Iterator[Path]:
    """REGION.trace.json for Perfetto and chrome://tracing; with `html=yes` REGION.timeline.html for any browser."""
    for call in (call for call in region_calls(built.partitioned) if built.backend(call).tiled):
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
