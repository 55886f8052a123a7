"""Event simulation: C equals Python bit for bit, starts are a legal order, and small cases come out as by hand."""

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.random_tokens import Net, any_net, is_legal, net, pair_net, single_ended
from toolchain.analysis import order as queues
from toolchain.timing.cost import BankPorts, Costs, ResourcePorts
from toolchain.timing.event_run import NOT_FETCHED, SimulationResult, run_events
from toolchain.timing.simulate import simulate


def costs(cycles: Iterable[int], setup: Iterable[int] = (), latency: Iterable[int] = (), moves: dict[int, list[tuple[int, int]]] | None = None,
          ranks: dict[int, int] | None = None, ports: int = 1) -> Costs:  # fmt: skip
    """moves: {instruction: [(port, work), ...]}; ranks: {instruction: rank}."""
    columns = [np.array(list(c), np.int64) for c in (setup, cycles, latency)]
    n = max(len(c) for c in columns)
    columns = [c if len(c) else np.zeros(n, np.int64) for c in columns]
    rows = [(moves or {}).get(i, []) for i in range(n)]
    first = np.cumsum([0, *(len(r) for r in rows)]).astype(np.int64)
    port, work = (np.array([move[k] for row in rows for move in row], np.int64) for k in (0, 1))
    rank = np.array([(ranks or {}).get(i, 0) for i, row in enumerate(rows) for _ in row], np.int64)
    return Costs(*columns, ResourcePorts(tuple(f"p{k}" for k in range(ports)), np.arange(ports)), first, port, work, work, rank)


@st.composite
def any_costs(draw: st.DrawFn, n: int) -> tuple[Costs, list[bool]]:
    number = st.integers(0, 9)
    columns = [draw(st.lists(number, min_size=n, max_size=n)) for _ in range(3)]
    move = st.lists(st.tuples(st.integers(0, 2), st.integers(1, 9)), max_size=2, unique_by=lambda m: m[0])
    moves = dict(enumerate(draw(st.lists(move, min_size=n, max_size=n))))
    ranks = dict(enumerate(draw(st.lists(st.integers(0, 2), min_size=n, max_size=n))))
    given = replace(costs(*columns, moves, ranks, 3), banks=draw(st.none() | any_banks(n)))
    return given, draw(st.lists(st.booleans(), min_size=3, max_size=3))


@st.composite
def any_banks(draw: st.DrawFn, n: int) -> BankPorts:
    """Of three ports of banks, those that each instruction uses, and a rank for each."""
    uses = draw(st.lists(st.lists(st.integers(0, 2), max_size=2, unique=True), min_size=n, max_size=n))
    rank = draw(st.lists(st.integers(0, 2), min_size=(count := sum(map(len, uses))), max_size=count))
    room = draw(st.lists(st.integers(1, 2), min_size=3, max_size=3))
    first = np.cumsum([0, *map(len, uses)]).astype(np.int64)
    return BankPorts(first, *(np.array(column, np.int64) for column in ([port for row in uses for port in row], rank, room)), 3)


@settings(max_examples=30, deadline=None)
@given(st.data(), st.integers(0, 10_000), st.sampled_from([-1, 1, 2]))
def test_starts_are_a_legal_order_and_times_are_consistent(data: st.DataObject, seed: int, depth: int) -> None:
    case = replace(pair_net(40, seed, depth=depth), room=(-1, 3, 2, 5))
    cost, fair = data.draw(any_costs(40))
    result = simulate(case.table, case.tokens, cost, fair)
    assume(len(result.order) == 40)
    assert is_legal(case, result.order.tolist())
    assert (np.diff(result.start[result.order]) >= 0).all()
    assert (result.freed <= result.start).all()
    assert (result.end <= result.released).all()
    assert (result.end >= result.start + cost.setup + cost.cycles - 1e-9).all()


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_time_deadlocks_only_where_tokens_do(data: st.DataObject) -> None:
    case = single_ended(data.draw(any_net()))
    cost, fair = data.draw(any_costs(len(case.queue)))
    finished = int(queues.simulate(case.table, case.tokens).head.sum()) == len(case.queue)
    result = simulate(case.table, case.tokens, cost, fair)
    assert (len(result.order) == len(queues.simulate(case.table, case.tokens).order)) or not finished
    assert not finished or len(result.order) == len(case.queue)


