"""Models built into a folder by the steps of the tasks, for the tests of the verification and of the reports."""

from pathlib import Path

from toolchain.models.load import load_model
from toolchain.models.samples import calibration_samples
from toolchain.tasks.actions.paths import bundle_file, graph_file, machines_of, onnx_file
from toolchain.tasks.plan import make_plan
from toolchain.tasks.stage import Job
from toolchain.tasks.work import perform
from toolchain.verify.built import Built, read_built
from toolchain.verify.compare import Samples


def build(target: str, model: str, root: Path, **more: str) -> tuple[Job, Built, Samples]:
    """Everything up to the bundle; these networks are small, so that regions are made although they would not pay. Schedules are the first that the
    estimate finds, as a search takes most of a build's time. more: further variables, or others for these."""
    plan = make_plan({"target": target, "model": model, "place": "all", "effort": "0", **more}, root)
    for name, step in plan.steps[0].items():
        if name in ("onnx", "calibration", "graph", "schedule", "bundle"):
            perform(step, lambda _: None)
    job = plan.jobs[0]
    built = read_built(machines_of(job), graph_file(job).parent, bundle_file(job), onnx_file(job))
    return job, built, calibration_samples(load_model(str(job.path)))
