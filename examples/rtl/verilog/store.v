`include "fields.vh"
// STORE: reads a sum, requantises its four channels, and writes them as one word; END: nothing.
module store (
    input wire clock,
    input wire reset,
    input wire start,
    input wire [127:0] instruction,
    output wire free,
    output wire idle,
    output wire [2:0] post,
    output wire read,
    output wire [9:0] sums_address,
    input wire [127:0] sums,
    output wire request,
    output reg [21:0] request_word,
    output reg [31:0] request_data,
    output reg request_last,
    input wire granted,
    input wire answer             // a word is written, in order
);
    reg reading, rounding, writing;          // the stages
    // verilator lint_off UNUSEDSIGNAL
    reg [127:0] now;                         // where it begins is not needed any more
    // verilator lint_on UNUSEDSIGNAL
    reg [9:0] place;
    reg [9:0] rows;
    reg [11:0] column;
    reg [21:0] row_word;

    wire row_ends = column == now[`STORE_LENGTH] - 1;
    wire no_room, nothing_written;
    wire asked = request && granted;
    wire moves = !writing || asked;          // the stages move on together

    assign request = writing && !no_room;
    assign read = reading && moves;
    assign sums_address = place;
    assign free = !(reading || rounding || writing) || (asked && request_last);
    assign idle = !(reading || rounding || writing) && nothing_written;

    // The word and whether it is the last go with the sum that is read.
    reg [21:0] word;
    reg last;
    wire [31:0] stored;

    genvar c;
    generate
        for (c = 0; c < 4; c = c + 1) begin : channels
            requantise channel (
                .sum(sums[32*c+:32]), .shift(now[`STORE_SHIFT]), .low(now[`STORE_LOW]), .high(now[`STORE_HIGH]), .stored(stored[8*c+:8])
            );
        end
    endgenerate

    always @(posedge clock) begin
        if (reset) {reading, rounding, writing} <= 0;
        else if (start) begin
            {reading, rounding, writing} <= {instruction[`ANY_OPCODE] == `IS_STORE, 2'b00};
            now <= instruction;
            place <= instruction[`STORE_PLACE];
            rows <= instruction[`STORE_ROWS];
            row_word <= instruction[`STORE_ADDRESS];
            column <= 0;
        end else if (moves) begin
            {rounding, writing} <= {reading, rounding};
            {request_word, request_data, request_last} <= {word, stored, last};
            {word, last} <= {row_word + {10'd0, column}, row_ends && rows == 1};
            if (reading) begin
                reading <= !(row_ends && rows == 1);
                place <= place + 1;
                column <= row_ends ? 0 : column + 1;
                if (row_ends) begin
                    rows <= rows - 1;
                    row_word <= row_word + now[`STORE_PITCH];
                end
            end
        end
    end

    // Tokens are posted when the last word is written, not when it is sent: a load may read it then.
    wire [2:0] known;

    queue #(.WIDTH(3), .LOG_DEPTH(6)) sent (
        .clock(clock), .reset(reset), .push(asked), .pushed(request_last ? now[`ANY_POST] : 3'b000),
        .pop(answer), .head(known), .empty(nothing_written), .full(no_room)
    );
    assign post = answer ? known : 3'b000;
endmodule
