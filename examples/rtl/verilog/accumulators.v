// Sums, written by compute and read by compute and by store: two copies, as a memory has one read port.
module accumulators (
    input wire clock,
    input wire write,
    input wire [9:0] write_address,
    input wire [127:0] written,
    input wire [9:0] compute_address,
    output wire [127:0] compute_value,
    input wire store_read,
    input wire [9:0] store_address,
    output wire [127:0] store_value
);
    wire [127:0] old;
    reg [127:0] newer;
    reg is_newer;

    memory #(.WIDTH(128), .ADDRESS_BITS(10)) for_compute (
        .clock(clock), .write(write), .write_address(write_address), .written(written),
        .read(1'b1), .read_address(compute_address), .value(old)
    );
    memory #(.WIDTH(128), .ADDRESS_BITS(10)) for_store (
        .clock(clock), .write(write), .write_address(write_address), .written(written),
        .read(store_read), .read_address(store_address), .value(store_value)
    );

    // An instruction may go on at once with a sum that the one before it writes in this cycle.
    always @(posedge clock) begin
        is_newer <= write && write_address == compute_address;
        newer <= written;
    end
    assign compute_value = is_newer ? newer : old;
endmodule
