/* clib: kernels on int8 tensors with zero points, in C99 without allocation and without state.
 *
 * A stored q stands for (q - zero) * scale. A picture is stored pixel by pixel, rows one behind the other, the channels of a pixel
 * side by side; `pitch` is the number of bytes from one pixel to the next, which is more than its channels where it stands inside
 * another picture. All extents are counted in pixels and channels.
 *
 * Sums have 32 bits and never overflow: a compiler checks that before it emits a call. A sum becomes a stored integer by
 *
 *     y = clamp(floor(sum * multiplier / 2^shift + 1/2) + zero_y, low, high)
 *
 * with 0 <= multiplier < 2^31 and 0 <= shift <= 62. Several threads may call any function at the same time. */
#ifndef CLIB_H
#define CLIB_H

#include <stdint.h>

/* Convolution of a picture: the sum over i, u and v of
 * (x[p * sh + u * dh - pad_top, q * sw + v * dw - pad_left, i] - zero_x) * weight[o, u, v, i] + bias[o];
 * pixels outside x count as zero_x. The last three arrays have an entry for each output channel. */
struct clib_conv2d_arguments {
    const int8_t *x, *weight;
    const int32_t *bias, *multipliers, *shifts;
    int8_t *y;
    int32_t height, width, in_channels, x_pitch, out_height, out_width, out_channels, y_pitch;
    int32_t kh, kw, sh, sw, dh, dw, pad_top, pad_left, zero_x, zero_y, low, high;
};
void clib_conv2d(const struct clib_conv2d_arguments *a);

/* Convolution with one filter for each channel: weight[u, v, c]. */
struct clib_depthwise_arguments {
    const int8_t *x, *weight;
    const int32_t *bias, *multipliers, *shifts;
    int8_t *y;
    int32_t height, width, channels, x_pitch, out_height, out_width, y_pitch;
    int32_t kh, kw, sh, sw, dh, dw, pad_top, pad_left, zero_x, zero_y, low, high;
};
void clib_depthwise(const struct clib_depthwise_arguments *a);

/* The largest element of each window; pixels outside x count for none. */
struct clib_max_pool_arguments {
    const int8_t *x;
    int8_t *y;
    int32_t height, width, channels, x_pitch, out_height, out_width, y_pitch, kh, kw, sh, sw, dh, dw, pad_top, pad_left;
};
void clib_max_pool(const struct clib_max_pool_arguments *a);

/* The sum of each window, pixels outside x as zero_x, times `multiply`; the multiplier holds the division by the window's size. */
struct clib_average_pool_arguments {
    const int8_t *x;
    int8_t *y;
    int32_t height, width, channels, x_pitch, out_height, out_width, y_pitch, kh, kw, sh, sw, dh, dw, pad_top, pad_left;
    int32_t multiply, multiplier, shift, zero_x, zero_y, low, high;
};
void clib_average_pool(const struct clib_average_pool_arguments *a);

/* (x - zero_x) * multiply_x + (z - zero_z) * multiply_z, element by element. */
struct clib_add_arguments {
    const int8_t *x, *z;
    int8_t *y;
    int32_t pixels, channels, x_pitch, z_pitch, y_pitch, multiply_x, multiply_z, multiplier, shift, zero_x, zero_z, zero_y, low, high;
};
void clib_add(const struct clib_add_arguments *a);

/* (x - zero_x) * (z - zero_z), element by element; z has as many pixels as x, or one for all of them. */
struct clib_multiply_arguments {
    const int8_t *x, *z;
    int8_t *y;
    int32_t pixels, z_pixels, channels, x_pitch, z_pitch, y_pitch, multiplier, shift, zero_x, zero_z, zero_y, low, high;
};
void clib_multiply(const struct clib_multiply_arguments *a);

/* y = table[x + 128]. */
struct clib_table_arguments {
    const int8_t *x, *table;
    int8_t *y;
    int32_t pixels, channels, x_pitch, y_pitch;
};
void clib_table(const struct clib_table_arguments *a);

/* Every pixel factor_h by factor_w times. */
struct clib_upsample_arguments {
    const int8_t *x;
    int8_t *y;
    int32_t height, width, channels, x_pitch, y_pitch, factor_h, factor_w;
};
void clib_upsample(const struct clib_upsample_arguments *a);

#endif
