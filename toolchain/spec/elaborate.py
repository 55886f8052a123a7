"""Puts parameters in place and builds the Machine, section by section; independent sections report their errors together."""

from collections.abc import Mapping

from toolchain.spec.checks.machine import check
from toolchain.spec.findings import Findings
from toolchain.spec.model import Encoding, Machine, ProgramRules, Timing
from toolchain.spec.sections import conventions, encoding, layouts, offloading, storage, synchronisation, views
from toolchain.spec.sections.assumptions import assumptions
from toolchain.spec.sections.instructions import block, instructions, portable
from toolchain.spec.sections.interlocks import interlock
from toolchain.spec.sections.nops import idle
from toolchain.spec.sections.params import assumed_params, parameter_notes, resolve_params
from toolchain.spec.sections.quantisation import quantisation
from toolchain.spec.sections.timing import timing
from toolchain.spec.yaml_nodes import Node

NO_ENCODING = Encoding(1, 1, 1)
NO_PROGRAM = ProgramRules("", False, "raw")
NO_TIMING = Timing(0, "", (), (), ())


def elaborate(root: Node, config: str, overrides: Mapping[str, str]) -> Machine:
    """The machine of a validated file. Raises UserError with the diagnostics of every section that could be read."""
    context = resolve_params(root, config, overrides)
    findings = Findings()
    attempt = findings.attempt
    levels = attempt((), lambda: storage.levels(context))
    types = attempt({}, lambda: storage.types(context))
    formats = attempt({}, lambda: encoding.formats(context) if root.get("encoding") else {})
    units = attempt((), lambda: storage.units(context))
    rules = attempt((), lambda: conventions.rules(context))
    clock = attempt(NO_TIMING, lambda: timing(context))
    stored = attempt((), lambda: layouts.layouts(context))
    host = attempt(None, lambda: conventions.host(context))
    numerics = attempt(None, lambda: quantisation(context))
    offloaded = attempt({}, lambda: offloading.operators(context))
    functions = attempt(None, lambda: block(root.value["functions"]) if root.get("functions") else None)
    findings.settle()
    memories = attempt((), lambda: storage.memories(context, types))
    findings.settle()
    looks = attempt((), lambda: views.views(context, types, memories))
    packing = attempt(NO_ENCODING, lambda: encoding.encoding(context, formats) if root.get("encoding") else NO_ENCODING)
    known = attempt((), lambda: instructions(context, formats, [u.name for u in units]))
    findings.settle()
    ending = attempt(NO_PROGRAM, lambda: conventions.program(root, levels) if root.get("program") else NO_PROGRAM)
    warnings = attempt((), lambda: portable(context, [i.name for i in known]))
    counters, sync, illegal = attempt(((), (), ()), lambda: synchronisation.sync(context, units, known))
    nops = attempt((), lambda: idle(context, units, known))
    locked = attempt(None, lambda: interlock(context, memories, units, known))
    findings.settle()
    target = root.value["target"]
    machine = Machine(
        name=target.text("name"), config=context.config, summary=target.text("summary"), sources=tuple(n.value for n in target.entries("sources")),
        models=tuple(n.value for n in target.entries("models")), params=context.names, levels=levels, memories=memories, views=looks, units=units,
        encoding=packing, instructions=known, functions=functions, counters=counters, sync=sync, illegal=illegal, rules=rules, timing=clock,
        layouts=stored, program=ending, portable=warnings, assumptions=assumptions(root),
        choices={(p, c): i for p, names in context.choices.items() for i, c in enumerate(names)}, host=host, interlock=locked,
        configs=tuple(dict(root.members("configs"))), nops=nops, settable=tuple(dict(root.members("params"))), quantisation=numerics,
        parameters=parameter_notes(root, context), assumed_params=assumed_params(root),
        operators=offloaded, fusion=offloading.outline(root, "fusion"), pipeline=offloading.outline(root, "pipeline"), path=root.span.source.path,
        codegen=root.text("codegen", "binary"), tool=conventions.tool(root), limits=conventions.limits(context),
        half=conventions.half(context), tolerance=conventions.tolerance(root),
    )  # fmt: skip
    check(machine, root)
    return machine
