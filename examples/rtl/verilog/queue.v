// A queue whose head shows: an entry can be taken in the cycle after it came.
module queue #(
    parameter WIDTH = 128,
    parameter LOG_DEPTH = 4
) (
    input wire clock,
    input wire reset,
    input wire push,
    input wire [WIDTH-1:0] pushed,
    input wire pop,
    output wire [WIDTH-1:0] head,
    output wire empty,
    output wire full
);
    reg [WIDTH-1:0] entries[0:(1<<LOG_DEPTH)-1];
    reg [LOG_DEPTH:0] first, next;  // one bit more than an address, to tell full from empty
    wire [LOG_DEPTH:0] held = next - first;

    assign head = entries[first[LOG_DEPTH-1:0]];
    assign empty = first == next;
    assign full = held[LOG_DEPTH];

    always @(posedge clock) begin
        if (push) entries[next[LOG_DEPTH-1:0]] <= pushed;
        first <= reset ? 0 : pop ? first + 1 : first;
        next <= reset ? 0 : push ? next + 1 : next;
    end
endmodule
