"""Faults in a machine file: each an edit of tests/golden/machine_faults/good.yaml, which must be told in one line."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Fault:
    """Replaces `old`, which stands once in the good file, by `new`; `code` is what the user must be told."""

    code: str
    old: str
    new: str


DEEP = "[" * 70 + "1" + "]" * 70
NESTED = "(" * 1000 + "1" + ")" * 1000
PROBE = """  PROBE_{0}:
    format: {1}
    match: {{opcode: 5, far: {2}}}
    unit: move
    timing: none
    semantics: |
      pass
"""
PROBES = PROBE.format("A", "long", 1) + PROBE.format("B", "longer", 2) + "  SETUP:\n"
CHAIN = " + ".join("1" for _ in range(80))

PIPELINED = "    timing: calc\n    pipelined: {{memories: [{0}], apart: {1}}}\n    semantics"

FAULTS = {
    # the file
    "bad_yaml": Fault("E0101", "topology:\n", "topology\n"),
    "unquoted_expression": Fault("E0101", '"i8[2, HALF]"', "i8[2, HALF]x"),
    "alias": Fault("E0102", "{LANES: 8, MODE: exact}", "&wide {LANES: 8, MODE: exact}"),
    "tag": Fault("E0102", "summary: ", "summary: !!str "),
    "too_deep": Fault("E0102", "  HALF: LANES // 2", f"  HALF: {DEEP}"),
    "octal": Fault("E0102", "value: 4, range", "value: 010, range"),
    "huge_number": Fault("E0102", "value: 4, range", f"value: {'9' * 90}, range"),
    "unknown_pipelined_memory": Fault("E0107", "    timing: calc\n    semantics", PIPELINED.format("sum", 2)),
    "steps_too_far_apart": Fault("E0139", "    timing: calc\n    semantics", PIPELINED.format("sums", 65)),
    "duplicate_key": Fault("E0103", "  HALF: LANES // 2", "  HALF: LANES // 2\n  HALF: 3"),
    # keys and kinds of values
    "unknown_key": Fault("E0108", "kind: dram, type: u8", "kind: dram, colour: red, type: u8"),
    "misspelt_key": Fault("E0108", "    format: setup", "    fromat: setup"),
    "unknown_section": Fault("E0108", "\nportable:\n", "\nportabel:\n"),
    "missing_key": Fault("E0109", "    timing: calc\n", ""),
    "missing_depth": Fault("E0109", ", type: sum_t, depth: 64", ", type: sum_t"),
    "number_without_source": Fault("E0109", ", policy: fifo, source: data sheet", ", policy: fifo"),
    "format_without_length": Fault("E0109", "    short: {extends: header, bits: 32, unused: zero}", "    short: {extends: header, unused: zero}"),
    "wrong_kind": Fault("E0116", "LANES: {value: 4", "LANES: {value: [4]"),
    "bad_choice_of_schema": Fault("E0116", "kind: scratchpad, scope: core, type: row_t", "kind: scratchpat, scope: core, type: row_t"),
    "bad_place": Fault("E0116", "{at: 0.15-8}", "{at: 15-8}"),
    "two_ways": Fault("E0116", "{at: 0.15-8}", "{at: 0.15-8, bits: 8}"),
    "folded_semantics": Fault("E0116", "semantics: |\n      pass", "semantics: >\n      pass"),
    "bad_name": Fault("E0116", "  HALF: LANES // 2", "  2HALF: LANES // 2"),
    # parameters
    "unknown_parameter": Fault("E0104", "{LANES: 8, MODE: exact}", "{LANE: 8, MODE: exact}"),
    "out_of_range": Fault("E0105", "value: 4, range", "value: 17, range"),
    "bad_choice": Fault("E0105", "value: fast", "value: fats"),
    "failed_check": Fault("E0106", "value: 4, range", "value: 5, range"),
    "unresolved_in_derive": Fault("E0107", "HALF: LANES // 2", "HALF: LANE // 2"),
    "division_by_zero": Fault("E0122", "HALF: LANES // 2", "HALF: LANES // (LANES - 4)"),
    "huge_value": Fault("E0122", "HALF: LANES // 2", "HALF: (1 << 250) * (1 << 250) * (1 << 250)"),
    "taken_name": Fault("E0145", "HALF: LANES // 2", "LANES: 2"),
    # expressions
    "bad_expression": Fault("E0120", "HALF: LANES // 2", "HALF: LANES //"),
    "nested_expression": Fault("E0120", "HALF: LANES // 2", f"HALF: {CHAIN}"),
    "brackets": Fault("E0120", "HALF: LANES // 2", f"HALF: {NESTED}"),
    "forbidden_construct": Fault("E0121", "HALF: LANES // 2", "HALF: LANES / 2"),
    "forbidden_text": Fault("E0121", "HALF: LANES // 2", "HALF: LANES // __import__('os')"),
    "argument_count": Fault("E0123", "HALF: LANES // 2", "HALF: clog2(LANES, 2)"),
    # types and memories
    "bad_type": Fault("E0110", "sum_t: i32[LANES]", "sum_t: i33[LANES]"),
    "unknown_type": Fault("E0110", "type: sum_t, depth", "type: som_t, depth"),
    "too_many_lanes": Fault("E0110", "sum_t: i32[LANES]", "sum_t: i32[LANES, 1 << 40]"),
    "record_overflow": Fault("E0111", "src: u4, bits: 16", "src: u13, bits: 16"),
    "view_map": Fault("E0112", "b * 2 + a", "b + a"),
    "view_map_lanes": Fault("E0112", "a b -> b * 2 + a", "a -> a"),
    "depth_zero": Fault("E0139", "type: code_t, depth: 16", "type: code_t, depth: 0"),
    "huge_memory": Fault("E0139", "depth: 1 << 16", "depth: 1 << 60"),
    "granule": Fault("E0139", "depth: 1 << 16", "depth: 1 << 16, granule: 3"),
    "host_and_latch": Fault("E0137", "scope: core, latches: SETUP", "scope: core, host: true, latches: SETUP"),
    "latches_nothing": Fault("E0107", "latches: SETUP", "latches: SETIP"),
    "unknown_scope": Fault("E0107", "kind: scratchpad, scope: core, type: row_t", "kind: scratchpad, scope: cure, type: row_t"),
    "two_stream_levels": Fault("E0138", "core: {count: 2, streams: true}", "core: {count: 2, streams: true}\n  lane: {count: 2, streams: true}"),
    "unknown_memory": Fault("E0107", "reads: [ddr, rows]", "reads: [ddr, row]"),
    # encoding
    "does_not_fit": Fault("E0113", "far: {bits: 32,", "far: {bits: 32, doc: x}\n        further: {bits: 1,"),
    "zero_width": Fault("E0114", "count: {bits: 6, minus: 1}", "count: {bits: 0, minus: 1}"),
    "place_outside": Fault("E0114", "{at: 0.15-8}", "{at: 0.32-8}"),
    "overlap": Fault("E0117", "{at: 0.15-8}", "{at: 0.16-8}"),
    "uncovered": Fault("E0118", "{at: 0.15-8}", "{at: 0.14-8}"),
    "match_too_wide": Fault("E0119", "match: {opcode: 3}", "match: {opcode: 19}"),
    "match_unknown_field": Fault("E0119", "match: {opcode: 3}", "match: {opcod: 3}"),
    "two_patterns": Fault("E0124", "match: {opcode: 3}", "match: {opcode: 1}"),
    "undecidable_length": Fault("E0125", "  SETUP:\n", PROBES),
    "bad_default": Fault("E0126", "post: {bits: 1, role: sync, default: 0}", "post: {bits: 1, role: sync, default: 2}"),
    "bad_symbol": Fault("E0127", "save: 1, code: 2}", "save: 1, code: 4}"),
    "unknown_parent": Fault("E0128", "short: {extends: header", "short: {extends: heade"),
    "forward_parent": Fault("E0128", "short: {extends: header", "short: {extends: long"),
    "circular_parent": Fault("E0128", "short: {extends: header", "short: {extends: short"),
    "unknown_format": Fault("E0107", "    format: setup", "    format: stup"),
    "positional": Fault("E0107", "positional: [opcode]", "positional: [opcod]"),
    "field_twice": Fault("E0145", "        kind: {bits: 2,", "        wait: {bits: 1}\n        kind: {bits: 2,"),
    "register_depth": Fault("E0139", "base: {kind: register, depth: 2", "base: {kind: register, depth: 1 << 16"),
    "rule_like_built_in": Fault("E0145", "  round: {rounding", "  round_floor: {rounding"),
    "field_like_parameter": Fault("E0145", "        rest: {at", "        HALF: {at"),
    # instructions
    "unknown_unit": Fault("E0107", "    unit: move\n", "    unit: mvoe\n"),
    "route_outside": Fault("E0129", "unit: calc if kind == 0 else move", "unit: kind + 2"),
    "unresolved_in_constraint": Fault("E0107", "that: kind <= 2", "that: knd <= 2"),
    "unknown_class": Fault("E0107", "    timing: calc\n", "    timing: clac\n"),
    "unknown_end": Fault("E0107", "ends: END", "ends: STOP"),
    "portable_instruction": Fault("E0107", "instructions: [SETUP]", "instructions: [SETAP]"),
    # synchronisation
    "no_counter": Fault("E0115", "wait: {calc: there,", "wait: {calc: their,"),
    "no_producer": Fault("E0130", "    post: {move: there, calc: back}", "    post: {move: there}"),
    "field_without_counter": Fault("E0131", "low: {at: 0.7-6}", "low: {at: 0.7-6, role: sync}"),
    "counter_without_field": Fault("E0131", "    wait: {calc: there", "    await: {calc: there"),
    "mask_too_long": Fault("E0132", "    wait: {calc: there, move: back}", "    wait: {mask: [move, calc], counter: there}"),
    "wrong_end": Fault("E0133", "{calc: there, move: back}", "{calc: back, move: there}"),
    "occupied_unit": Fault("E0107", "    timing: calc\n    semantics", "    timing: calc\n    occupies: [mvoe]\n    semantics"),
    "interlocked_memory": Fault("E0107", "  posts:\n", "  interlock: {memories: [ddr, sum]}\n  posts:\n"),
    "interlocked_unit": Fault("E0107", "  posts:\n", "  interlock: {pairs: [{from: move, to: clac}]}\n  posts:\n"),
    "fence": Fault("E0107", "  posts:\n", "  interlock: {fences: [ENDS]}\n  posts:\n"),
    "granularity": Fault("E0107", "  posts:\n", "  interlock: {granularity: {sum: 4}}\n  posts:\n"),
    "coupled": Fault("E0146", "  posts:\n", "  interlock: {pairs: [{from: calc, to: move, memories: [sums], lag: 1}]}\n  posts:\n"),
    "window": Fault("E0139", "  posts:\n", "  interlock: {window: -1}\n  posts:\n"),
    "sync_unit": Fault("E0107", "{calc: there, move: back}", "{clac: there, move: back}"),
    # timing
    "timing_name": Fault("E0107", "cycles: count + set.shift", "cycles: coutn + set.shift"),
    "timing_field": Fault("E0141", "none: {cycles: 1,", "none: {cycles: count,"),
    "unknown_resource": Fault("E0107", "transfers: {port:", "transfers: {prt:"),
    "timing_memory": Fault("E0107", "reads(ddr) + writes(ddr)", "reads(ddr) + writes(drr)"),
    # layouts
    "two_sources": Fault("E0135", "n c -> n, c // LANES, c % LANES", "n c -> n, c // LANES, c % HALF"),
    "outside_shape": Fault("E0135", '"ceil_div(C, LANES)"', "C // LANES + 0 * N + 1 - (C % LANES == 1)"),
    "inverse_missing": Fault("E0136", '    inverse: "n b l -> n, b * LANES + l"\n', ""),
    "inverse_wrong": Fault("E0136", "b * LANES + l", "b + l * LANES"),
    # what only the semantics tell
    "unresolved_in_semantics": Fault("E0202", "rows[k.src][c] *", "rows[k.scr][c] *"),
    "no_read_port": Fault("E0140", "calc: {reads: [rows, sums, codes]", "calc: {reads: [rows, sums]"),
    "no_write_port": Fault("E0140", "writes: [rows, codes, ddr]", "writes: [rows, ddr]"),
    "recursion": Fault("E0212", "      return x + x", "      return twice(x)"),
    "may_not_fit": Fault("E0220", "depth: 64, overflow: wrap", "depth: 64"),
    "data_as_address": Fault("E0211", "rows[at + i][c] = cut", "rows[sums[i][c]][c] = cut"),
    "statement": Fault("E0203", "          k = codes[i]", "          while 1: pass"),
    "semantics_syntax": Fault("E0201", "for i in range(count):\n          k", "for i in range(count:\n          k"),
}
