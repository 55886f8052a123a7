"""Builds of a model with states: the variables that do not go with it."""

from pathlib import Path

from toolchain.spec.errors import Source, Span, fail
from toolchain.spec.files import MODEL_SCHEMA, read_limited
from toolchain.tasks.stage import Job

KEY = b"state:"


def check_states(job: Job) -> Job:
    """The job itself. Raises UserError E0816 for several machines, lengths, or samples at once of a model with states, others of a wrong file."""
    span = states_span(job.path)
    if span is None:
        return job
    variables = job.variables
    beside = {"several machines in 'target'": len(job.targets) > 1, "'lengths'": variables.lengths, "'beyond'": variables.beyond}
    beside |= {"'batch'": variables.batch, "'images'": variables.images}
    if wrong := next((name for name, given in beside.items() if given), ""):
        raise fail(
            "E0816", f"{wrong} {'do' if wrong.startswith('several') else 'does'} not go with the states of '{job.model}'", span, "leave it out"
        )
    return job


def states_span(path: Path) -> Span | None:
    """The place of a model file's states; None where it has none. Raises UserError for a file that is wrong."""
    from toolchain.spec.schema import validate
    from toolchain.spec.yaml_nodes import MAX_BYTES, parse_yaml

    if path.suffix == ".onnx" or KEY not in (data := read_limited(path, MAX_BYTES, "the model file")):
        return None
    root = parse_yaml(Source(str(path), data.decode(errors="replace")))
    validate(root, MODEL_SCHEMA)
    return root.value["state"].where() if root.get("state") else None
