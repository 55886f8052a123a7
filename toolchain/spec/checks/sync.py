"""Checks of synchronisation: every counter has both ends, every sync field a counter."""

from collections.abc import Iterator

from toolchain.spec.errors import Diagnostic
from toolchain.spec.expr import Name, walk
from toolchain.spec.model import Counter, Machine, SyncRule
from toolchain.spec.yaml_nodes import Node


def check_sync(machine: Machine, root: Node) -> Iterator[Diagnostic]:
    """E0130 counter without producer or consumer, E0131 sync field without counter, E0133 rule at the wrong end."""
    node = root.get("sync")
    yield from _fields(machine)
    if node is None:
        return
    moved = {(rule.kind, rule.counter) for rule in machine.sync}
    for counter in machine.counters:
        where = node.at(("counters", counter.name.partition(".")[0])).where()
        for kind, end in (("post", "producer"), ("wait", "consumer")):
            automatic = kind == "post" and counter.mode == "all_prior"  # every instruction of the source unit posts one
            if not automatic and (kind, counter.name) not in moved:
                yield Diagnostic("E0130", f"counter '{counter.name}' has no {end}: no {kind} names it", where)
                break
    counters = {c.name: c for c in machine.counters}
    for rule in machine.sync:
        yield from _ends(rule, counters[rule.counter], node)


def _fields(machine: Machine) -> Iterator[Diagnostic]:
    used = {e.id for rule in machine.sync for part in rule.expressions for e in walk(part) if isinstance(e, Name)}
    for field in machine.declared_fields:
        if field.role == "sync" and field.name not in used:
            yield Diagnostic("E0131", f"the sync field '{field.name}' moves no counter", field.span, "name it in sync.waits or sync.posts")


def _ends(rule: SyncRule, counter: Counter, node: Node) -> Iterator[Diagnostic]:
    """A field that waits does so on the counter's target, one that posts on its source."""
    end = counter.target if rule.kind == "wait" else counter.source
    if end and len(rule.units) == 1 and rule.units[0] != end and isinstance(rule.when, Name):
        item = node.at((f"{rule.kind}s", rule.when.id, rule.units[0]))
        verb = "is waited on by" if rule.kind == "wait" else "is posted by"
        text = f"counter '{counter.name}' goes from '{counter.source}' to '{counter.target}', but here it {verb} '{rule.units[0]}'"
        yield Diagnostic("E0133", text, item.span)
