"""Why a model takes as long as it does on a machine: from the partitioned graph alone, before anything is compiled."""

import onnx

from toolchain.graph.calibration.ranges import calibration_kind, calibration_text
from toolchain.graph.store import read_stage
from toolchain.passes.templates import templates_for
from toolchain.report.annotated import annotated
from toolchain.report.costs import nodes_sheet, rows_sheet
from toolchain.report.explain import explain
from toolchain.report.explain_text import explanation_text
from toolchain.report.placement import place_nodes
from toolchain.schedule.backend import load_backends
from toolchain.spec.files import write_atomic
from toolchain.spec.typed_json import to_json
from toolchain.tasks.actions.paths import explain_file, graph_files, machines_of, write_report
from toolchain.tasks.stage import Say, Step
from toolchain.tasks.work import Made
from toolchain.verify.built import stage_before


def explain_model(step: Step, say: Say) -> Made:
    """Leaves the text, the same as JSON, a table of times, one of all nodes, and the model with both in its nodes. Raises UserError E10xx."""
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
