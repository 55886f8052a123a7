"""The calibration table: what the model's own samples do in floating point, or what a quantised model says itself."""

from toolchain.graph.calibration import write_table
from toolchain.models.load import load_model
from toolchain.models.model import Recorded
from toolchain.models.samples import calibration_samples
from toolchain.passes.build import calibration_table, declared_table
from toolchain.tasks.actions.paths import onnx_file, table_file
from toolchain.tasks.stage import Say, Step
from toolchain.tasks.work import Made


def calibrate_model(step: Step, say: Say) -> Made:
    """Raises UserError E0808 (samples), E0901 to E0917 (the model)."""
    model, dims = load_model(str(step.job.path)), dict(step.job.variables.dims)
    source, result = onnx_file(step.job), table_file(step.job)
    say("looking for declared ranges")
    table = declared_table(source, dims)
    if table is None:
        say("running the calibration samples")
        table = calibration_table(source, dims, calibration_samples(model))
    write_table(table, result)
    return Made([result], [model.calibration.file] if isinstance(model.calibration, Recorded) else ())
