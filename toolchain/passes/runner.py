"""Runs passes one after the other, checks what each requires and ensures, and keeps what each leaves."""

from collections.abc import Callable, Sequence

import onnx_ir as ir

from toolchain.passes.base import Pass
from toolchain.passes.context import Context
from toolchain.passes.contracts import PROPERTIES
from toolchain.spec.errors import Diagnostic, UserError, fail

Keep = Callable[[int, str, ir.Model], object]
"""Called with the number of the stage, the name of its pass and the model it left."""


def run_passes(model: ir.Model, passes: Sequence[Pass], context: Context, keep: Keep | None = None) -> ir.Model:
    """As `run_steps`, all passes with one context."""
    return run_steps(model, [(step, context) for step in passes], keep)


def run_steps(model: ir.Model, steps: Sequence[tuple[Pass, Context]], keep: Keep | None = None) -> ir.Model:
    """The model after all passes. Raises UserError E0913 (contract not met) and whatever a pass raises, with the passes before it named."""
    done: list[str] = []
    for number, (step, context) in enumerate(steps):
        context.say(f"pass {number + 1} of {len(steps)}, {step.name}")
        _check(step, step.requires, model, "needs", done, context)
        try:
            model = step.run(model, context)
        except UserError as error:
            raise _explained(error, step, done) from error
        _check(step, step.ensures, model, "promises", done, context)
        done.append(step.name)
        if keep:
            keep(number, step.name, model)
    return model


def _check(step: Pass, properties: Sequence[str], model: ir.Model, verb: str, done: Sequence[str], context: Context) -> None:
    for name in properties:
        reason = PROPERTIES[name](model)
        if reason:
            text = f"the pass '{step.name}' {verb} '{name}', but {reason}; {_history(done)}"
            raise fail("E0913", text, hint=_helper(name, step) if verb == "needs" else "", place=context.place)


def _helper(name: str, step: Pass) -> str:
    from toolchain.passes.registry import PASSES

    makers = sorted(other.name for other in PASSES.values() if name in other.ensures and other.name != step.name)
    return f"'{name}' is what {' and '.join(makers)} ensure" if makers else ""


def _history(done: Sequence[str]) -> str:
    return f"passes before it: {', '.join(done)}" if done else "no pass ran before it"


def _explained(error: UserError, step: Pass, done: Sequence[str]) -> UserError:
    """The diagnostics, each naming the pass that raised it."""
    note = f" (in the pass '{step.name}'; {_history(done)})"
    return UserError(*(Diagnostic(d.code, d.message + note, d.span, d.hint, d.place, d.severity) for d in error.diagnostics))
