"""Attributes that were dropped, got another default, or became inputs."""

import numpy as np
import onnx

from toolchain.graph.importing.opset_site import Adapter, Site

LOWEST, HIGHEST = float(np.finfo(np.float32).min), float(np.finfo(np.float32).max)


def without(*names: str) -> Adapter:
    """Drops attributes that say nothing about the result."""

    def drop(site: Site) -> None:
        for name in names:
            site.take(name)

    return drop


def explicit(**defaults: object) -> Adapter:
    """Writes out old defaults that newer operator sets changed."""

    def write(site: Site) -> None:
        given = {attribute.name for attribute in site.node.attribute}
        site.put(**{name: value for name, value in defaults.items() if name not in given})

    return write


def as_input(name: str) -> Adapter:
    """Moves a list of whole numbers to the second input; an absent one stays absent."""

    def move(site: Site) -> None:
        values = site.take_ints(name)
        if values is not None:
            site.wire(site.given(0), site.whole(values, name))

    return move


def whole_power(site: Site) -> None:
    """GlobalLpPool and LpPool: the power was a real number."""
    power = site.take_float("p")
    if power is not None and not power.is_integer():
        raise site.refuse(f"the power {power} is not whole")
    if power is not None:
        site.put(p=int(power))


def lp_window(site: Site) -> None:
    """LpPool could go without a window, of which nothing is said."""
    if not any(attribute.name == "kernel_shape" for attribute in site.node.attribute):
        raise site.refuse("the window has no size")
    whole_power(site)


def cast_by_name(site: Site) -> None:
    """Cast: the type was a text."""
    found = site.take("to")
    name = found.s.decode(errors="replace").upper() if found else ""
    numbers = dict(onnx.TensorProto.DataType.items())
    if name not in numbers:
        raise site.refuse(f"'{name}' is no type")
    site.put(to=numbers[name])


def reshape_attribute(site: Site) -> None:
    shape = site.take_ints("shape")
    if shape is None:
        raise site.refuse("it has no shape")
    site.wire(site.given(0), site.whole(shape, "shape"))


def open_clip(site: Site) -> None:
    """Clip: a limit left out was none at all, later the largest float32."""
    for name, none in (("min", -np.inf), ("max", np.inf)):
        limit = site.take_float(name)
        site.put(**{name: float(none) if limit is None else limit})


def clip_limits(site: Site) -> None:
    """Clip: the limits of every type were those of float32, if none were given."""
    x, limits = site.given(0), list[str]()
    given = {name: site.take_float(name) for name in ("min", "max")}
    if given["min"] is not None and given["max"] is not None and given["min"] > given["max"]:
        raise site.refuse("its lower limit lies above the upper one")
    for name, default in (("min", LOWEST), ("max", HIGHEST)):
        limit = given[name]
        if limit is None and site.known.type_of(x) == onnx.TensorProto.FLOAT:
            limits.append("")
        else:
            limits.append(site.scalar(default if limit is None else limit, x, name))
    site.wire(x, *limits)


def pad_name(site: Site) -> None:
    site.put(pads=site.take_ints("paddings"))


def pad_sizes(site: Site) -> None:
    x, value = site.given(0), site.take_float("value") or 0.0
    pads = site.whole(site.take_ints("pads") or [], "pads")
    site.wire(x, pads, site.scalar(value, x, "value") if value != 0 else "")


def slice_ranges(site: Site) -> None:
    starts, ends, axes = (site.take_ints(name) or [] for name in ("starts", "ends", "axes"))
    site.wire(site.given(0), site.whole(starts, "starts"), site.whole(ends, "ends"), site.whole(axes or range(len(starts)), "axes"))


def split_sizes_attribute(site: Site) -> None:
    """Split: the sizes were an input of the data's type, or an attribute."""
    sizes = site.known.numbers(site.given(1)) if site.given(1) else None
    if site.given(1) and sizes is None:
        raise site.refuse("the sizes are not constant")
    site.wire(site.given(0))
    if sizes is not None:
        site.put(split=[int(size) for size in sizes])


def split_count(site: Site) -> None:
    """Split: without sizes all parts are equal; since their number is said the last may be smaller."""
    if site.given(1):
        return
    count, axis = len(site.node.output), site.integer("axis", 0)
    shape = site.known.shape(site.given(0)) or ()
    if -len(shape) <= axis < len(shape) and (shape[axis] or 0) % count:
        raise site.refuse(f"{shape[axis]} elements have no {count} equal parts")
    site.wire(site.given(0))
    site.put(num_outputs=count)


def squeeze_axes(site: Site) -> None:
    """Squeeze: an empty list is every axis to ONNX Runtime and none to onnx, whose shapes are relied on."""
    if any(attribute.name == "axes" and not attribute.ints for attribute in site.node.attribute):
        raise site.refuse("the list of axes is empty")
    as_input("axes")(site)


def unsqueeze_axes(site: Site) -> None:
    site.wire(site.given(0), site.whole(site.take_ints("axes") or [], "axes"))


def top_k(site: Site) -> None:
    """TopK: the count was an attribute."""
    count = site.take_int("k", 0)
    if count < 1:
        raise site.refuse(f"{count} is no count")
    site.wire(site.given(0), site.whole([count], "k"))


def transform_axis(site: Site) -> None:
    """DFT: the axis was an attribute of another default."""
    site.wire(site.given(0), site.given(1), site.whole(site.take_int("axis", 1), "axis"))


def grid_mode(site: Site) -> None:
    """GridSample: modes were named for two dimensions."""
    mode = site.text("mode", "bilinear")
    site.put(mode={"bilinear": "linear", "bicubic": "cubic"}.get(mode, mode))


def scatter_elements(site: Site) -> None:
    site.node.op_type = "ScatterElements"


def tile_axis(site: Site) -> None:
    """Tile: the tensor was repeated along one axis."""
    shape, tiles, axis = site.known.shape(site.given(0)), *(site.known.numbers(site.given(number)) for number in (1, 2))
    if shape is None or tiles is None or axis is None or not tiles.size == axis.size == 1 or not -len(shape) <= int(axis.item()) < len(shape):
        raise site.refuse("the rank or the number of copies is not known")
    repeats = [1] * len(shape)
    repeats[int(axis.item())] = int(tiles.item())
    site.wire(site.given(0), site.whole(repeats, "repeats"))


def forward(site: Site) -> None:
    """GRU: the default direction was misspelt."""
    if site.text("direction", "foward") == "foward":
        site.put(direction="forward")
