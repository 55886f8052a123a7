"""Every fault of a machine file is told at its place, with its code and a hint: golden texts, one a fault."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.spec.machine_faults import FAULTS, Fault
from toolchain.isa.check_machine import check_machine
from toolchain.spec.errors import UserError
from toolchain.spec.load import load_text

ROOT = Path(__file__).resolve().parents[2]
GOOD = (ROOT / "tests" / "golden" / "machine_faults" / "good.yaml").read_text()


def told(fault: Fault) -> UserError:
    assert GOOD.count(fault.old) == 1, f"'{fault.old}' stands {GOOD.count(fault.old)} times in good.yaml"
    with pytest.raises(UserError) as caught:
        check_machine(load_text(GOOD.replace(fault.old, fault.new), "small.yaml"))
    return caught.value


def test_the_good_file_is_good() -> None:
    for config in ("", "wide"):
        check_machine(load_text(GOOD, "small.yaml", config))


@pytest.mark.parametrize("name", FAULTS)
def test_fault(name: str, golden: Callable[[str, str], None]) -> None:
    error = told(FAULTS[name])
    assert FAULTS[name].code in [d.code for d in error.diagnostics]
    assert all(d.span and d.span.line for d in error.diagnostics)
    golden(f"machine_faults/{name}.txt", f"{error}\n")


@pytest.mark.parametrize("name", FAULTS)
def test_page(name: str) -> None:
    page = ROOT / "docs" / "errors" / f"{FAULTS[name].code}.md"
    assert page.read_text().startswith(f"# {FAULTS[name].code} ")


def test_enough_different_faults() -> None:
    assert len({fault.code for fault in FAULTS.values()}) >= 40
