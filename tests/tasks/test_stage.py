"""What a stage depends on: all of the machine, whatever its code reads of it."""

from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, cast

import pytest

from toolchain.spec.errors import Source
from toolchain.spec.fingerprint import notes_hash, section_hashes
from toolchain.spec.load import load_machine
from toolchain.spec.model import Machine, RegionLimits
from toolchain.spec.model.conventions import Outline
from toolchain.spec.yaml_nodes import parse_yaml
from toolchain.tasks.plan import make_plan
from toolchain.tasks.stage import Step

NO_RESULT = {"name", "config", "summary", "sources", "models", "configs", "settable", "choices", "path"}
"""Of a machine: its names and notes, which folders and messages show, and what is in the parameters' values already."""
NOTES = {"assumptions", "parameters", "assumed_params"}


@pytest.mark.parametrize("field", [f.name for f in fields(Machine) if f.name not in NO_RESULT])
def test_no_part_of_a_machine_is_left_out_of_its_hashes(field: str) -> None:
    machines = [load_machine(name) for name in ("vta", "dpuv3")]
    tried = 0
    for machine, donor in (machines, reversed(machines)):
        value = getattr(machine, field)
        found = _other(value, getattr(donor, field))
        if value != found:
            tried += 1
            changed = replace(machine, **{field: found})
            assert notes_hash(changed) != notes_hash(machine)
            assert field in NOTES or section_hashes(changed, ordered=True) != section_hashes(machine, ordered=True)
    assert tried


def _other(value: Any, donor: Any) -> Any:
    """A list in another order, a mapping without its first entry, the other truth, an outline where there is none, else what another machine has."""
    match value:
        case tuple():
            entries = cast(tuple[Any, ...], value)
            return entries[::-1] if len(entries) > 1 else donor
        case Mapping():
            return dict(list(cast(Mapping[str, Any], value).items())[1:])
        case bool():
            return not value
        case RegionLimits():
            return replace(value, macs=7)
        case str() if donor == value:
            return f"{value}x"
        case None if donor is None:
            return Outline({"some": "outline"}, parse_yaml(Source("", "a: b")))
        case _:
            return donor


def _steps(root: Path) -> dict[str, Step]:
    return dict(make_plan({"target": "vta", "model": "digits"}, root).steps[0])


def test_every_stage_for_a_machine_depends_on_all_of_it(tmp_path: Path) -> None:
    steps = _steps(tmp_path)
    for step in steps.values():
        sections = {name.removeprefix("section ") for name in step.parts() if name.startswith("section ")}
        assert sections == (set() if step.stage.of_model else {*step.job.target.sections, "kernels"}), step.stage.name
    assert {"operators", "fusion", "timing", "host", "layouts", "quantisation"} <= set(steps["bundle"].job.target.sections) | {"fusion"}
