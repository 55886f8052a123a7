`include "fields.vh"
// WINDOW in three stages: read pixel and tile; multiply, and read the sum to begin with; add, and write after a result's last tap.
module compute (
    input wire clock,
    input wire reset,
    input wire start,
    input wire [127:0] instruction,
    output wire free,
    output wire idle,
    output wire [2:0] post,
    output wire read,
    output wire [9:0] pixel_address,
    output wire [8:0] tile_address,
    input wire [31:0] pixel,
    input wire [127:0] tile,
    output wire [5:0] vector_address,
    input wire [127:0] vector,
    output wire [9:0] sums_address,
    input wire [127:0] sums,
    output wire write,
    output wire [9:0] write_address,
    output wire [127:0] written
);
    wire inside, maximum, first, last, starts;
    wire [2:0] posts;
    wire [5:0] bias;
    wire [9:0] target;

    window loops (
        .clock(clock), .reset(reset), .start(start), .instruction(instruction), .free(free), .step(read), .inside(inside),
        .pixel_address(pixel_address), .tile_address(tile_address), .first(first), .last(last), .target(target),
        .maximum(maximum), .starts(starts), .vector(bias), .posts(posts)
    );

    // What goes with a tap through the stages.
    reg [24:0] multiplying;
    reg [18:0] adding;

    always @(posedge clock) begin
        multiplying <= reset ? 0 : {bias, read, inside, maximum, first, last, starts, posts, target};
        adding <= reset ? 0 : multiplying[18:0];
    end

    assign vector_address = multiplying[24:19];
    assign sums_address = multiplying[9:0];

    wire tap = adding[18], tap_inside = adding[17], tap_maximum = adding[16], tap_first = adding[15], tap_last = adding[14], tap_starts = adding[13];
    wire [127:0] begins = !tap_starts ? sums : tap_maximum ? {4{-32'sd128}} : vector;

    genvar o;
    generate
        for (o = 0; o < 4; o = o + 1) begin : channels
            lane channel (
                .clock(clock), .pixel(pixel), .weights(tile[32*o+:32]), .own(pixel[8*o+:8]), .inside(tap_inside), .maximum(tap_maximum),
                .first(tap_first), .begins(begins[32*o+:32]), .sum(written[32*o+:32])
            );
        end
    endgenerate

    assign write = tap && tap_last;
    assign write_address = adding[9:0];
    assign post = tap ? adding[12:10] : 3'b000;
    assign idle = !read && !multiplying[18] && !tap;
endmodule
