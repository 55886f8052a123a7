"""`tilewright target`, `operation`, `kernel` and `model`: lists, descriptions, manuals and checks of declarations and networks."""

import argparse
import json
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from toolchain.commands.machine import machine_of, sign
from toolchain.isa.check_machine import require_descriptions
from toolchain.spec.errors import Span, UserError, fail, nearest
from toolchain.spec.load import list_targets, load_machine
from toolchain.spec.model import Machine

if TYPE_CHECKING:
    from toolchain.models.model import Model
    from toolchain.operations.library import Kinds
    from toolchain.schedule.backend import Conventions
    from toolchain.schedule.kernels.operator_calls import OperatorCall


def list_machines(_: argparse.Namespace) -> int:
    """One line a machine: name, configurations, summary. Files that do not load are named on standard error."""
    known = list_targets()
    status = 0
    for name in known:
        try:
            machine = load_machine(name)
        except UserError as error:
            print(error.diagnostics[0].headline(), file=sys.stderr)
            status = 1
            continue
        configs = f" [{', '.join(machine.configs)}]" if machine.configs else ""
        print(f"{name}{configs}: {machine.summary}")
    return status


def show_target(arguments: argparse.Namespace) -> None:
    """The elaborated machine, or only its assumptions."""
    from toolchain.spec.render import render, to_yaml

    machine = machine_of(arguments)
    if arguments.assumptions:
        print("\n".join(machine.assumptions) or "nothing is assumed")
    else:
        data = render(machine) | {"parameters": {name: {"values": each.values, "doc": each.doc} for name, each in machine.parameters.items()}}
        print(json.dumps(data, indent=2) + "\n" if arguments.json else to_yaml(data), end="")


def check_target(arguments: argparse.Namespace) -> None:
    """Errors are raised while loading; here it says that there are none, and lists the assumptions. Raises UserError E0147 with --strict."""
    machine = machine_of(arguments)  # before the compiler is imported, so that a file with errors is answered at once
    if arguments.strict:
        require_descriptions(machine)
    from toolchain.spec.fingerprint import fingerprint

    found = _conventions(machine)
    print(f"{machine.name}: {len(machine.instructions)} instructions, {len(machine.memories)} memories, {len(machine.units)} units: no errors")
    if found.kernels:
        print(f"{found.kernels} kernels, {found.templates} templates: no errors")
    print(f"architecture fingerprint: {fingerprint(machine)}")
    print(f"assumptions: {len(machine.assumptions)} (tilewright target show {arguments.machine} --assumptions)")


def _conventions(machine: Machine) -> "Conventions":
    """Raises UserError with everything that is found in the machine's kernels, templates and passes."""
    from toolchain.schedule.backend import Backend, Conventions, check_conventions

    if not machine.calls_operators:
        return check_conventions(machine)
    from toolchain.passes.pipeline import pipeline_of
    from toolchain.schedule.kernels.operator_calls import load_operator_calls
    from toolchain.spec.yaml_nodes import Findings

    findings = Findings()
    calls = findings.attempt(dict[str, "OperatorCall"](), lambda: load_operator_calls(machine))
    if pipeline := machine.pipeline:
        findings.attempt(None, lambda: pipeline_of(pipeline))
    findings.settle()
    Backend(machine, {}).device()
    return Conventions(len(calls), 0)


def diff_targets(arguments: argparse.Namespace) -> None:
    """One line a difference."""
    from toolchain.spec.render import diff

    lines = diff(load_machine(arguments.first), load_machine(arguments.second))
    print("\n".join(lines) if lines else "no difference")


def write_manual(arguments: argparse.Namespace) -> None:
    """The manual to a file or to standard output."""
    from toolchain.isa.assembly import examples_of
    from toolchain.isa.program_file import load_program
    from toolchain.report.manual import manual_markdown
    from toolchain.report.manual_page import manual_html
    from toolchain.spec.files import write_atomic

    machine = machine_of(arguments)
    examples = examples_of(load_program(machine, Path(arguments.program))) if arguments.program else {}
    if not arguments.output:
        print(manual_markdown(machine, examples), end="")
        return
    path = Path(arguments.output)
    text = manual_html(machine, examples) if path.suffix == ".html" else manual_markdown(machine, examples)
    write_atomic(path, text.encode())


def _machine_if_named(arguments: argparse.Namespace) -> Machine | None:
    return machine_of(arguments) if arguments.machine else None


def _kinds(machine: Machine | None) -> "Kinds":
    from toolchain.operations.library import builtin_kinds, kinds_of

    return builtin_kinds() if machine is None else kinds_of(machine)


def list_operations(arguments: argparse.Namespace) -> None:
    """One line an operation. Raises UserError E1001 for a machine without kernels of operations."""
    from toolchain.report.manual import operation_list
    from toolchain.schedule.kernels.kernel_file import load_kernels

    machine = _machine_if_named(arguments)
    if machine and machine.calls_operators:
        hint = f"`tilewright kernel check {machine.name}` lists them"
        raise fail("E1001", f"machine '{machine.name}' has kernels for ONNX's operators, and none for operations", hint=hint)
    made = None if machine is None else frozenset(kernel.computes for kernel in load_kernels(machine).values())
    print("\n".join(operation_list(_kinds(machine), made)))


