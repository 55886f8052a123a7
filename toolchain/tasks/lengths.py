"""Builds of one model in several lengths: which sizes, a job for each, and the step that joins their bundles."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path

from toolchain.spec.errors import fail, placed
from toolchain.spec.files import MODEL_SCHEMA, read_limited
from toolchain.tasks.stage import JOIN, Job, Step
from toolchain.tasks.variables import Lengths, check_lengths

KEY = b"lengths:"


def declared_lengths(path: Path) -> Lengths:
    """The lengths that a model's file says. Raises UserError for a file that is wrong, E1202 for sizes that do not increase."""
    from toolchain.spec.errors import Source, UserError
    from toolchain.spec.schema import validate
    from toolchain.spec.yaml_nodes import MAX_BYTES, parse_yaml

    if path.suffix == ".onnx" or KEY not in (data := read_limited(path, MAX_BYTES, "the model file")):
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
