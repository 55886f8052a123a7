"""The member of a bundle that says which step of which operation each instruction belongs to."""

import json
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from toolchain.abi.origins import NONE, Origins, StepName, runs_of
from toolchain.spec.errors import fail
from toolchain.spec.typed_json import MistypedError, from_json, to_json


@dataclass(frozen=True)
class _Columns:
    """For each run of neighbouring instructions: how many they are, operation, index in `steps`, and instance, as in Origins."""

    steps: tuple[StepName, ...]
    count: tuple[int, ...]
    operation: tuple[int, ...]
    step: tuple[int, ...]
    instance: tuple[int, ...]


def origins_bytes(origins: Origins) -> bytes:
    """The file that `read_origins` reads."""
    runs, number = runs_of(origins), {name: index for index, name in enumerate(origins.steps)}
    columns = _Columns(
        origins.steps,
        tuple(run.length for run in runs),
        tuple(run.operation for run in runs),
        tuple(NONE if run.step is None else number[run.step] for run in runs),
        tuple(run.instance for run in runs),
    )
    return (json.dumps(to_json(columns)) + "\n").encode()


def read_origins(data: bytes, instructions: int, operations: int, name: str, place: str = "") -> Origins:
    """name: of the region. Raises UserError E1110 for what does not describe a program of so many instructions of so many operations."""
    try:
        value: Any = json.loads(data)
        found = from_json(_Columns, cast("dict[str, Any]", value), f"the origins of '{name[:80]}'")
    except (ValueError, RecursionError) as error:
        text = str(error) if isinstance(error, MistypedError) else f"the origins of '{name[:80]}' are not JSON"
        raise fail("E1110", text, hint="build the model again", place=place) from None
    limits = {"operation": (found.operation, operations), "step": (found.step, len(found.steps)), "instance": (found.instance, 1 << 62)}
    for column, (values, limit) in limits.items():
        if len(values) != len(found.count) or not all(NONE <= value < limit for value in values):
            raise fail("E1110", f"the origins of '{name[:80]}' have a column '{column}' that cannot be", hint="build the model again", place=place)
    if sum(found.count) != instructions or min(found.count, default=1) < 1:
        text = f"the origins of '{name[:80]}' are those of {sum(found.count)} instructions, its program has {instructions}"
        raise fail("E1110", text, hint="build the model again", place=place)
    return Origins(found.steps, *(np.repeat(np.array(column, np.int64), found.count) for column in (found.operation, found.step, found.instance)))
