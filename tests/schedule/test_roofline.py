"""bench/vta_roofline runs, proves every layer and meets its goals; it exits with 1 where it does not."""

import csv
from pathlib import Path

from tests.bench_script import run_script


def test_every_layer_is_exact_and_the_goals_are_met(tmp_path: Path) -> None:
    done = run_script("vta_roofline", str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    rows = list(csv.DictReader((tmp_path / "table.csv").read_text().splitlines()))
    assert [row["layer"] for row in rows] == [f"C{k}" for k in range(2, 13)]
    assert all(float(row["bound_cycles"]) < float(row["cycles_two"]) < float(row["cycles_one"]) for row in rows)
    assert all((tmp_path / f"{row['layer']}.{kind}").stat().st_size for row in rows for kind in ("asm", "txt"))
