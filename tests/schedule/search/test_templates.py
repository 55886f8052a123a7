"""Group templates: those of the toolchain, a machine's own, and every mistake with its place."""

from pathlib import Path

import pytest

from tests.operations.made import load_machine
from toolchain.schedule.search.templates import DEFAULT, load_templates, read_templates
from toolchain.spec.errors import UserError

VTA = load_machine("vta")
GOOD = """templates:
  conv_pool:
    nodes: {conv: {computes: [conv2d]}, pool: {computes: [max_pool], where: kh <= 3}}
    reads: [[conv, pool]]
"""


def read(tmp_path: Path, text: str) -> list[str]:
    path = tmp_path / "own.yaml"
    path.write_text(text)
    return [template.name for template, _ in read_templates(VTA, path)]


def test_a_machine_without_templates_has_the_toolchains() -> None:
    assert [template.name for template in load_templates(VTA)] == [template.name for template, _ in read_templates(VTA, DEFAULT)]
    assert {template.name: template.direction for template in load_templates(VTA)}["two_readers"] == "horizontal"


def test_a_machine_with_templates_has_its_own_alone() -> None:
    own = {template.name: template.direction for template in load_templates(load_machine("dnnvm"))}
    assert own["conv_pool"] == "vertical"
    assert "pair" not in own


@pytest.mark.parametrize(
    ("old", "new", "wanted"),
    [
        ("computes: [conv2d]", "computes: [conv3]", r"own.yaml:3:31: E1011 there is no operation 'conv3'; did you mean 'conv2d'"),
        ("[[conv, pool]]", "[[conv, pol]]", r"own.yaml:4:20: E1011 the template has no node 'pol'; did you mean 'pool'"),
        ("[[conv, pool]]", "[[conv, conv]]", r"own.yaml:4:\d+: E1011 'conv' is joined with itself"),
        ("    reads: [[conv, pool]]\n", "", r"own.yaml:\d+:\d+: E1011 'pool' of template 'conv_pool' hangs together with none"),
        ("kh <= 3", "khh <= 3", r"own.yaml:3:\d+: E0107 unknown name 'khh'"),
        ("templates:", "template:", r"own.yaml:1:1: E0108 unknown key 'template'"),
    ],
)
def test_a_mistake_is_told_at_its_place(tmp_path: Path, old: str, new: str, wanted: str) -> None:
    assert read(tmp_path, GOOD) == ["conv_pool"]
    with pytest.raises(UserError, match=wanted):
        read(tmp_path, GOOD.replace(old, new))
