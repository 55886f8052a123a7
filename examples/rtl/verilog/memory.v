// A memory with one write port and one read port; what it reads is there in the next cycle, and is held while `read` is low.
module memory #(
    parameter WIDTH = 32,
    parameter ADDRESS_BITS = 10
) (
    input wire clock,
    input wire write,
    input wire [ADDRESS_BITS-1:0] write_address,
    input wire [WIDTH-1:0] written,
    input wire read,
    input wire [ADDRESS_BITS-1:0] read_address,
    output reg [WIDTH-1:0] value
);
    reg [WIDTH-1:0] cells[0:(1<<ADDRESS_BITS)-1];

    always @(posedge clock) begin
        if (write) cells[write_address] <= written;
        if (read) value <= cells[read_address];
    end
endmodule
