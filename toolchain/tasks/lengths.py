"""Models that are built in a way of their own: in several lengths, a job for each and a step that joins their bundles; or with states."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path

from toolchain.spec.errors import Source, Span, fail, placed
from toolchain.spec.files import MODEL_SCHEMA, read_limited
from toolchain.tasks.stage import JOIN, Job, Step
from toolchain.tasks.variables import Lengths, check_lengths

LENGTHS_KEY = b"lengths:"


def declared_lengths(path: Path) -> Lengths:
    """The lengths that a model's file says. Raises UserError for a file that is wrong, E1202 for sizes that do not increase."""
    from toolchain.spec.errors import Source, UserError
    from toolchain.spec.schema import validate
    from toolchain.spec.yaml_nodes import MAX_BYTES, parse_yaml

    if path.suffix == ".onnx" or LENGTHS_KEY not in (data := read_limited(path, MAX_BYTES, "the model file")):
        return ()
    root = parse_yaml(Source(str(path), data.decode(errors="replace")))
    validate(root, MODEL_SCHEMA)
    try:
        return check_lengths({name: tuple(int(size.value) for size in sizes.children()) for name, sizes in root.members("lengths")})
    except UserError as error:
        raise placed(error, root.value["lengths"].span) from None


def with_lengths(job: Job) -> Job:
    """A job with the lengths of its variables, or else those of its model's file, but for dimensions that got one size.

    Raises UserError E1202 for several machines, and for a dimension with one size and several; else as `declared_lengths`.
    """
    fixed = dict(job.variables.dims)
    given = job.variables.lengths
    if both := next((name for name, _ in given if name in fixed), ""):
        raise fail("E1202", f"'{both}' is in 'dim' and in 'lengths'", hint="leave it out of one")
    lengths = given or tuple((name, sizes) for name, sizes in declared_lengths(job.path) if name not in fixed)
    if lengths and len(job.targets) > 1:
        raise fail(
            "E1202", f"several lengths are for one machine, and 'target' names {len(job.targets)}", hint="name one, or give one size with dim="
        )
    return replace(job, variables=replace(job.variables, lengths=lengths)) if lengths else job


def jobs_of(job: Job) -> tuple[Job, ...]:
    """A job for each combination of sizes, the largest last, in which all are quantised; the job itself where it has no lengths."""
    lengths = job.variables.lengths
    if not lengths:
        return (job,)
    names = tuple(name for name, _ in lengths)
    *others, largest = (_sized(job, dict(zip(names, sizes, strict=True))) for sizes in product(*(sizes for _, sizes in lengths)))
    return (*(replace(other, like=largest) for other in others), largest)


def _sized(job: Job, sizes: Mapping[str, int]) -> Job:
    dims = tuple(sorted({**dict(job.variables.dims), **sizes}.items()))
    return replace(job, variables=replace(job.variables, dims=dims, lengths=()), lengths=tuple(sizes))


def joined_step(job: Job, code: Mapping[str, str], bundles: Sequence[Step]) -> Step:
    """bundles: the step of each length's bundle."""
    return Step(JOIN, job, code, tuple(bundles))


STATES_KEY = b"state:"


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

    if path.suffix == ".onnx" or STATES_KEY not in (data := read_limited(path, MAX_BYTES, "the model file")):
        return None
    root = parse_yaml(Source(str(path), data.decode(errors="replace")))
    validate(root, MODEL_SCHEMA)
    return root.value["state"].where() if root.get("state") else None
