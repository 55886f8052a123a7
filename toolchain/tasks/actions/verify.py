"""The verification ladder for a bundle: every tensor against the integer model, the reference engine against the fast one."""

from toolchain.codegen.vendor_tool import tool_path
from toolchain.graph.calibration.ranges import MADE_UP, calibration_kind, calibration_text
from toolchain.models.model import Recorded
from toolchain.models.samples import calibration_samples
from toolchain.spec.errors import fail
from toolchain.tasks.actions.paths import bundle_file, graph_file, machines_of, model_of, onnx_file, verdict_file, write_report
from toolchain.tasks.receipts import seen
from toolchain.tasks.stage import Say, Step
from toolchain.tasks.work import Made
from toolchain.verify.built import read_built
from toolchain.verify.ladder import verify_model
from toolchain.verify.reference_sample import SampleSize
from toolchain.verify.verdict import verdict_data, verdict_text


def verify_built(step: Step, say: Say) -> Made:
    """Leaves the verdict even where something differs. Raises UserError E1204 then, and all of verify_model."""
    job = step.job
    model = model_of(job)
    recorded = seen(model.calibration.file) if isinstance(model.calibration, Recorded) else {}
    recorded |= seen(*(tool_path(machine, machine.tool.device) for machine in machines_of(job) if machine.tool))
    built = read_built(machines_of(job), graph_file(job).parent, bundle_file(job), onnx_file(job))
    verdict = verify_model(built, calibration_samples(model), SampleSize(), say)
    kind = calibration_kind(built.integer)
    found = verdict_text(verdict, calibration_text(kind), warn=kind != MADE_UP)
    written = write_report(verdict_file(job), found, verdict_data(verdict))
    if not verdict.right:
        raise fail("E1204", "what the machine computes is not what the integer model computes", place=str(bundle_file(job)), more=found)
    return Made(written, recorded)
