// The port to DRAM: a word a cycle, and a whole instruction at a time; where both want to begin, store goes first.
module port (
    input wire clock,
    input wire reset,
    input wire load_request,
    input wire load_last,
    output wire load_granted,
    input wire store_request,
    input wire store_last,
    output wire store_granted,
    output wire request,
    output wire is_store,
    input wire ready
);
    reg held_by_load, held_by_store;

    assign is_store = held_by_store || (store_request && !held_by_load);
    assign request = is_store ? store_request : load_request;
    assign store_granted = is_store && ready;
    assign load_granted = !is_store && ready;

    always @(posedge clock) begin
        if (reset) {held_by_load, held_by_store} <= 0;
        else if (request && ready) begin
            held_by_load <= !is_store && !load_last;
            held_by_store <= is_store && !store_last;
        end
    end
endmodule
