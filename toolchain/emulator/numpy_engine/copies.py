"""Whole elements copied as they are stored."""

from collections.abc import Callable

import numpy as np

from toolchain.emulator.numpy_engine.data import Data
from toolchain.emulator.numpy_engine.frame import ELEMENTS, Frame, TooLargeError, Value
from toolchain.emulator.numpy_engine.numerics import is_int, where
from toolchain.isa.semantics import ir
from toolchain.spec import expr as ex
from toolchain.spec.expr import Expr
from toolchain.spec.model import View


def copied(data: Data, e: Expr, view: View) -> Callable[[Frame], Value]:
    """uint8 [*loops, bytes of an element]"""
    match e:
        case ex.Choose(condition=condition, then=then, other=other):
            sides = data.within(condition, lambda: (copied(data, then, view), copied(data, other, view)))
            return data.scalars.chosen(data.scalars.remembered_truth(condition), *sides, _merged)
        case ir.Load(access=access) | ir.ControlRead(access=access, member=""):
            return _element(data, access)
        case ex.Const(value=0):
            zeros = np.zeros(view.element.bytes, np.uint8)
            return lambda _: zeros
        case _:
            raise TypeError(e)


def _element(data: Data, access: ir.Access) -> Callable[[Frame], Value]:
    find, read, size = data.address(access), data.scalars.storage.reader(access.view, np.dtype(np.uint8)), access.view.element.bytes

    def element(f: Frame) -> Value:
        at = find(f)
        if not is_int(at) and at.size * size > 8 * ELEMENTS:
            raise TooLargeError
        return read(f, at)

    return element


def _merged(found: Value, yes: Value, no: Value) -> Value:
    """found: bool [*loops]; yes: whole elements, their own; no: as many or one"""
    if yes.shape[:-1] != found.shape:
        return where(found[..., None], yes, no)
    yes[~found] = no if no.ndim == 1 else np.broadcast_to(no, yes.shape)[~found]
    return yes
