"""Reasons in tests: those of a node in words, and one in any words."""

import onnx_ir as ir

from toolchain.graph.integers.calls import Reasons, reasons_of
from toolchain.graph.nodes import REASON
from toolchain.spec.reason import Reason
from toolchain.spec.reasons import Why, texts_of


def said(node: ir.Node) -> str:
    """Why a node is not on the machine; empty where it says nothing."""
    return texts_of(reasons_of(node)) if REASON in node.metadata_props else ""


def because(text: str) -> Reason:
    return Why.RULE(note=text)


def against(text: str) -> Reasons:
    """None for an empty text."""
    return (because(text),) if text else ()
