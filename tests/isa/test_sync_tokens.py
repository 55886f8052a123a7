"""Rules turned round: the bit that moves one token.

Sync rules in numbers: masks, amounts, instances by scope, posts to other instances.
"""

from dataclasses import replace

import numpy as np
import pytest

from tests.random_tokens import entries
from tests.schedule.cells import EVERY, cells
from tests.token_machine import mask, program, token_machine
from toolchain.isa.sync_tokens import POST, WAIT, Bit, sync_encoding, sync_tokens
from toolchain.spec.errors import Source, Span, UserError
from toolchain.spec.expr import parse_expr
from toolchain.spec.load import load_machine


def test_a_field_that_means_another_counter_on_each_unit() -> None:
    known, names = sync_encoding(load_machine("vta")), ["load", "compute", "store"]
    assert sorted(channel.counter for channel in known.channels.values()) == ["g2l", "g2s", "l2g", "s2g"]
    assert {(names[a], names[b]) for a, b in known.channels} == {("load", "compute"), ("compute", "load"), ("compute", "store"), ("store", "compute")}
    assert known.bits[1, 2, WAIT, "g2s"] == Bit("pop_prev", 0)
    assert (1, 2, WAIT, "s2g") not in known.bits


def test_masks_of_pairs() -> None:
    machine = load_machine("dpuv3")
    known, conv = sync_encoding(machine), [i.name for i in machine.instructions].index("CONV")
    assert len(known.channels) == 16
    assert known.bits[conv, 2, WAIT, "edge.load.conv"] == Bit("dpdon", 0)
    assert known.bits[conv, 2, POST, "edge.conv.misc"] == Bit("dpdby", 3)


@pytest.mark.parametrize("shape", [", initial: 1", ", count: 2"])
def test_counters_that_start_full_or_come_in_arrays_are_no_channels(shape: str) -> None:
    assert len(sync_encoding(cells(EVERY)).channels) == 6
    assert len(sync_encoding(cells(EVERY | {"ab": shape})).channels) == 5


def test_instructions_without_the_field_carry_nothing_and_all_prior_needs_no_post() -> None:
    known = sync_encoding(cells(EVERY | {"ab": ", mode: all_prior"}))
    quiet, copy = 2, 1
    there, back = known.channels[0, 1], known.channels[1, 0]
    assert known.carries(quiet, 0, POST, there)
    assert not known.carries(quiet, 1, WAIT, there)
    assert not known.carries(quiet, 1, POST, back)
    assert known.carries(copy, 1, WAIT, there)
    assert known.carries(copy, 1, POST, back)


def test_a_machine_is_looked_at_once_and_another_one_for_itself() -> None:
    machine, other = load_machine("vta"), cells(EVERY)
    assert sync_encoding(machine) is sync_encoding(machine)
    assert sync_encoding(other).channels != sync_encoding(machine).channels


TREE = "topology: {cluster: {count: 2}, core: {count: 4, streams: true}}\n"


def test_amounts_are_fields_and_zero_is_no_wait() -> None:
    tokens = sync_tokens(program(token_machine(), [{"waits": mask("ab bc"), "amount": 3}, {"waits": mask("ba"), "amount": 0}, {"posts": mask("ca")}]))
    assert [entries(tokens.waits, i) for i in range(3)] == [[(0, 3), (2, 3)], [], []]
    assert [entries(tokens.posts, i) for i in range(3)] == [[], [], [(3, 1)]]


def test_instances_follow_the_stream() -> None:
    machine = token_machine({"ab": ", scope: cluster", "ba": ", scope: core"}, TREE)
    streams = [[{"waits": mask("ab ba bc")}] for _ in range(8)]
    tokens = sync_tokens(program(machine, *streams))
    assert tokens.names[:3] == ("ab of cluster 0", "ab of cluster 1", "ba of core 0")
    assert [[c for c, _ in entries(tokens.waits, i)] for i in range(8)] == [[i // 4, 2 + i, 10] for i in range(8)]


def test_a_mask_posts_to_every_chosen_instance() -> None:
    machine = token_machine(dict.fromkeys(("ab", "ba", "bc", "ca"), ", scope: core"), TREE, over=", over: {cluster: mask >> 4, core: mask & 15}")
    streams = [[{"posts": mask("ab"), "mask": 0b10_1010}] if i == 2 else [{}] for i in range(8)]
    tokens = sync_tokens(program(machine, *streams))
    assert entries(tokens.posts, 2) == [(5, 1), (7, 1)]


def test_what_is_not_masked_keeps_its_own_index() -> None:
    machine = token_machine(dict.fromkeys(("ab", "ba", "bc", "ca"), ", scope: core"), TREE, over=", over: {core: mask}")
    streams = [[{"posts": mask("ab"), "mask": 0b1001}] if i == 6 else [{}] for i in range(8)]
    assert entries(sync_tokens(program(machine, *streams)).posts, 6) == [(4, 1), (7, 1)]


def test_two_rules_on_one_counter_add_up() -> None:
    machine = token_machine()
    twice = replace(machine, sync=(*machine.sync, *machine.sync))
    assert entries(sync_tokens(program(twice, [{"waits": mask("ab"), "amount": 2}])).waits, 0) == [(0, 4)]


def test_a_counter_outside_its_array_is_refused() -> None:
    machine = token_machine({"ab": ", count: 2"})
    rule = machine.sync[0]
    wild = replace(rule, index=rule.amount)
    code = program(replace(machine, sync=(wild,)), [{"waits": 1, "amount": 1}, {"waits": 1, "amount": 2}])
    with pytest.raises(UserError, match=r"E0502 #1 OP at 0x10: no counter ab\[2\]; it has 2"):
        sync_tokens(code)


def test_rows_are_int64() -> None:
    tokens = sync_tokens(program(token_machine(), [{"waits": mask("ab")}]))
    assert {a.dtype for a in (tokens.waits.start, tokens.waits.counter, tokens.waits.amount, tokens.depth)} == {np.dtype(np.int64)}


def test_a_negative_amount_is_refused() -> None:
    machine = token_machine()
    rule = replace(machine.sync[0], amount=parse_expr("amount - 2", lambda line, column: Span(Source("t", ""), line, column)))
    code = program(replace(machine, sync=(rule,)), [{"waits": 1, "amount": 2}, {"waits": 1, "amount": 1}])
    with pytest.raises(UserError, match="E0503 #1 OP at 0x10: -1 tokens of ab; an amount cannot be negative"):
        sync_tokens(code)
