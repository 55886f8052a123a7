// The tokens from one unit to another: the only thing that orders them.
module tokens (
    input wire clock,
    input wire reset,
    input wire post,
    input wire take,
    output wire none,
    output wire fault  // one more than it holds: nothing holds up the unit that posts, so the bench stops
);
    reg [7:0] count;

    assign none = count == 0;
    assign fault = post && !take && count == 8'hff;

    always @(posedge clock) begin
        if (reset) count <= 0;
        else if (post != take) count <= post ? count + 1 : count - 1;
    end
endmodule
