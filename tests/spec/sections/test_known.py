"""A name is one of those that there are, or the nearest is told."""

import pytest

from toolchain.spec.errors import Source, UserError
from toolchain.spec.sections.known import one_of
from toolchain.spec.yaml_nodes import parse_yaml


def test_a_name_that_is_known_and_one_that_is_not() -> None:
    root = parse_yaml(Source("m.yaml", "unit: laod\n"))
    assert one_of("unit", root.value["unit"], ["laod"]) == "laod"
    with pytest.raises(UserError, match=r"m.yaml:1:7: E0107 unknown unit 'laod'; did you mean 'load'\?"):
        one_of("unit", root.value["unit"], ["store", "load"])