def run(case: Net, cost: Costs, fair: list[bool] | None = None) -> SimulationResult:
    return simulate(case.table, case.tokens, cost, fair or [False])


def test_a_unit_holds_setup_then_the_longer_of_cycles_and_transfers() -> None:
    case = net([0, 0], 1, [{}, {}], [{}, {}], [], [])
    result = run(case, costs([10, 2], setup=[3, 3], moves={0: [(0, 4)], 1: [(0, 8)]}))
    assert result.end.tolist() == [13, 13 + 3 + 8]


def test_a_token_shows_after_the_latency_while_the_unit_goes_on() -> None:
    case = net([0, 0, 1], 2, [{}, {}, {0: 1}], [{0: 1}, {}, {}], [-1], [0])
    result = run(case, costs([5, 5, 1], latency=[4, 0, 0]))
    assert result.start.tolist() == [0, 5, 9]
    assert (result.counter[2], result.producer[2], result.freed[2]) == (0, 0, 0)


def test_tokens_of_a_unit_show_in_its_order() -> None:
    case = net([0, 0, 1, 2], 3, [{}, {}, {0: 1}, {1: 1}], [{0: 1}, {1: 1}, {}, {}], [-1, -1], [0, 0])
    assert run(case, costs([5, 1, 1, 1], latency=[9, 0, 0, 0])).start.tolist() == [0, 5, 14, 14]


def test_fifo_serves_in_order_of_arrival() -> None:
    case = net([0, 1, 2], 3, *[[{}] * 3] * 2, [], [])
    result = run(case, costs([0, 0, 0], setup=[2, 1, 0], moves={i: [(0, 10)] for i in range(3)}))
    assert result.end.tolist() == [30, 20, 10]
    assert result.slowest.tolist() == [0, 0, 0]


def test_fair_shares_equally() -> None:
    case = net([0, 1], 2, *[[{}] * 2] * 2, [], [])
    result = run(case, costs([0, 0], setup=[0, 10], moves={0: [(0, 20)], 1: [(0, 20)]}), [True])
    assert result.end.tolist() == [30, 40]


def test_priority_lets_the_lower_rank_go_first_but_interrupts_nobody() -> None:
    case = net([0, 1, 2], 3, *[[{}] * 3] * 2, [], [])
    moves = {i: [(0, 10)] for i in range(3)}
    result = run(case, costs([0, 0, 0], setup=[0, 1, 2], moves=moves, ranks={0: 2, 1: 2, 2: 0}))
    assert result.end.tolist() == [10, 30, 20]


def test_a_full_counter_holds_the_unit() -> None:
    case = net([0, 0, 0, 1, 1], 2, [{}, {}, {}, {0: 1}, {0: 1}], [{0: 1}, {0: 1}, {}, {}, {}], [1], [0])
    result = run(case, costs([1, 1, 1, 7, 7]))
    assert result.released.tolist() == [1, 2, 3, 8, 15]
    assert result.start.tolist() == [0, 1, 2, 1, 8]
    slow = run(case, costs([9, 1, 1, 7, 7], setup=[0, 0, 0, 0, 0], latency=[20, 0, 0, 0, 0]))
    assert slow.released.tolist()[:2] == [9, 29]
    assert (slow.room_counter[1], slow.room_by[1]) == (0, 3)


def test_a_short_queue_delays_what_is_fetched_after_it() -> None:
    case = replace(net([0, 0, 0, 1], 2, [{}] * 4, [{}] * 4, [], []), room=(1, -1))
    result = run(case, costs([5, 6, 7, 1]))
    assert result.start.tolist() == [0, 5, 11, 5]
    assert (result.counter[3], result.producer[3]) == (NOT_FETCHED, 1)


def test_units_that_wait_for_each_other_at_two_ports_go_one_after_the_other() -> None:
    """Each is before the other at one of the ports, so neither would ever end."""
    case = net([0, 1], 2, *[[{}] * 2] * 2, [], [])
    banks = BankPorts(np.array([0, 2, 4]), np.array([0, 1, 1, 0]), np.array([0, 1, 0, 1]), np.array([1, 1]), 2)
    given = replace(costs([5, 3]), banks=banks)
    for engine in (simulate, run_events):
        assert engine(case.table, case.tokens, given, [False]).end.tolist() == [5, 8]
