"""docs/kernels.md explains every key of kernel files, and its example is legal."""

import re
from pathlib import Path

import pytest

from tests.docs.test_machine_description import keys
from toolchain.schedule.kernels.kernel_file import KERNEL_SCHEMA, read_kernels
from toolchain.spec.errors import Source
from toolchain.spec.load import load_machine
from toolchain.spec.schema import read_schema

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "kernels.md").read_text()
PROSE = re.sub(r"^```.*?^```$", "", PAGE, flags=re.M | re.S)


@pytest.mark.parametrize("key", sorted(keys(read_schema(KERNEL_SCHEMA)) - {"kernels"}))
def test_every_key_is_explained(key: str) -> None:
    assert re.search(rf"`{key}`", PROSE), key


def test_the_example_is_legal() -> None:
    (text,) = re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.M | re.S)
    assert list(read_kernels(load_machine("vta"), Source("kernels.yaml", text), ROOT / "targets" / "vta")) == ["conv2d"]
