/* What a bundle's regions are to an execution provider of ONNX Runtime, and the part of ONNX Runtime's interface that it calls.
 *
 * ONNX Runtime keeps its functions in tables of pointers that only grow, so a function is its number in a table. The numbers are those of
 * onnxruntime_c_api.cc and ep_api.cc of ONNX Runtime 1.25, the structures those of version 23 of the interface; its own headers are not needed. */
#ifndef TILEWRIGHT_PROVIDER_H
#define TILEWRIGHT_PROVIDER_H

#include "tilewright.h"

#include <stdbool.h>

/* A tensor at a region's border: its sizes, and the bytes of one sample. */
struct tilewright_port {
    size_t rank, bytes;
    int64_t sizes[8];
};

/* A region of the bundle. state: bytes that it needs for one session, zeros at first. ports: inputs, then outputs.
 *
 * open: constants and program to their places. run: tensors in the order of ports. Both answer with 1, or with 0 where the device failed. */
struct tilewright_region {
    const char *name;
    size_t state, inputs, outputs;
    const struct tilewright_port *ports;
    int (*open)(void *state, const struct tilewright_bundle *bundle, char **command);
    int (*run)(void *state, void *const *tensors);
    void (*close)(void *state);
};

/* The bundle. manifest: the SHA-256 of its manifest, in hex. provider, version: what ONNX Runtime calls this provider. */
extern const struct tilewright_region tilewright_regions[];
extern const size_t tilewright_region_count;
extern const char tilewright_manifest[], tilewright_provider[], tilewright_version[];

enum { ORT_VERSION = 23, ORT_FAIL = 1, ORT_INT = 1, ORT_STRING = 5, ORT_CPU = 0 };

struct ort_value;
struct ort_node;
struct ort_graph;
struct ort_device;
struct ort_attribute;
struct ort_options;
struct ort_context;
struct ort_status;
struct ort_pairs;
struct ort_supported;
struct ort_ep_device;

typedef void (*ort_function)(void);

/* The functions of OrtApi, by their number. */
enum {
    CREATE_STATUS = 0,
    GET_TENSOR_MUTABLE_DATA = 51,
    CONTEXT_INPUT = 90,
    CONTEXT_OUTPUT = 91,
    RELEASE_STATUS = 93,
    HAS_OPTION = 237,
    GET_OPTION = 238,
    READ_ATTRIBUTE = 272,
    VALUE_NAME = 289,
    DEVICE_TYPE = 307,
    EP_API = 317,
    TENSOR_BYTES = 318,
    MODEL_PATH = 334,
    NODE_COUNT = 344,
    NODES = 345,
    OPERATOR = 350,
    INPUT_COUNT = 353,
    INPUTS = 354,
    OUTPUT_COUNT = 355,
    OUTPUTS = 356,
    ATTRIBUTE = 361
};

/* The functions of OrtEpApi. */
enum { CREATE_EP_DEVICE = 0, ADD_NODES_TO_FUSE = 2 };

struct ort_base {
    const ort_function *(*get)(uint32_t version);
    const char *(*version)(void);
};

/* OrtNodeComputeInfo. */
struct ort_compute {
    uint32_t version;
    struct ort_status *(*create)(struct ort_compute *self, void *context, void **state);
    struct ort_status *(*compute)(struct ort_compute *self, void *state, struct ort_context *context);
    void (*release)(struct ort_compute *self, void *state);
};

/* OrtEp; all that is optional is NULL. */
struct ort_ep {
    uint32_t version;
    const char *(*name)(const struct ort_ep *self);
    struct ort_status *(*capability)(struct ort_ep *self, const struct ort_graph *graph, struct ort_supported *supported);
    struct ort_status *(*compile)(struct ort_ep *self, const struct ort_graph **graphs, const struct ort_node **fused, size_t count,
                                  struct ort_compute **computes, struct ort_node **contexts);
    void (*release)(struct ort_ep *self, struct ort_compute **computes, size_t count);
    ort_function optional[8];
};

/* OrtEpFactory. */
struct ort_factory {
    uint32_t version;
    const char *(*name)(const struct ort_factory *self);
    const char *(*vendor)(const struct ort_factory *self);
    struct ort_status *(*devices)(struct ort_factory *self, const struct ort_device *const *given, size_t count, struct ort_ep_device **made, size_t most,
                                  size_t *found);
    struct ort_status *(*create)(struct ort_factory *self, const struct ort_device *const *devices, const struct ort_pairs *const *metadata, size_t count,
                                 const struct ort_options *options, const void *logger, struct ort_ep **ep);
    void (*destroy)(struct ort_factory *self, struct ort_ep *ep);
    uint32_t (*vendor_id)(const struct ort_factory *self);
    const char *(*provider_version)(const struct ort_factory *self);
    ort_function validate;
    struct ort_status *(*allocator)(struct ort_factory *self, const void *memory, const struct ort_pairs *options, void **allocator);
    void (*release_allocator)(struct ort_factory *self, void *allocator);
    struct ort_status *(*transfer)(struct ort_factory *self, void **transfer);
    bool (*has_streams)(const struct ort_factory *self);
    ort_function stream;
};

#endif
