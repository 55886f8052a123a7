LOAD memory_type=inp sram_base=0 dram_base=256 y_size=1 x_size=1 x_stride=1
LOAD push_next=1 memory_type=wgt sram_base=0 dram_base=32 y_size=1 x_size=1 x_stride=1
LOAD memory_type=inp sram_base=1 dram_base=1536 y_size=6 x_size=6 x_stride=6 y_pad_0=1 y_pad_1=1 x_pad_0=1 x_pad_1=1
LOAD push_next=1 memory_type=wgt sram_base=1 dram_base=64 y_size=1 x_size=9 x_stride=9
LOAD memory_type=inp sram_base=65 dram_base=1572 y_size=6 x_size=6 x_stride=6 y_pad_0=1 y_pad_1=1 x_pad_0=1 x_pad_1=1
LOAD push_next=1 memory_type=wgt sram_base=10 dram_base=73 y_size=1 x_size=9 x_stride=9
LOAD memory_type=uop sram_base=0 dram_base=8192 y_size=1 x_size=109 x_stride=109
GEMM reset=1 uop_bgn=0 uop_end=1 iter_out=1 iter_in=36 dst_factor_out=0 dst_factor_in=1 src_factor_out=0 src_factor_in=0 wgt_factor_out=0 wgt_factor_in=0
GEMM pop_prev=1 uop_bgn=0 uop_end=1 iter_out=1 iter_in=36 dst_factor_out=36 dst_factor_in=1 src_factor_out=0 src_factor_in=0 wgt_factor_out=1 wgt_factor_in=0
GEMM pop_prev=1 uop_bgn=1 uop_end=55 iter_out=1 iter_in=6 dst_factor_out=0 dst_factor_in=1 src_factor_out=64 src_factor_in=1 wgt_factor_out=9 wgt_factor_in=0
GEMM pop_prev=1 uop_bgn=55 uop_end=109 iter_out=1 iter_in=6 dst_factor_out=0 dst_factor_in=1 src_factor_out=64 src_factor_in=1 wgt_factor_out=9 wgt_factor_in=0
ALU uop_bgn=0 uop_end=1 iter_out=1 iter_in=36 dst_factor_out=0 dst_factor_in=1 src_factor_out=0 src_factor_in=1 alu_opcode=shr use_imm=1 imm=9
ALU uop_bgn=0 uop_end=1 iter_out=1 iter_in=36 dst_factor_out=0 dst_factor_in=1 src_factor_out=0 src_factor_in=1 alu_opcode=max use_imm=1 imm=-128
ALU push_next=1 uop_bgn=0 uop_end=1 iter_out=1 iter_in=36 dst_factor_out=0 dst_factor_in=1 src_factor_out=0 src_factor_in=1 alu_opcode=min use_imm=1 imm=127
STORE pop_prev=1 push_prev=1 memory_type=out sram_base=0 dram_base=1792 y_size=1 x_size=36 x_stride=36
FINISH pop_next=1
