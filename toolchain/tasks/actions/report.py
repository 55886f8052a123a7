"""Texts about a build: summary, report and explanation. A build needs the first alone, so pages and time lines load when they are drawn."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from toolchain.accuracy.closeness import read_inference, read_stated
from toolchain.graph.quantisation.ranges import calibration_kind, calibration_text
from toolchain.graph.regions import region_calls
from toolchain.graph.store import read_stage
from toolchain.models.load import load_model
from toolchain.passes.templates import templates_for
from toolchain.report.compared_sides import working_values
from toolchain.report.costs import nodes_sheet, rows_sheet
from toolchain.report.explain import explain
from toolchain.report.explain_text import costs_text, explanation_text
from toolchain.report.placement import place_nodes
from toolchain.report.summary import Told, summarise_model
from toolchain.report.summary_text import operations_text, summary_data, summary_text
from toolchain.schedule.backend import load_backends
from toolchain.spec.files import write_atomic
from toolchain.spec.typed_json import Tree, to_json
from toolchain.tasks.actions.paths import (
    accuracy_file,
    bundle_file,
    explain_file,
    graph_file,
    graph_files,
    infer_file,
    machines_of,
    onnx_file,
    read_result,
    report_file,
    subgraphs_file,
    summary_file,
    verdict_file,
    write_report,
)
from toolchain.tasks.machines import from_here
from toolchain.tasks.stage import Job, Say, Step
from toolchain.tasks.work import Made
from toolchain.verify.built import Built, ProgramUnderTest, read_built, stage_before
from toolchain.verify.verdict import read_verified

BETWEEN = "\n\n"
"""The text between a summary and its tables."""


def make_summary(step: Step, say: Say) -> Made:
    """Writes the summary, the last text of a build. Raises UserError E11xx for a damaged bundle."""
    say("timing the bundle")
    summary = summarise_model(*built_of(step.job))
    return Made(write_report(summary_file(step.job), summary_text(summary), summary_data(summary) | machines_data(step.job)))


def machines_data(job: Job) -> dict[str, Tree]:
    """Every value of each machine, so that comparisons know them when the machine's file has changed."""
    return {"machines": {machine.name: working_values(machine) for machine in machines_of(job)}}


def built_of(job: Job) -> tuple[Built, Path, Told]:
    """The build, its folder of stages and the further facts that a summary needs. Raises UserError E11xx for a damaged bundle."""
    stages = graph_file(job).parent
    stand_in, stated = load_model(str(job.path), dict(job.variables.dims)).stand_in, read_result(accuracy_file(job), read_stated)
    told = Told(artefacts_of(job), stand_in=stand_in, command=job.target.command, stated=stated, single=job.variables.batch == 1)
    return read_built(machines_of(job), stages, bundle_file(job), onnx_file(job), subgraphs_file(job)), stages, told


def artefacts_of(job: Job) -> dict[str, str]:
    """Paths of a build's files, for readers of a report; of those below the current folder from there, whoever built them."""
    page = {"page": page_file(job)} if job.variables.html else {}
    found = page | {"bundle": bundle_file(job), "programs": bundle_file(job).parent, "stages": job.home("graph") / "graph"}
    return {name: from_here(path) for name, path in found.items()}


def page_file(job: Job) -> Path:
    """The report for a browser."""
    return report_file(job).with_suffix(".html")


def make_report(step: Step, say: Say) -> Made:
    """The summary with the results of inference and verification, where the time goes, a line for each operation, and every region's instructions on
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
    data = summary_data(summary) | machines_data(job) | {"noise": {**verified.made}}
    written = [*write_report(report_file(job), text, data), sheet]
    if job.variables.html:
        from toolchain.report.page import plan_line, report_page

        plan = plan_line(built.machines, built.bundle.manifest)
        write_atomic(page_file(job), report_page(summary, plan, inferred, verified, _tiled(built)).encode())
        written.append(page_file(job))
    say("drawing timelines")
    return Made([*written, *_timelines(job, built)])


def _tiled(built: Built) -> list[str]:
    """Regions with instructions."""
    return [call.op_type for call in region_calls(built.partitioned) if built.backend(call).tiled]


def _timelines(job: Job, built: Built) -> Iterator[Path]:
    """REGION.trace.json for Perfetto and chrome://tracing; with `html=yes` REGION.timeline.html for any browser."""
    from toolchain.report.timeline_data import region_legend, write_timeline_page
    from toolchain.timing.trace import write_trace
    from toolchain.verify.built import program_of_build

    for call in (call for call in region_calls(built.partitioned) if built.backend(call).tiled):
        tested = program_of_build(built, call)
        trace, page = (report_file(job).parent / f"{tested.region.name}{end}" for end in (".trace.json", ".timeline.html"))
        write_trace(tested.timeline, trace, _layers(tested))
        yield trace
        if job.variables.html:
            title = f"{built.bundle.manifest.model} on {tested.program.machine.label}, {tested.region.name}"
            write_timeline_page(page, title, tested.timeline, region_legend(tested))
            yield page


def _layers(tested: ProgramUnderTest) -> list[str]:
    """The operation of each instruction, empty for none."""
    names = [bound.operation.name for bound in tested.region.operations]
    return [names[owner] if owner >= 0 else "" for owner in tested.owner.tolist()]


def explain_model(step: Step, say: Say) -> Made:
    """Leaves the text, the same as JSON, a table of times, one of all nodes, and the model with both in its nodes. Raises UserError E10xx."""
    import onnx

    from toolchain.report.explain import annotated

    job, backends = step.job, load_backends(machines_of(step.job))
    say("reading the stages")
    files = graph_files(job)
    partitioned, floats = read_stage(files[-1]), read_stage(stage_before(files[0].parent, "fuse", "partition"))
    placement = place_nodes(floats, partitioned, files[0].parent)
    say("estimating regions")
    names = job.model, job.machines, calibration_text(calibration_kind(partitioned)), job.target.command
    found = explain(backends, templates_for(backends[0].machine), partitioned, placement, names)
    text = explain_file(job)
    sheets = {text.with_suffix(".csv"): rows_sheet(found.costs), text.with_name("nodes.csv"): nodes_sheet(found.placement)}
    written = write_report(text, explanation_text(found), to_json(found))
    for path, content in sheets.items():
        write_atomic(path, content.encode())
    drawn = text.with_suffix(".onnx")
    write_atomic(drawn, annotated(onnx.load(files[0], load_external_data=False), found).SerializeToString(deterministic=True))
    return Made([*written, *sheets, drawn])
