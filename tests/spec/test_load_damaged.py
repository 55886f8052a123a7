"""Damaged machine files load, or are refused with a message and a place: no crash, no hang, no traceback."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.spec.mutations import damaged
from toolchain.spec.errors import UserError
from toolchain.spec.fingerprint import fingerprint
from toolchain.spec.load import load_text
from toolchain.spec.model import Machine

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted([*(ROOT / "targets").glob("*.yaml"), ROOT / "tests" / "golden" / "machine_faults" / "good.yaml"])
TEXTS = {path.stem: path.read_text() for path in FILES}


@pytest.mark.parametrize("name", TEXTS)
@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_damaged_file(name: str, data: st.DataObject) -> None:
    machine = outcome(data.draw(damaged(TEXTS[name])))
    if isinstance(machine, UserError):
        assert machine.diagnostics
        assert all(d.code and d.message and (d.span or d.place) for d in machine.diagnostics)
    else:
        assert len(fingerprint(machine)) == 64


def outcome(text: str) -> Machine | UserError:
    try:
        return load_text(text, "damaged.yaml")
    except UserError as error:
        return error


@settings(max_examples=60, deadline=None)
@given(text=st.text(max_size=200))
def test_any_text(text: str) -> None:
    with pytest.raises(UserError):
        load_text(text, "any.yaml")
