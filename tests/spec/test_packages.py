"""Packages that are there are no mistake, and one that is not is told with the command that brings it."""

import pytest

from toolchain.spec.errors import UserError
from toolchain.spec.packages import require_package


def test_a_package_that_is_there_under_another_name() -> None:
    require_package("reading machines", "pyyaml", "none", "yaml")


def test_a_package_that_is_not_there() -> None:
    with pytest.raises(UserError) as error:
        require_package("flying", "no_such_package", "wings")
    assert str(error.value) == "E0009 flying needs the package 'no_such_package', which is not installed; pip install 'tilewright[wings]'"
