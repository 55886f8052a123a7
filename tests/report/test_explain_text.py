"""An explanation as a user reads it, word for word, and its tables."""

import csv
import io
from dataclasses import replace

import pytest

from tests.report.test_reasons import ACTIVATION, ADVISOR, host
from toolchain.report.costs import Border, CostRow, CostTable, Crossings, nodes_sheet, rows_sheet
from toolchain.report.explain import ExplainedOperation, Explanation, Widened, find_causes
from toolchain.report.explain_text import explanation_text, ms_text, percent
from toolchain.report.placement import NodePlaces, Placed
from toolchain.spec.reasons import Why

REGION = CostRow("region0", "machine", "2 Conv, 1 Relu", ("first", "active", "second"), 1.5, 2.0, 0.4, 0.1, 3.0, 8_000_000, 5000, "")
NODES = (
    Placed("first", "Conv", "machine", "first", "conv2d", "region0", "", 4_000_000, 100),
    Placed("gate", "Sigmoid", "host", "", "", "", "the machine computes no such activation", 0, 10),
    Placed("lost", "Dropout", "folded", "", "", "", "taken away by the pass remove_identity", 0, 0),
)
BORDERS = (Border("x", "region0", True, "", 0.5, 0.2, 4000, 20000), Border("a", "region0", False, "gate", 1.5, 0.2, 1000, 5000))
TEXT = """\
net on mine: about 7.25 ms for 4 samples a run, estimated before it is built
  on the machine  1 of 2 nodes (50.0 %), 100.0 % of 4 MMAC
  machine              1.5 ms   21 %  in 1 region
  host                3.25 ms   45 %  in 3 nodes
  conversions            2 ms   28 %  in 2 between floating point and integers, 25 kB
  transfers            0.4 ms  5.5 %  of 2 tensors to and from regions, 5 kB
  launches             0.1 ms  1.4 %  of 1 program
  calibrated      on paper

region or node  where    computes          ms    %  computing  border  MACs  bytes
region0         machine  2 Conv, 1 Relu     4   55        1.5     2.5   8 M    5 k
gate            host     Sigmoid            3   41          3           100     10
small           host     Conv            0.24  3.3       0.24           100     10
and 1 more, 0.01 ms

The longest of 2 operations on the machine:
operation  computes  region    ms  MACs  % of peak
first      conv2d    region0    1   4 M         12
second     conv2d    region0  0.5   4 M          -

Why nodes are on the host, the most expensive reason first:
  3 ms (41 %) and 1.7 ms at the borders beside them: 1 Sigmoid
    why     the machine computes no such activation
    change  Train with one of the machine's own activations, Relu or Clip: the layers around it then stay in one region.
    nodes   gate
  0.24 ms (3.3 %): 1 Conv
    why     regions that would cost more than they save
            1 operation from small: at least 4 ms as a region, 0.24 ms on the host
    change  A region pays where it is large: see what stands between these and others. `place=all` makes them all the same.
    nodes   small
  less than 0.5 % each: 1 If

1 region would take less time on the host; `host` in the model's file keeps nodes there:
  region0 (2 Conv, 1 Relu): 4 ms, 3 ms on the host: first, active, second

1 range of the quantised model widened to the machine's own, as no sample reached the limits:
  first: -1 to 2

kept on the host by choice: kept
not computed at all, 1 node: 1 taken away by the pass remove_identity
"""


def explanation() -> Explanation:
    rows = (
        REGION,
        host("gate", "Sigmoid", 3.0, ACTIVATION),
        host("small", "Conv", 0.24, Why.LOSS(operations=1, first="small", machine_ms=1.0, host_ms=0.06)),
        host("t", "If", 0.01, Why.NO_TEMPLATE(family="operator like If")),
    )
    costs = CostTable(4, True, rows, BORDERS, Crossings(2, 2.0, 25000), Crossings(2, 0.4, 5000), Crossings(1, 0.1, 0))
    operations = (
        ExplainedOperation("first", "conv2d", "region0", 1.0, 4_000_000, 12.3),
        ExplainedOperation("second", "conv2d", "region0", 0.5, 4_000_000, None),
    )
    reasons = find_causes(costs, ADVISOR)
    folded = {"taken away by the pass remove_identity": 1}
    return Explanation("net", "mine", "on paper", NodePlaces(NODES, 2), costs, operations, reasons, (Widened("first", "-1 to 2"),), ("kept",), folded)


def test_it_reads_well() -> None:
    assert explanation_text(explanation()) == TEXT
    assert "\x1b[1m" in explanation_text(explanation(), terminal=True)


def test_a_machine_that_prices_no_host_says_so() -> None:
    found = explanation()
    text = explanation_text(replace(found, costs=replace(found.costs, priced=False)))
    assert "  machine         1.5 ms in 1 region; the machine's file does not say what the host costs\n" in text
    assert "less than" not in text
    assert "would take less time" not in text


@pytest.mark.parametrize(
    ("ms", "text"), [(0, "0"), (1e-9, "0"), (0.00012, "0.00012"), (0.00008, "0.00008"), (0.01234, "0.0123"), (12.34, "12.3"), (1234.5, "1,234")]
)
def test_times_have_three_digits(ms: float, text: str) -> None:
    assert ms_text(ms) == text


def test_shares() -> None:
    assert [percent(part, 1000.0) for part in (0.0, 4.0, 120.0)] == ["0 %", "0.4 %", "12 %"]
    assert percent(1.0, 0.0) == "0 %"


def test_a_sheet_has_a_line_for_each_row() -> None:
    lines = list(csv.DictReader(io.StringIO(rows_sheet(explanation().costs))))
    assert [line["name"] for line in lines] == ["region0", "gate", "small", "t"]
    for line in lines:
        parts = [float(line[name]) for name in ("compute_ms", "convert_ms", "transfer_ms", "launch_ms")]
        assert float(line["ms"]) == pytest.approx(sum(parts))
    assert [line["node"] for line in csv.DictReader(io.StringIO(nodes_sheet(NodePlaces(NODES, 2))))] == ["first", "gate", "lost"]


@pytest.mark.parametrize("name", ["=1+1", "+a", "-a", "@a"])
def test_no_name_is_a_formula(name: str) -> None:
    (line,) = csv.DictReader(io.StringIO(nodes_sheet(NodePlaces((replace(NODES[0], node=name),), 0))))
    assert line["node"] == f"'{name}"
