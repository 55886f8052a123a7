from toolchain.report.lengths import LengthCost, lengths_data, lengths_report

COSTS = [LengthCost("sequence 8", 1000.0, 0.001, 0.5, 1500), LengthCost("sequence 16", 2000.0, 0.002, None, 2500)]


def test_a_line_for_each_length_and_the_saving() -> None:
    text = lengths_report("m", "x", COSTS, 3000, "", "m.bundle")
    assert text.splitlines() == [
        "m on x in 2 lengths",
        "  sequence 8   1,000 cycles, 0.001 ms on the machine; 0.500 ms with the host's part",
        "  sequence 16  2,000 cycles, 0.002 ms on the machine",
        "  bundle      m.bundle: 3 kB; one for each length 4 kB together",
        "  between: filled up with zeros to the next, which changes no result of the model's file",
    ]


def test_a_warning_where_nothing_is_filled_up() -> None:
    assert lengths_report("m", "x", COSTS, 3000, "rows mix", "").splitlines()[-1] == "  warning: only these lengths are run: rows mix"
    assert lengths_data(COSTS[:1], 3000, "rows mix") == {
        "lengths": [{"sizes": "sequence 8", "cycles": 1000.0, "machine_ms": 0.001, "total_ms": 0.5, "bytes": 1500}],
        "bytes": 3000,
        "refusal": "rows mix",
    }
