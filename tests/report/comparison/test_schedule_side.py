"""Schedules by key."""

from pathlib import Path

from toolchain.report.comparison.schedule_side import schedule_keys, schedule_side
from toolchain.schedule.form.files import read_schedule
from toolchain.spec.errors import Source

TEXT = """
schedule: {version: 1, region: region0, machine: toy, fingerprint: f00d}
buffers:
  - {tensor: t, memory: acc, bank: 0, address: 0, stored: false}
groups:
  - operations:
      - {operation: 0, name: first, kernel: conv2d, tile: {oh: 4, oc: 1}, slots: {x: [[0, 1], [0, 61]], w: 2}}
  - loop: tiles
    operations:
      - {operation: 1, name: second, kernel: conv2d, tile: {oh: 4}}
      - {operation: 2, name: third, kernel: add, tile: {oh: 4}}
"""


def test_every_choice_has_a_key_of_its_operation() -> None:
    assert schedule_keys({"region0": read_schedule(Source("s.yaml", TEXT))}) == {
        "region0.groups": "first; second, third by tiles",
        "region0.t.kept": "acc, not stored",
        "region0.first.kernel": "conv2d", "region0.first.loops": "oh oc", "region0.first.tile.oh": "4", "region0.first.tile.oc": "1",
        "region0.first.slots.x": "2", "region0.first.slots.w": "2",
        "region0.second.kernel": "conv2d", "region0.second.loops": "oh", "region0.second.tile.oh": "4",
        "region0.third.kernel": "add", "region0.third.loops": "oh", "region0.third.tile.oh": "4",
    }  # fmt: skip


def test_a_file_is_a_side(tmp_path: Path) -> None:
    (tmp_path / "region0.yaml").write_text(TEXT)
    for path in (tmp_path, tmp_path / "region0.yaml"):
        side = schedule_side(path, "s")
        assert (side.kind, side.title, len(side.schedule)) == ("schedule", "region0 for toy", 14)
