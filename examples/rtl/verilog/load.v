`include "fields.vh"
// LOAD: asks DRAM for a word a cycle and goes on; the words come later, in order, and meet what the queue `coming` knows of them.
module load (
    input wire clock,
    input wire reset,
    input wire start,
    // verilator lint_off UNUSEDSIGNAL
    input wire [127:0] instruction,  // some of its fields are for STORE alone
    // verilator lint_on UNUSEDSIGNAL
    output wire free,
    output wire idle,
    output wire [2:0] post,
    // to DRAM
    output wire request,
    output wire [21:0] request_word,
    output wire request_last,    // of the instruction
    input wire granted,
    input wire answer,
    input wire [31:0] answer_word,
    // to the memories on chip: data, weights, vectors
    output wire [2:0] write,
    output wire [9:0] write_address,
    output wire [127:0] written
);
    reg busy;
    reg [1:0] memory;
    reg [2:0] posts;
    reg [9:0] place, rows;
    reg [13:0] row_words, column;   // words of a row, and of them those asked for
    reg [21:0] row_word, pitch;     // in words
    reg [1:0] lane;                 // which of the four words of a tile or of sums

    wire [1:0] which = instruction[`LOAD_MEMORY];
    wire pixels = which == `LOAD_MEMORY_DATA;  // elements of one word; the others have four
    wire [11:0] length = instruction[`LOAD_LENGTH];
    wire [21:0] address = instruction[`LOAD_ADDRESS];
    wire [21:0] distance = instruction[`LOAD_PITCH];

    wire row_ends = column == row_words - 1;
    wire element_ends = memory == `LOAD_MEMORY_DATA || lane == 3;
    wire no_room, nothing_comes;
    wire asked = request && granted;

    assign request = busy && !no_room;
    assign request_word = row_word + {8'd0, column};
    assign request_last = row_ends && rows == 1;
    assign free = !busy || (asked && request_last);
    assign idle = !busy && nothing_comes;

    always @(posedge clock) begin
        if (reset) busy <= 0;
        else if (start) begin
            busy <= 1;
            memory <= which;
            posts <= instruction[`ANY_POST];
            place <= instruction[`LOAD_PLACE];
            rows <= instruction[`LOAD_ROWS];
            row_words <= pixels ? {2'b0, length} : {length, 2'b0};
            row_word <= pixels ? address : {address[19:0], 2'b0};
            pitch <= pixels ? distance : {distance[19:0], 2'b0};
            column <= 0;
            lane <= 0;
        end else if (asked) begin
            busy <= !request_last;
            column <= row_ends ? 0 : column + 1;
            if (row_ends) begin
                rows <= rows - 1;
                row_word <= row_word + pitch;
            end
            lane <= lane + 1;
            if (element_ends) place <= place + 1;
        end
    end

    // What is known of a word that comes: its memory, its place, and the tokens to post with it.
    wire [2:0] into = !element_ends ? 3'b000 : memory == `LOAD_MEMORY_DATA ? 3'b001 : memory == `LOAD_MEMORY_WEIGHTS ? 3'b010 : 3'b100;
    wire [15:0] known;

    queue #(.WIDTH(16), .LOG_DEPTH(6)) coming (
        .clock(clock), .reset(reset), .push(asked), .pushed({into, place, request_last ? posts : 3'b000}),
        .pop(answer), .head(known), .empty(nothing_comes), .full(no_room)
    );

    reg [95:0] gathered;  // the words before the fourth

    always @(posedge clock) if (answer) gathered <= {answer_word, gathered[95:32]};

    assign write = answer ? known[15:13] : 3'b000;
    assign write_address = known[12:3];
    assign written = {answer_word, gathered};
    assign post = answer ? known[2:0] : 3'b000;
endmodule
