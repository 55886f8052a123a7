"""Softmax and its kin before operator set 13: all dimensions from the axis on were one."""

from toolchain.graph.importing.opsets.known import Shape
from toolchain.graph.importing.opsets.site import Site


def coerced(site: Site) -> None:
    """Flattens around the node, unless only one of the dimensions from the axis on is larger than one."""
    x, axis = site.given(0), site.take_int("axis", 1)
    shape = site.known.shape(x)
    if shape is not None and not -len(shape) <= axis < len(shape):
        raise site.refuse(f"a tensor of {len(shape)} dimensions has no axis {axis}")
    single = None if shape is None else _single_axis(shape, axis)
    site.put(axis=-1 if single is None else single)
    if single is None:
        site.node.input[0] = site.insert("Flatten", [x], axis=axis)
        inner, outer = site.reroute()
        site.append("Reshape", [inner, site.insert("Shape", [x])], outer, allowzero=1)


def _single_axis(shape: Shape, axis: int) -> int | None:
    wide = [number for number in range(axis % len(shape), len(shape)) if shape[number] != 1]
    return None if len(wide) > 1 else next(iter(wide), len(shape) - 1)