def show_operation(arguments: argparse.Namespace) -> None:
    """Print an operation's declaration and the facts derived from it."""
    from toolchain.operations.library import kind_named
    from toolchain.report.manual import operation_lines

    kinds = _kinds(_machine_if_named(arguments))
    print("\n".join(operation_lines(kind_named(kinds, arguments.operation), kinds)))


def check_operations(arguments: argparse.Namespace) -> None:
    """One line an operation. Raises UserError E1303 and E1304."""
    from toolchain.operations.library import kind_named
    from toolchain.verify.operation_check import check_operation

    if not 1 <= arguments.shapes <= 10_000:
        raise fail("E0002", f"--shapes is {arguments.shapes}, it must be from 1 to 10000")
    kinds = _kinds(_machine_if_named(arguments))
    for name in arguments.operation or kinds:
        found = check_operation(kind_named(kinds, name), kinds, arguments.shapes, arguments.seed)
        print(f"{name}: {found.shapes} shapes; float body {found.floats}, integer body {found.integers}, other ways {found.ways}: all equal")


def check_kernels(arguments: argparse.Namespace) -> None:
    """One line a kernel. Raises UserError E1002 for an unknown one, E1305 and E1306."""
    from toolchain.operations.library import kinds_of
    from toolchain.report.tables import counted
    from toolchain.schedule.kernels.kernel_file import load_kernels
    from toolchain.verify.kernel_check import check_kernel, closed_reason
    from toolchain.verify.library_check import check_call

    if not 1 <= arguments.shapes <= 1000:
        raise fail("E0002", f"--shapes is {arguments.shapes}, it must be from 1 to 1000")
    machine = machine_of(arguments)
    if machine.calls_operators:
        _check_operators(machine, arguments.kernel)
        return
    kernels, kinds = load_kernels(machine), kinds_of(machine)
    for name in _chosen(machine, arguments.kernel, kernels):
        if kernels[name].call is not None:
            called = check_call(machine, kernels[name], kinds, arguments.shapes, arguments.seed)
            print(f"{name}: {called.operation} of {called.computed} shapes: all equal")
            continue
        if reason := closed_reason(machine, kernels[name], kinds):
            print(f"{name}: not in this configuration: {reason}")
            continue
        found = check_kernel(machine, kernels[name], kinds, arguments.shapes, arguments.seed)
        left = f"; {counted(len(found.unmet), 'condition')} came out one way only" if found.unmet else ""
        print(f"{name}: {found.operation} of {found.computed} shapes in {found.tilings} tilings: all equal, no race{left}")
        for each in found.unmet if arguments.gaps else ():
            print(f"  {_brief(each.span)}never {each.never}: {each.text}")


def _brief(span: Span | None) -> str:
    """The name of the file, and the place in it."""
    return f"{Path(span.source.path).name}:{span.line}:{span.column}: " if span else ""


def _check_operators(machine: Machine, names: Sequence[str]) -> None:
    """One line a function for an operator of ONNX. Raises as `check_kernels`."""
    from toolchain.schedule.kernels.operator_calls import load_operator_calls
    from toolchain.verify.library_check import check_operator

    for name in _chosen(machine, names, load_operator_calls(machine)):
        found = check_operator(machine, name)
        print(f"{name}: {found.cases} of ONNX's {found.cases + found.refused} cases, furthest {found.distance:.2g} away")


def _chosen(machine: Machine, names: Iterable[str], known: Collection[str]) -> Iterator[str]:
    """The named kernels, or all. Raises UserError E1002 for an unknown one, when its turn comes."""
    for name in names or known:
        if name not in known:
            raise fail("E1002", f"machine '{machine.name}' has no kernel '{name}'", hint=nearest(name, known) or f"known: {', '.join(known)}")
        yield name


def check_model(arguments: argparse.Namespace) -> None:
    """Says that there are no errors, how many nodes, and the inputs. Raises UserError E0001, E08xx for the file, E09xx for its graph."""
    from toolchain.graph.nodes import shape_text
    from toolchain.models.load import load_model
    from toolchain.report.tables import counted
    from toolchain.tasks.variables import read_variables

    dims = dict(read_variables({"dim": ",".join(arguments.dim)} if arguments.dim else {}).dims)
    with sign("reading the model"):
        model = load_model(arguments.model, dims)
        nodes = _nodes(model)
    inputs = ", ".join(f"{name} {shape_text(shape)}" for name, shape in model.shapes.items())
    print(f"{model.name}: {counted(nodes, 'node')}, {inputs}: no errors")


def _nodes(model: "Model") -> int:
    from toolchain.graph.importing.load import load_graph
    from toolchain.models.build import model_shape_graph
    from toolchain.models.model import Stored
    from toolchain.models.sources import open_sizes

    if isinstance(model.origin, Stored):
        return len(load_graph(model.origin.file, open_sizes(model.origin.file, model.shapes)).graph)
    bare = model_shape_graph(model)
    assert bare is not None
    return len(bare.proto.graph.node)
