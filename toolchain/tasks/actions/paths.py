"""Where the stages leave what later ones read."""

from pathlib import Path

from toolchain.tasks.stage import Job


def onnx_file(job: Job) -> Path:
    """The float model."""
    return job.shared / "onnx" / f"{_name(job)}.onnx"


def table_file(job: Job) -> Path:
    """Its calibration table."""
    return job.shared / "calibration" / "calibration.json"


def _name(job: Job) -> str:
    return job.model
