"""The calibration table: what the model's own samples do in floating point, or what a quantised model says itself."""

from toolchain.graph.calibration import write_table
from toolchain.models.load import load_model
from toolchain.models.model import Recorded
from toolchain.models.samples import calibration_samples
from toolchain.passes.build import calibration_table, declared_table
from toolchain.tasks.actions.paths import blaming, onnx_file, sizes_of, table_file
from toolchain.tasks.stage import Say, Step
from toolchain.tasks.work import Made


def calibrate_model(step: Step, say: Say) -> Made:
    """Raises UserError E0808 (samples), E0901 to E0917 (the model)."""
    job = step.job
    model, sizes = load_model(str(job.path), dict(job.variables.dims)), sizes_of(job)
    source, result = onnx_file(job), table_file(job)
    with blaming(job):
        say("looking for declared ranges")
        table = declared_table(source, sizes)
        if table is None:
            say("running the calibration samples")
            table = calibration_table(source, sizes, calibration_samples(model))
    write_table(table, result)
    return Made([result], [model.calibration.file] if isinstance(model.calibration, Recorded) else ())
