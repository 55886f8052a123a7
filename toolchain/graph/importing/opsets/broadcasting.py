"""Operands of fewer dimensions before operator set 7: they stood at an axis, not at the end."""

from toolchain.graph.importing.opsets.site import Site


def aligned(site: Site) -> None:
    """Gives the second operand trailing dimensions of size one, such that it stands where the attribute 'axis' says."""
    axis, wanted = site.take("axis"), site.take_int("broadcast", 0)
    if axis is None or not wanted:
        return
    left, right = (site.known.shape(site.given(number)) for number in (0, 1))
    if right is not None and all(size == 1 for size in right):
        return
    if left is None or right is None:
        raise site.refuse("the rank of an operand is not known")
    first = axis.i + len(left) if axis.i < 0 else axis.i
    missing = len(left) - first - len(right) if first >= 0 else -1
    _expand(site, len(right), missing, f"{len(right)} dimensions do not fit at axis {axis.i} of {len(left)}")


def slope(site: Site) -> None:
    """PRelu: a vector held one slope for each channel."""
    x, vector = (site.known.shape(site.given(number)) for number in (0, 1))
    if vector is None or x is None:
        raise site.refuse("the rank of an operand is not known")
    if len(vector) == 1 and vector != (1,):
        _expand(site, 1, len(x) - 2, "a slope for each channel needs channels")


def _expand(site: Site, rank: int, missing: int, reason: str) -> None:
    if missing < 0:
        raise site.refuse(reason)
    if missing:
        axes = site.whole(range(rank, rank + missing), "axes")
        site.node.input[1] = site.insert("Unsqueeze", [site.given(1), axes])
