// From a sum to a stored byte: divided by a power of two, halves up, then clipped.
module requantise (
    input wire signed [31:0] sum,
    input wire [4:0] shift,
    input wire signed [7:0] low, high,
    output wire [7:0] stored
);
    wire signed [32:0] half = shift == 0 ? 33'sd0 : 33'sd1 <<< (shift - 1);
    wire signed [32:0] rounded = ($signed({sum[31], sum}) + half) >>> shift;  // one bit more, as half may carry
    wire signed [32:0] least = {{25{low[7]}}, low}, most = {{25{high[7]}}, high};

    wire signed [32:0] capped = rounded > most ? most : rounded;

    assign stored = capped < least ? low : capped[7:0];
endmodule
