"""Studies of a test, and outcomes that need no build."""

from toolchain.explore.measure import Outcome
from toolchain.explore.study import Axis, Point, Study

STUDY = Study("vta", ("digits",), (Axis("SIZE", ("1", "2", "4")), Axis("BUS", ("8", "16"))), ("ms", "area"), start=("2", "8"))


def outcome(point: Point) -> Outcome:
    """A large size is quick and takes room, a wide bus is quicker; the smallest with the wide bus is refused."""
    size, bus = map(int, point)
    if (size, bus) == (1, 16):
        return Outcome(refused="E0106 too small")
    return Outcome(
        {"ms": 8.0 / size / bus, "area": float(size + bus), "bytes": 100.0}, "", ("compute",), (f"vta+SIZE-{size}+BUS-{bus}/digits/summary.txt",)
    )


def found() -> dict[Point, Outcome]:
    """Every point of STUDY."""
    return {STUDY.point(number): outcome(STUDY.point(number)) for number in range(STUDY.size)}
