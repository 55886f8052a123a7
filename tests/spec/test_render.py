"""The printed machine is plain, complete and reads back as YAML."""

import json
from collections.abc import Callable

from tests.spec.small import nodes, small
from toolchain.spec.render import render, to_yaml


def test_golden(golden: Callable[[str, str], None]) -> None:
    golden("spec/small.rendered.yaml", to_yaml(render(small(config="wide"))))


def test_plain_data_survives_json_and_yaml() -> None:
    data = render(small())
    assert json.loads(json.dumps(data)) == data
    assert nodes(to_yaml(data)).plain() == data


def test_concrete_numbers() -> None:
    data = render(small(config="wide"))
    assert data["params"] == {"LANES": 8, "MODE": "exact", "HALF": 4}
    assert data["memories"]["sums"]["element"] == "i32[8]"
    assert data["views"]["rows.turned"]["offsets"] == [0, 2, 4, 6, 1, 3, 5, 7]
    assert data["instructions"]["CALC"]["unit"] == "calc if kind == 0 else move"
    assert data["layouts"]["rows_of"]["map"] == ["n", "c // 8", "c % 8"]
    far = {"lsb": 32, "bits": 32, "minus": 0, "role": "address", "radix": 10, "relocates": "ddr.row"}
    assert data["instructions"]["MOVE"]["fields"]["far"] == far
