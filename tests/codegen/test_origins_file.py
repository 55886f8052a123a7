"""Origins in a bundle: read back as they were, and refused where they cannot be the program's."""

import json
from typing import Any

import pytest

from toolchain.abi.origins import Run, StepName, origins_of, runs_of
from toolchain.codegen.origins_file import origins_bytes, read_origins
from toolchain.spec.errors import UserError

RUNS = [Run(2, -1, None, -1), Run(3, 0, StepName("load", "x"), 0), Run(1, 1, StepName("store", "y"), 4)]
DATA = origins_bytes(origins_of(RUNS))


def test_what_was_written_is_read() -> None:
    assert runs_of(read_origins(DATA, 6, 2, "region0")) == RUNS


CHANGES: list[tuple[dict[str, Any], str]] = [
    ({"count": [2, 3, 2]}, "are those of 7 instructions, its program has 6"),
    ({"count": [7, -1, 0]}, "are those of 6 instructions"),
    ({"operation": [-1, 0, 2]}, "column 'operation'"),
    ({"step": [-1, 0, 2]}, "column 'step'"),
    ({"step": [-2, 0, 1]}, "column 'step'"),
    ({"instance": [-1, 0]}, "column 'instance'"),
    ({"instance": [-1, 0, "x"]}, "is no proper int"),
    ({"more": []}, "unknown 'more'"),
]


@pytest.mark.parametrize(("change", "text"), CHANGES, ids=[text for _, text in CHANGES])
def test_others_are_refused(change: dict[str, Any], text: str) -> None:
    with pytest.raises(UserError, match="E1110") as caught:
        read_origins(json.dumps(json.loads(DATA) | change).encode(), 6, 2, "region0")
    assert text in str(caught.value)


@pytest.mark.parametrize("data", [b"", b"[", b"[]", b"\xff", b"[" * 100_000])
def test_no_json_is_refused(data: bytes) -> None:
    with pytest.raises(UserError, match="E1110"):
        read_origins(data, 6, 2, "region0")
