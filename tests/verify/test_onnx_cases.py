"""ONNX's own cases, whoever has asked for them before."""

import importlib

import pytest
from onnx.backend.test.case import node

from toolchain.verify.onnx_cases import case_modules, cases_in


def test_all_modules_are_there() -> None:
    assert {"conv", "softmax", "ai_onnx_ml.binarizer"} <= set(case_modules())
    assert len(case_modules()) > 150


@pytest.mark.filterwarnings("ignore")
def test_cases_are_found_after_somebody_else_has_made_them() -> None:
    cases_in.cache_clear()
    importlib.import_module(f"{node.__name__}.relu")
    assert [case.name for case in cases_in("relu") if "expanded" not in case.name] == ["test_relu"]
    assert cases_in("relu") is cases_in("relu")
