`include "fields.vh"
// Reads the program in order, an instruction a cycle, into the queues of the units; a full queue holds up all behind it.
module fetch (
    input wire clock,
    input wire reset,
    input wire [2:0] full,       // queues of load, compute, store
    output reg [2:0] push,
    output reg [127:0] instruction,
    output wire ended            // END was handed on
);
    localparam LOG_WORDS = 16;

    reg [63:0] words[0:(1<<LOG_WORDS)-1];  // as `tilewright cosim write` leaves them, two to an instruction
    reg [LOG_WORDS-2:0] next;
    reg valid, stopped;
    reg [8*1024-1:0] file;

    initial if ($value$plusargs("code=%s", file)) $readmemh(file, words);

    wire [1:0] opcode = instruction[`ANY_OPCODE];
    wire [2:0] unit = opcode == `IS_LOAD ? 3'b001 : opcode == `IS_WINDOW ? 3'b010 : 3'b100;
    wire pushed = |push;

    assign ended = stopped;
    always @* push = valid ? unit & ~full : 3'b000;

    always @(posedge clock) begin
        if (reset) begin
            next <= 0;
            valid <= 0;
            stopped <= 0;
        end else if (pushed && opcode == `IS_END) begin
            valid <= 0;
            stopped <= 1;
        end else if (!stopped && (!valid || pushed)) begin
            instruction <= {words[{next, 1'b1}], words[{next, 1'b0}]};
            next <= next + 1;
            valid <= 1;
        end
    end
endmodule
