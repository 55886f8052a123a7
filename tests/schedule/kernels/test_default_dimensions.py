"""Places are told apart by the dimensions that their loads name."""

from pathlib import Path

import pytest

from toolchain.schedule.kernels.default_dimensions import dimensions_named, told_apart
from toolchain.schedule.kernels.kernel import Dimension, Window
from toolchain.spec.errors import Source
from toolchain.spec.expr import Const
from toolchain.spec.yaml_nodes import parse_yaml

ONE = Const(1)
DIMS = (*(Dimension(name, ONE, None, None, False) for name in ("n", "oc", "oh")), Dimension("ic", ONE, None, None, True))
WINDOWS = (Window("h", "oh", ONE, ONE, ONE, ONE, ONE),)
TEXT = """
shapes:
  rows:
    doc: oh says nothing here
    arguments: {first: oc_at, count: oc, unused: ic}
    size: count * 2
    names: {top: h_first}
    load: {MOVE: {at: n_at + first}}
    store: {MOVE: {at: oh}}
  stays: {size: oc}
places:
  x: {shape: rows}
  every: {shape: rows, first: 0, count: 1}
  handed: {shape: rows, onto: x}
  scratch: {shape: stays}
  w: {memory: wgt, size: 1}
  t: {memory: wgt, size: 1}
  y: {shape: rows}
steps:
  - {load: w, do: [{MOVE: {at: ic_at * oc}}, {MOVE: {at: w_slot}}]}
  - {load: t, template: t.asm.j2}
  - {compute: y, do: {MOVE: {at: n}}}
"""


@pytest.mark.parametrize(
    ("place", "wanted"),
    [
        ("x", ("n", "oc", "oh")),
        ("every", ("n", "oh")),
        ("handed", ("n", "oc", "oh")),
        ("scratch", ("n", "oc", "oh")),
        ("w", ("oc", "ic")),
        ("t", ("n", "ic")),
        ("y", ("n", "oc", "oh")),
    ],
)
def test_what_a_load_names_tells_tiles_apart(place: str, wanted: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "t.asm.j2").write_text("MOVE at={{ ic_at + n }}\n")
    root = parse_yaml(Source("kernels.yaml", TEXT))
    words = told_apart(place, dict(root.members("places"))[place], root, dict(root.members("shapes")), "y", tmp_path)
    assert dimensions_named(words, DIMS, WINDOWS) == wanted
