`include "fields.vh"
// A unit's instructions in order: the next one starts when the unit is free and every token that it waits for is there.
module issue (
    input wire clock,
    input wire reset,
    input wire push,
    input wire [127:0] pushed,
    input wire [2:0] post,     // from load, compute and store to this unit
    input wire free,           // the unit does not work in the next cycle, or not on what it has now
    output wire start,         // the unit takes `instruction` now and works on it from the next cycle on
    output wire [127:0] instruction,
    output wire full,
    output wire idle,
    output wire fault
);
    wire [2:0] waits = instruction[`ANY_WAIT];
    wire [2:0] none, faults;

    queue #(.WIDTH(128), .LOG_DEPTH(4)) instructions (
        .clock(clock), .reset(reset), .push(push), .pushed(pushed), .pop(start), .head(instruction), .empty(idle), .full(full)
    );

    tokens from[2:0] (.clock(clock), .reset(reset), .post(post), .take(waits & {3{start}}), .none(none), .fault(faults));

    assign start = free && !idle && (waits & none) == 0;
    assign fault = |faults;
endmodule
