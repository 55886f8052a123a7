/* clib32: operators of ONNX on float32 tensors, in C99 without allocation and without state.
 *
 * Tensors stand in memory in the order of their axes, the last one fastest. Operands that an operator may leave out are NULL.
 * Arrays of six extents or steps begin with ones and zeros where a tensor has fewer axes. Every result is the sum of its terms in
 * one fixed order, so that all compilers that follow C99 give the same bytes. Several threads may call any function at once. */
#ifndef CLIB32_H
#define CLIB32_H

#include <stddef.h>
#include <stdint.h>

#define CLIB32_AXES 6
#define CLIB32_VALUES 8

/* Convolution of pictures; w is [out_channels, in_channels / groups, kh, kw], b has an entry for each output channel. */
struct clib32_conv_arguments {
    const float *x, *w, *b;
    float *y;
    int32_t batch, groups, in_channels, height, width, out_channels, out_height, out_width;
    int32_t kh, kw, sh, sw, dh, dw, pad_top, pad_left;
};
void clib32_conv(const struct clib32_conv_arguments *a);

/* Transposed convolution; w is [in_channels, out_channels / groups, kh, kw]. */
struct clib32_conv_transpose_arguments {
    const float *x, *w, *b;
    float *y;
    int32_t batch, groups, in_channels, height, width, out_channels, out_height, out_width;
    int32_t kh, kw, sh, sw, dh, dw, pad_top, pad_left;
};
void clib32_conv_transpose(const struct clib32_conv_transpose_arguments *a);

/* alpha * x * w + beta * c; x is [m, k], or [k, m] with trans_x, w likewise; c_steps: elements of c from row to row and column to column. */
struct clib32_gemm_arguments {
    const float *x, *w, *c;
    float *y;
    int32_t m, n, k, trans_x, trans_w, c_steps[2];
    float alpha, beta;
};
void clib32_gemm(const struct clib32_gemm_arguments *a);

/* Products of matrices, [m, k] by [k, n], for each point of the first four extents. */
struct clib32_matmul_arguments {
    const float *x, *w;
    float *y;
    int32_t m, n, k, extents[CLIB32_AXES], x_steps[CLIB32_AXES], w_steps[CLIB32_AXES];
};
void clib32_matmul(const struct clib32_matmul_arguments *a);

/* Pooling of each plane; pixels outside x count for none, in averages as zeros with count_padding, those outside the padding never. A window without
 * a pixel has the average 0 and the least number as the largest, as in ONNX Runtime. */
struct clib32_pool_arguments {
    const float *x;
    float *y;
    int32_t planes, height, width, out_height, out_width, kh, kw, sh, sw, dh, dw, pad_top, pad_left, pad_bottom, pad_right, average, count_padding;
};
void clib32_pool(const struct clib32_pool_arguments *a);

/* The mean or the largest of each of `rows` rows of `count` elements. */
#define clib32_mean_arguments clib32_rows_arguments
#define clib32_largest_arguments clib32_rows_arguments
struct clib32_rows_arguments {
    const float *x;
    float *y;
    int32_t rows, count;
};
void clib32_mean(const struct clib32_rows_arguments *a);
void clib32_largest(const struct clib32_rows_arguments *a);

/* The sum, the mean or the largest along `count` axes, negative ones from the end, or along all where it is 0. */
enum { CLIB32_SUM, CLIB32_MEAN, CLIB32_MAX };
struct clib32_reduce_arguments {
    const float *x;
    float *y;
    int32_t kind, rank, sizes[CLIB32_AXES], count;
    int64_t axes[CLIB32_VALUES];
};
void clib32_reduce(const struct clib32_reduce_arguments *a);

/* (x - mean) / sqrt(variance + epsilon) * scale + bias, by channel. */
struct clib32_batch_norm_arguments {
    const float *x, *scale, *bias, *mean, *variance;
    float *y;
    int32_t batch, channels, count;
    float epsilon;
};
void clib32_batch_norm(const struct clib32_batch_norm_arguments *a);

/* Each row by its own mean and variance, then times scale, plus bias. */
struct clib32_layer_norm_arguments {
    const float *x, *scale, *bias;
    float *y;
    int32_t rows, count;
    float epsilon;
};
void clib32_layer_norm(const struct clib32_layer_norm_arguments *a);

/* Over the middle one of three axes; logarithmic: its logarithm. */
struct clib32_softmax_arguments {
    const float *x;
    float *y;
    int32_t before, at, after, logarithmic;
};
void clib32_softmax(const struct clib32_softmax_arguments *a);

