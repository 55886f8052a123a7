"""Sides that a test can count by hand, and the report of a build as a build leaves it."""

import json
from pathlib import Path

from toolchain.report.compared_sides import BUILD, LESS, MORE, ComparedPart, Figure, Side
from toolchain.report.region_use import MemoryRoom, OperationUse, RegionUse
from toolchain.spec.typed_json import to_json

FIRST = Side(
    "a", BUILD, "net on toy", {"params.SIZE": "4", "params.BUS": "8"}, {"r.conv.tile.oh": "4"},
    {"machine": Figure(2.0, "ms", LESS, judged=True), "accuracy": Figure(90.0, "%", MORE, judged=True), "bytes": Figure(1000, "B", LESS)},
    (ComparedPart("conv", "conv2d", 100.0, 2000, 50.0, 30.0), ComparedPart("add", "add", 20.0, 0)),
)  # fmt: skip
OTHER = Side(
    "b<i>", BUILD, "net on toy", {"params.SIZE": "8", "params.BUS": "8"}, {"r.conv.tile.oh": "8"},
    {"machine": Figure(3.0, "ms", LESS, judged=True), "accuracy": Figure(91.0, "%", MORE, judged=True), "bytes": Figure(500, "B", LESS)},
    (ComparedPart("conv", "conv2d", 150.0, 1000, 40.0, 31.0), ComparedPart("pool", "max_pool", 5.0, 0)),
)  # fmt: skip


def report(folder: Path, name: str = "report.json", images: int = 1, cycles: float = 500.0, **more: object) -> Path:
    """A report of one operation."""
    use = OperationUse("conv1", "conv2d", 7, cycles, "conv", 400.0, 51_200, 2048)
    rooms = (MemoryRoom("ddr", False, 0, 0, 3000, 500), MemoryRoom("fm", True, 2000, 4000, 0, 0))
    region = RegionUse("region0", "toy", images, 7, cycles, 400.0, "conv", (use,), rooms, (), 1, 256)
    data = {"model": "net", "machine": "toy", "machines": {"toy": {"params.SIZE": "4"}}, "images": images, "regions": [to_json(region)],
            "memories": [to_json(room) for room in rooms], "cycles": cycles, "machine_ms": cycles / 1e5, "total_ms": 1.0, "utilisation": 40.0,
            "mac_percent": 100.0, "macs_on_machine": 51_200,
            "accuracy": {"emulator": 0.9}, "exact": True, "noise": {"conv1": 33.5}, "further": "key"}  # fmt: skip
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(data | more))
    return path
