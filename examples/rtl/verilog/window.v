`include "fields.vh"
// The loops of WINDOW: a tap of the kernel a cycle, with the addresses of its pixel and its tile.
module window (
    input wire clock,
    input wire reset,
    input wire start,
    input wire [127:0] instruction,
    output wire free,
    output reg step,                    // a tap in this cycle
    output wire inside,                 // its pixel is in the picture
    output wire [9:0] pixel_address,
    output reg [8:0] tile_address,
    output wire first, last,            // tap of a result
    output reg [9:0] target,            // of the result
    output wire maximum, starts,        // of the instruction
    output wire [5:0] vector,
    output wire [2:0] posts             // with its last tap
);
    // verilator lint_off UNUSEDSIGNAL
    reg [127:0] now;                    // where it begins and what it waits for are not needed any more
    // verilator lint_on UNUSEDSIGNAL
    wire [7:0] height = now[`WINDOW_HEIGHT], width = now[`WINDOW_WIDTH];
    wire [2:0] stride = now[`WINDOW_STRIDE], kernel_h = now[`WINDOW_KERNEL_H], kernel_w = now[`WINDOW_KERNEL_W];
    wire [8:0] blocks = now[`WINDOW_BLOCKS];
    wire [9:0] plane = now[`WINDOW_PLANE];
    wire [7:0] out_height = now[`WINDOW_OUT_HEIGHT], out_width = now[`WINDOW_OUT_WIDTH];

    // Counters of the loops, outermost first. Each has the address where its round begins; addresses of pixels that are outside wrap and are not used.
    reg [7:0] p, q;
    reg [8:0] b;
    reg [2:0] u, v;
    reg [9:0] row_at, result_at, block_at, line_at;
    reg signed [11:0] top, left;        // of the kernel in the picture, negative in the padding

    wire v_ends = v == kernel_w - 1;
    wire u_ends = v_ends && u == kernel_h - 1;
    wire b_ends = u_ends && b == blocks - 1;
    wire q_ends = b_ends && q == out_width - 1;
    wire p_ends = q_ends && p == out_height - 1;

    wire signed [11:0] h = top + $signed({9'd0, u}), w = left + $signed({9'd0, v});
    assign inside = h >= 0 && h < $signed({4'd0, height}) && w >= 0 && w < $signed({4'd0, width});
    assign pixel_address = line_at + {7'd0, v};
    assign first = v == 0 && u == 0 && b == 0;
    assign last = b_ends;
    assign maximum = now[`WINDOW_OPERATION] == `WINDOW_OPERATION_MAXIMUM;
    assign starts = now[`WINDOW_START];
    assign vector = now[`WINDOW_VECTOR];
    assign posts = p_ends ? now[`ANY_POST] : 3'b000;
    assign free = !step || p_ends;

    wire [9:0] next_line = line_at + {2'd0, width};
    wire [9:0] next_block = block_at + plane;
    wire [9:0] next_result = result_at + {7'd0, stride};
    wire [9:0] next_row = row_at + {7'd0, stride} * {2'd0, width};

    wire [2:0] before_h = instruction[`WINDOW_TOP], before_w = instruction[`WINDOW_LEFT];
    wire [9:0] begins = instruction[`WINDOW_SOURCE] - {7'd0, before_h} * {2'd0, instruction[`WINDOW_WIDTH]} - {7'd0, before_w};

    always @(posedge clock) begin
        if (reset) step <= 0;
        else if (start) begin
            step <= 1;
            now <= instruction;
            {p, q, b, u, v} <= 0;
            {row_at, result_at, block_at, line_at} <= {4{begins}};
            top <= -$signed({9'd0, before_h});
            left <= -$signed({9'd0, before_w});
            tile_address <= instruction[`WINDOW_WEIGHT];
            target <= instruction[`WINDOW_TARGET];
        end else if (step) begin
            step <= !p_ends;
            v <= v_ends ? 0 : v + 1;
            if (v_ends) u <= u_ends ? 0 : u + 1;
            if (u_ends) b <= b_ends ? 0 : b + 1;
            if (b_ends) q <= q_ends ? 0 : q + 1;
            if (q_ends) p <= p + 1;

            if (q_ends) {row_at, result_at, block_at, line_at} <= {4{next_row}};
            else if (b_ends) {result_at, block_at, line_at} <= {3{next_result}};
            else if (u_ends) {block_at, line_at} <= {2{next_block}};
            else if (v_ends) line_at <= next_line;

            if (q_ends) begin
                top <= top + $signed({9'd0, stride});
                left <= -$signed({9'd0, now[`WINDOW_LEFT]});
            end else if (b_ends) left <= left + $signed({9'd0, stride});

            tile_address <= b_ends ? now[`WINDOW_WEIGHT] : tile_address + 1;
            if (b_ends) target <= target + 1;
        end
    end
endmodule