/* A function of each element; alpha and beta as ONNX calls them, least and most NULL or one number. */
#define clib32_relu_arguments clib32_unary_arguments
#define clib32_leaky_relu_arguments clib32_unary_arguments
#define clib32_elu_arguments clib32_unary_arguments
#define clib32_selu_arguments clib32_unary_arguments
#define clib32_clip_arguments clib32_unary_arguments
#define clib32_sigmoid_arguments clib32_unary_arguments
#define clib32_hard_sigmoid_arguments clib32_unary_arguments
#define clib32_hard_swish_arguments clib32_unary_arguments
#define clib32_softplus_arguments clib32_unary_arguments
#define clib32_tanh_arguments clib32_unary_arguments
#define clib32_erf_arguments clib32_unary_arguments
#define clib32_gelu_arguments clib32_unary_arguments
#define clib32_exp_arguments clib32_unary_arguments
#define clib32_log_arguments clib32_unary_arguments
#define clib32_sqrt_arguments clib32_unary_arguments
#define clib32_abs_arguments clib32_unary_arguments
#define clib32_neg_arguments clib32_unary_arguments
struct clib32_unary_arguments {
    const float *x, *least, *most;
    float *y;
    int32_t count;
    float alpha, beta;
};
typedef void clib32_unary(const struct clib32_unary_arguments *a);
clib32_unary clib32_relu, clib32_leaky_relu, clib32_elu, clib32_selu, clib32_clip, clib32_sigmoid, clib32_hard_sigmoid, clib32_hard_swish;
clib32_unary clib32_softplus, clib32_tanh, clib32_erf, clib32_gelu, clib32_exp, clib32_log, clib32_sqrt, clib32_abs, clib32_neg;

/* A function of two tensors, element by element; steps: elements from one to the next along each axis, 0 where it is repeated. */
#define clib32_add_arguments clib32_binary_arguments
#define clib32_sub_arguments clib32_binary_arguments
#define clib32_mul_arguments clib32_binary_arguments
#define clib32_div_arguments clib32_binary_arguments
#define clib32_pow_arguments clib32_binary_arguments
#define clib32_min_arguments clib32_binary_arguments
#define clib32_max_arguments clib32_binary_arguments
#define clib32_prelu_arguments clib32_binary_arguments
struct clib32_binary_arguments {
    const float *x, *z;
    float *y;
    int32_t extents[CLIB32_AXES], x_steps[CLIB32_AXES], z_steps[CLIB32_AXES];
};
typedef void clib32_binary(const struct clib32_binary_arguments *a);
clib32_binary clib32_add, clib32_sub, clib32_mul, clib32_div, clib32_pow, clib32_min, clib32_max, clib32_prelu;

/* Rows of `count` tensors one behind the other; lengths: elements of each in a row. */
struct clib32_concat_arguments {
    const float *const *x;
    float *y;
    int32_t count, rows, lengths[CLIB32_AXES];
};
void clib32_concat(const struct clib32_concat_arguments *a);

/* The same elements. */
struct clib32_copy_arguments {
    const float *x;
    float *y;
    int32_t count;
};
void clib32_copy(const struct clib32_copy_arguments *a);

/* Axis k of y is axis perm[k] of x, whose sizes are given; the order of axes turned round where perm is zeros. */
struct clib32_transpose_arguments {
    const float *x;
    float *y;
    int32_t rank, sizes[CLIB32_AXES], perm[CLIB32_AXES];
};
void clib32_transpose(const struct clib32_transpose_arguments *a);

/* Every pixel of each plane factor_h by factor_w times. */
struct clib32_upsample_arguments {
    const float *x;
    float *y;
    int32_t planes, height, width, factor_h, factor_w;
};
void clib32_upsample(const struct clib32_upsample_arguments *a);

/* y with the elements of x in its middle, `value` or zero around; `before` may be negative. */
struct clib32_pad_arguments {
    const float *x, *value;
    float *y;
    int32_t rank, sizes[CLIB32_AXES], out_sizes[CLIB32_AXES], before[CLIB32_AXES];
};
void clib32_pad(const struct clib32_pad_arguments *a);

/* Every steps[j]-th element from starts[j] on along axes[j]; without axes along the first `count`. As in ONNX, negative numbers count from the end. */
struct clib32_slice_arguments {
    const float *x;
    float *y;
    int32_t rank, sizes[CLIB32_AXES], out_sizes[CLIB32_AXES], count, has_axes, has_steps;
    int64_t starts[CLIB32_VALUES], axes[CLIB32_VALUES], steps[CLIB32_VALUES];
};
void clib32_slice(const struct clib32_slice_arguments *a);

#endif
