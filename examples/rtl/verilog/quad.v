// The machine of quad.yaml: three units with queues of their own, which meet at tokens, four memories, and a port to DRAM.
module quad (
    input wire clock,
    input wire reset,
    // DRAM, in words of 32 bits: a request is taken where `ready`; reads answer in order, writes are done in order
    output wire request,
    output wire request_write,
    output wire [21:0] request_word,
    output wire [31:0] request_data,
    input wire ready,
    input wire read_answer,
    input wire [31:0] read_word,
    input wire write_answer,
    // for the test bench
    output wire [2:0] start,     // load, compute, store take an instruction
    output wire resting,         // no unit works, and DRAM owes nothing
    output wire done,
    output wire fault
);
    wire [2:0] push, full, free, empty, idle, faults;
    wire [127:0] fetched, load_instruction, compute_instruction, store_instruction;
    wire [2:0] load_posts, compute_posts, store_posts;
    wire ended;

    fetch program_in_order (.clock(clock), .reset(reset), .full(full), .push(push), .instruction(fetched), .ended(ended));

    issue load_issue (
        .clock(clock), .reset(reset), .push(push[0]), .pushed(fetched), .post({store_posts[0], compute_posts[0], load_posts[0]}), .free(free[0]),
        .start(start[0]), .instruction(load_instruction), .full(full[0]), .idle(empty[0]), .fault(faults[0])
    );
    issue compute_issue (
        .clock(clock), .reset(reset), .push(push[1]), .pushed(fetched), .post({store_posts[1], compute_posts[1], load_posts[1]}), .free(free[1]),
        .start(start[1]), .instruction(compute_instruction), .full(full[1]), .idle(empty[1]), .fault(faults[1])
    );
    issue store_issue (
        .clock(clock), .reset(reset), .push(push[2]), .pushed(fetched), .post({store_posts[2], compute_posts[2], load_posts[2]}), .free(free[2]),
        .start(start[2]), .instruction(store_instruction), .full(full[2]), .idle(empty[2]), .fault(faults[2])
    );

    wire load_request, load_last, load_granted, store_request, store_last, store_granted;
    wire [21:0] load_word, store_word;

    port dram (
        .clock(clock), .reset(reset), .load_request(load_request), .load_last(load_last), .load_granted(load_granted),
        .store_request(store_request), .store_last(store_last), .store_granted(store_granted),
        .request(request), .is_store(request_write), .ready(ready)
    );
    assign request_word = request_write ? store_word : load_word;

    wire [2:0] write;
    wire [9:0] write_address, pixel_address;
    wire [9:0] compute_sums, store_sums, sums_written;
    wire [8:0] tile_address;
    wire [5:0] vector_address;
    wire [31:0] pixel;
    wire [127:0] written, tile, vector, compute_value, store_value, sums;
    wire read_operands, read_sums, write_sums;

    load load_unit (
        .clock(clock), .reset(reset), .start(start[0]), .instruction(load_instruction), .free(free[0]), .idle(idle[0]), .post(load_posts),
        .request(load_request), .request_word(load_word), .request_last(load_last), .granted(load_granted),
        .answer(read_answer), .answer_word(read_word), .write(write), .write_address(write_address), .written(written)
    );
    compute compute_unit (
        .clock(clock), .reset(reset), .start(start[1]), .instruction(compute_instruction), .free(free[1]), .idle(idle[1]), .post(compute_posts),
        .read(read_operands), .pixel_address(pixel_address), .tile_address(tile_address), .pixel(pixel), .tile(tile),
        .vector_address(vector_address), .vector(vector), .sums_address(compute_sums), .sums(compute_value),
        .write(write_sums), .write_address(sums_written), .written(sums)
    );
    store store_unit (
        .clock(clock), .reset(reset), .start(start[2]), .instruction(store_instruction), .free(free[2]), .idle(idle[2]), .post(store_posts),
        .read(read_sums), .sums_address(store_sums), .sums(store_value),
        .request(store_request), .request_word(store_word), .request_data(request_data), .request_last(store_last), .granted(store_granted),
        .answer(write_answer)
    );

    memory #(.WIDTH(32), .ADDRESS_BITS(10)) data (
        .clock(clock), .write(write[0]), .write_address(write_address), .written(written[127:96]),
        .read(read_operands), .read_address(pixel_address), .value(pixel)
    );
    memory #(.WIDTH(128), .ADDRESS_BITS(9)) weights (
        .clock(clock), .write(write[1]), .write_address(write_address[8:0]), .written(written),
        .read(read_operands), .read_address(tile_address), .value(tile)
    );
    memory #(.WIDTH(128), .ADDRESS_BITS(6)) vectors (
        .clock(clock), .write(write[2]), .write_address(write_address[5:0]), .written(written),
        .read(1'b1), .read_address(vector_address), .value(vector)
    );
    accumulators acc (
        .clock(clock), .write(write_sums), .write_address(sums_written), .written(sums),
        .compute_address(compute_sums), .compute_value(compute_value),
        .store_read(read_sums), .store_address(store_sums), .store_value(store_value)
    );

    assign resting = &idle;
    assign done = ended && &empty && resting;
    assign fault = |faults;
endmodule
