"""The summary of a build, its last text. It needs neither pages nor time lines, which the report's module reads."""

from pathlib import Path

from toolchain.accuracy.closeness import read_stated
from toolchain.models.load import load_model
from toolchain.report.summary import Told, summarise_model
from toolchain.report.summary_text import summary_data, summary_text
from toolchain.tasks.actions.paths import (
    accuracy_file,
    bundle_file,
    graph_file,
    machines_of,
    onnx_file,
    read_result,
    report_file,
    summary_file,
    write_report,
)
from toolchain.tasks.stage import Job, Say, Step
from toolchain.tasks.work import Made
from toolchain.verify.built import Built, read_built


def make_summary(step: Step, say: Say) -> Made:
    """Writes the summary, the last text of a build. Raises UserError E11xx for a damaged bundle."""
    say("timing the bundle")
    summary = summarise_model(*built_of(step.job))
    return Made(write_report(summary_file(step.job), summary_text(summary), summary_data(summary)))


def built_of(job: Job) -> tuple[Built, Path, Told]:
    """The build, its folder of stages and the further facts that a summary needs. Raises UserError E11xx for a damaged bundle."""
    stages = graph_file(job).parent
    stand_in, stated = load_model(str(job.path), dict(job.variables.dims)).stand_in, read_result(accuracy_file(job), read_stated)
    told = Told(artefacts_of(job), stand_in=stand_in, command=job.target.command, stated=stated)
    return read_built(machines_of(job), stages, bundle_file(job), onnx_file(job)), stages, told


def artefacts_of(job: Job) -> dict[str, str]:
    """Paths of a build's files, for readers of a report."""
    page = {"page": str(page_file(job))} if job.variables.html else {}
    return page | {"bundle": str(bundle_file(job)), "programs": str(bundle_file(job).parent), "stages": str(job.home("graph") / "graph")}


def page_file(job: Job) -> Path:
    """The report for a browser."""
    return report_file(job).with_suffix(".html")
