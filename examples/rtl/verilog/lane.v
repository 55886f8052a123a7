// One output channel: four products of a pixel's channels with its weights, then their sum onto the sum so far; or the larger of pixel and sum.
module lane (
    input wire clock,
    input wire [31:0] pixel,            // four channels
    input wire [31:0] weights,          // from these channels to this one
    input wire [7:0] own,               // the pixel's channel with this one's number
    // a cycle later
    input wire inside,
    input wire maximum,
    input wire first,
    input wire [31:0] begins,           // the sum before the first tap
    output wire [31:0] sum
);
    reg signed [15:0] product[0:3];
    reg [7:0] candidate;
    reg signed [31:0] so_far;

    function signed [15:0] wide(input [7:0] x);
        wide = {{8{x[7]}}, x};
    endfunction

    function signed [31:0] wider(input [15:0] x);
        wider = {{16{x[15]}}, x};
    endfunction

    integer c;
    always @(posedge clock) begin
        for (c = 0; c < 4; c = c + 1) product[c] <= wide(pixel[8*c+:8]) * wide(weights[8*c+:8]);
        candidate <= own;
        so_far <= sum;
    end

    wire signed [31:0] products = (wider(product[0]) + wider(product[1])) + (wider(product[2]) + wider(product[3]));
    wire signed [31:0] before = first ? begins : so_far;
    wire signed [31:0] other = wider(wide(candidate));

    assign sum = !inside ? before : !maximum ? before + products : other > before ? other : before;
endmodule
