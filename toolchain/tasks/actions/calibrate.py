"""The calibration table: what the model's own samples do in floating point, or what a quantised model says itself."""

from toolchain.graph.calibration.table import Table, write_table
from toolchain.models.model import Model, Recorded
from toolchain.models.samples import calibration_samples
from toolchain.passes.build import calibration_table, declared_table, united_table
from toolchain.spec.errors import UserError
from toolchain.tasks.actions.paths import blaming, model_of, onnx_file, sizes_of, table_file
from toolchain.tasks.receipts import seen
from toolchain.tasks.stage import Job, Say, Step
from toolchain.tasks.work import Made


def calibrate_model(step: Step, say: Say) -> Made:
    """Raises UserError E0808 (samples), E0901 to E0921 (the model). Made-up samples that the model cannot be run on leave a table that says why."""
    job = step.job
    model = model_of(job)
    recorded = seen(model.calibration.file) if isinstance(model.calibration, Recorded) else {}
    with blaming(job):
        declared, ran = _declared(job, model, say), _ran(job, model, say)
    write_table(united_table(ran, declared) if declared else ran, table_file(job))
    return Made([table_file(job)], recorded)


def _declared(job: Job, model: Model, say: Say) -> Table | None:
    """The ranges of a quantised model; recorded samples say more."""
    if isinstance(model.calibration, Recorded):
        return None
    say("looking for declared ranges")
    return declared_table(onnx_file(job), sizes_of(job))


def _ran(job: Job, model: Model, say: Say) -> Table:
    say("running the calibration samples")
    try:
        return calibration_table(onnx_file(job), sizes_of(job), calibration_samples(model))
    except UserError as error:
        if isinstance(model.calibration, Recorded) or error.diagnostics[0].code not in ("E0910", "E0921"):
            raise
        return Table(0, {}, failure=f"the model does not run on made-up samples: {error.diagnostics[0].message}")
