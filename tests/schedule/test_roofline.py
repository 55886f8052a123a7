"""bench/vta_roofline runs, proves every layer and meets its goals; it exits with 1 where it does not."""

import csv
from pathlib import Path

import pytest

from tests.bench_script import run_script


@pytest.mark.parametrize("layers", [(9, 10, 12), pytest.param(range(2, 13), marks=pytest.mark.nightly)], ids=["deep ones", "all"])
def test_every_layer_is_exact_and_the_goals_are_met(layers: tuple[int, ...], tmp_path: Path) -> None:
    names = [f"C{layer}" for layer in layers]
    done = run_script("vta_roofline", str(tmp_path), ",".join(names))
    assert done.returncode == 0, done.stdout + done.stderr
    rows = list(csv.DictReader((tmp_path / "table.csv").read_text().splitlines()))
    assert [row["layer"] for row in rows] == names
    assert all(float(row["bound_cycles"]) < float(row["cycles_two"]) < float(row["cycles_one"]) for row in rows)
    assert all((tmp_path / f"{row['layer']}.{kind}").stat().st_size for row in rows for kind in ("asm", "txt"))
