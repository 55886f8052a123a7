/* An execution provider of ONNX Runtime, as a plug-in: it takes a bundle's EPContext nodes and runs its regions.
 *
 * A session has a provider of its own, which opens the bundle when the nodes are compiled: the one that the first of them names or holds.
 * Runs of one node come one after the other. The option `command` starts a device's process: words with a space between them. */
#include "tilewright_provider.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#if defined(__GNUC__)
#define EXPORTED __attribute__((visibility("default")))
#else
#define EXPORTED
#endif

enum { WORDS = 64, LONGEST = 4096, PORTS = 256 };

typedef struct ort_status *status;

/* A function of a table with its type: `CALL(status, NODES, const struct ort_node **, size_t)(...)`. */
static const ort_function *api, *ep_api;
#define FUNCTION(table, number, result, ...) ((result (*)(__VA_ARGS__))(table)[number])
#define CALL(number, ...) FUNCTION(api, number, status, __VA_ARGS__)
#define TRY(expression) \
    do { \
        const status tried = (expression); \
        if (tried) return tried; \
    } while (0)

struct provider {
    struct ort_ep ep;
    char words[LONGEST], *command[WORDS + 1];
};

/* A compiled node. order: of each input of the region the place among the node's. */
struct compiled {
    struct ort_compute compute;
    const struct tilewright_region *region;
    pthread_mutex_t lock;
    int opened;
    size_t order[PORTS];
    void *state;
};

static status failed(const char *text)
{
    return FUNCTION(api, CREATE_STATUS, status, int, const char *)(ORT_FAIL, text);
}

static void forget(status found)
{
    if (found) FUNCTION(api, RELEASE_STATUS, void, status)(found);
}

/* An attribute and a closing zero, NULL where the node has none of that type. bytes: as ONNX Runtime counts them, some versions with the zero. */
static char *text_of(const struct ort_node *node, const char *name, size_t *bytes)
{
    const struct ort_attribute *found = NULL;
    const status missing = CALL(ATTRIBUTE, const struct ort_node *, const char *, const struct ort_attribute **)(node, name, &found);
    forget(missing);
    if (missing || !found) return NULL;
    char none = 0;
    size_t room = 0;
    forget(CALL(READ_ATTRIBUTE, const struct ort_attribute *, int, void *, size_t, size_t *)(found, ORT_STRING, &none, 1, &room));
    char *const text = calloc(room + 1, 1);
    if (!text) return NULL;
    const status unread = CALL(READ_ATTRIBUTE, const struct ort_attribute *, int, void *, size_t, size_t *)(found, ORT_STRING, text, room + 1, bytes);
    forget(unread);
    if (unread) return free(text), NULL;
    return text;
}

static int64_t number_of(const struct ort_node *node, const char *name)
{
    const struct ort_attribute *found = NULL;
    int64_t number = 0;
    size_t bytes;
    const status missing = CALL(ATTRIBUTE, const struct ort_node *, const char *, const struct ort_attribute **)(node, name, &found);
    forget(missing);
    if (!missing && found) forget(CALL(READ_ATTRIBUTE, const struct ort_attribute *, int, void *, size_t, size_t *)(found, ORT_INT, &number, sizeof number, &bytes));
    return number;
}

static int is(const struct ort_node *node, const char *attribute, const char *wanted)
{
    size_t bytes;
    char *const text = text_of(node, attribute, &bytes);
    const int same = text && !strcmp(text, wanted);
    free(text);
    return same;
}

/* The region that a node stands for, NULL where it is none of this bundle's. */
static const struct tilewright_region *region_of(const struct ort_node *node)
{
    const char *type = NULL;
    size_t inputs, outputs;
    forget(CALL(OPERATOR, const struct ort_node *, const char **)(node, &type));
    if (!type || strcmp(type, "EPContext") || !is(node, "source", "tilewright") || !is(node, "notes", tilewright_manifest)) return NULL;
    if (CALL(INPUT_COUNT, const struct ort_node *, size_t *)(node, &inputs) || CALL(OUTPUT_COUNT, const struct ort_node *, size_t *)(node, &outputs)) return NULL;
    for (size_t k = 0; k < tilewright_region_count; k++) {
        const struct tilewright_region *const region = tilewright_regions + k;
        if (is(node, "partition_name", region->name)) return inputs == region->inputs && outputs == region->outputs ? region : NULL;
    }
    return NULL;
}

/* All nodes of a graph, which the caller frees. */
static status nodes_of(const struct ort_graph *graph, const struct ort_node ***nodes, size_t *count)
{
    TRY(CALL(NODE_COUNT, const struct ort_graph *, size_t *)(graph, count));
    *nodes = calloc(*count + 1, sizeof **nodes);
    if (!*nodes) return failed("no memory");
    const status found = CALL(NODES, const struct ort_graph *, const struct ort_node **, size_t)(graph, *nodes, *count);
    if (found) free(*nodes);
    return found;
}

static status capability(struct ort_ep *self, const struct ort_graph *graph, struct ort_supported *supported)
{
    (void)self;
    const struct ort_node **nodes;
    size_t count;
    TRY(nodes_of(graph, &nodes, &count));
    status found = NULL;
    for (size_t k = 0; !found && k < count; k++)
        if (region_of(nodes[k]))
            found = FUNCTION(ep_api, ADD_NODES_TO_FUSE, status, struct ort_supported *, const struct ort_node *const *, size_t, const void *)(supported, nodes + k, 1, NULL);
    free(nodes);
    return found;
}

/* The folder of the model's file, with its stroke, before a relative path. */
static char *beside(const struct ort_graph *graph, const char *path)
{
    const char *model = NULL;
    forget(CALL(MODEL_PATH, const struct ort_graph *, const char **)(graph, &model));
    const char *const stroke = model && *path != '/' ? strrchr(model, '/') : NULL;
    const size_t folder = stroke ? (size_t)(stroke - model) + 1 : 0, bytes = strlen(path) + 1;
    char *const joined = malloc(folder + bytes);
    if (joined) memcpy(joined, folder ? model : "", folder), memcpy(joined + folder, path, bytes);
    return joined;
}

/* Opens the bundle of the node that says where it is. held: what is to be freed once the bundle is closed. */
static status open_bundle(const struct ort_graph *graph, const struct ort_node *node, struct tilewright_bundle *bundle, char **held)
{
    size_t bytes, with_zero;
    char *const context = text_of(node, "ep_cache_context", &bytes), *const source = text_of(node, "source", &with_zero);
    if (!context || !source) return free(context), free(source), failed("tilewright: the first EPContext node neither names nor holds its bundle");
    with_zero -= strlen(source);
    free(source);
    if (number_of(node, "embed_mode")) {
        *held = context;
        bytes -= bytes ? with_zero : 0;
        return tilewright_open_memory(bundle, context, bytes, tilewright_manifest) ? NULL : failed("tilewright: the model holds another bundle");
    }
    *held = beside(graph, context);
    free(context);
    if (!*held) return failed("no memory");
    return tilewright_open_bundle(bundle, *held, tilewright_manifest) ? NULL : failed("tilewright: the bundle that the model names cannot be opened, or is another one");
}

static status names_of(const struct ort_node *node, const char **names, size_t count)
{
    const void *values[PORTS];
    if (count > PORTS) return failed("tilewright: a node has too many tensors");
    TRY(CALL(INPUTS, const struct ort_node *, const void **, size_t)(node, values, count));
    for (size_t k = 0; k < count; k++) TRY(CALL(VALUE_NAME, const void *, const char **)(values[k], names + k));
    return NULL;
}

/* Where each of the node's inputs stands among those of the fused node that ONNX Runtime runs in its place. */
static status match(const struct ort_node *node, const struct ort_node *fused, struct compiled *made)
{
    const char *wanted[PORTS], *given[PORTS];
    size_t count;
    TRY(CALL(INPUT_COUNT, const struct ort_node *, size_t *)(fused, &count));
    TRY(names_of(fused, given, count));
    TRY(names_of(node, wanted, made->region->inputs));
    for (size_t k = 0; k < made->region->inputs; k++) {
        size_t place = 0;
        while (place < count && strcmp(given[place], wanted[k])) place++;
        if (place == count) return failed("tilewright: an input of a node is missing");
        made->order[k] = place;
    }
    return NULL;
}

static status create_state(struct ort_compute *self, void *context, void **state)
{
    (void)context;
    *state = self;
    return NULL;
}

static void release_state(struct ort_compute *self, void *state)
{
    (void)self, (void)state;
}

/* The place of a tensor of so many bytes. */
static status data_of(struct ort_value *value, size_t bytes, void **place)
{
    size_t found = 0;
    TRY(CALL(TENSOR_BYTES, const struct ort_value *, size_t *)(value, &found));
    if (found != bytes) return failed("tilewright: a tensor of the model has another size or type than the region's");
    return CALL(GET_TENSOR_MUTABLE_DATA, struct ort_value *, void **)(value, place);
}

static status compute(struct ort_compute *self, void *state, struct ort_context *context)
{
    (void)state;
    struct compiled *const made = (struct compiled *)self;
    const struct tilewright_region *const region = made->region;
    void *tensors[2 * PORTS];
    for (size_t k = 0; k < region->inputs; k++) {
        struct ort_value *value = NULL;
        TRY(CALL(CONTEXT_INPUT, const struct ort_context *, size_t, struct ort_value **)(context, made->order[k], &value));
        TRY(data_of(value, region->ports[k].bytes, tensors + k));
    }
    for (size_t k = 0; k < region->outputs; k++) {
        const struct tilewright_port *const port = region->ports + region->inputs + k;
        struct ort_value *value = NULL;
        TRY(CALL(CONTEXT_OUTPUT, struct ort_context *, size_t, const int64_t *, size_t, struct ort_value **)(context, k, port->sizes, port->rank, &value));
        TRY(data_of(value, port->bytes, tensors + region->inputs + k));
    }
    pthread_mutex_lock(&made->lock);
    const int done = region->run(made->state, tensors);
    pthread_mutex_unlock(&made->lock);
    return done ? NULL : failed("tilewright: the device has failed; standard error says why");
}

static void release(struct ort_ep *self, struct ort_compute **computes, size_t count)
{
    (void)self;
    for (size_t k = 0; k < count; k++) {
        struct compiled *const made = (struct compiled *)computes[k];
        computes[k] = NULL;
        if (!made) continue;
        if (made->opened) made->region->close(made->state);
        pthread_mutex_destroy(&made->lock);
        free(made->state);
        free(made);
    }
}

/* A node with its constants in place. */
static status compiled_node(struct provider *self, const struct ort_node *node, const struct ort_node *fused, const struct tilewright_bundle *bundle,
                            struct ort_compute **compute_info)
{
    struct compiled *const made = calloc(1, sizeof *made);
    if (!made) return failed("no memory");
    *compute_info = &made->compute;
    pthread_mutex_init(&made->lock, NULL);
    made->compute = (struct ort_compute){ ORT_VERSION, create_state, compute, release_state };
    made->region = region_of(node);
    if (!made->region || made->region->inputs > PORTS || made->region->outputs > PORTS) return failed("tilewright: a node is no region of the bundle");
    made->state = calloc(1, made->region->state);
    if (!made->state) return failed("no memory");
    TRY(match(node, fused, made));
    made->opened = 1;
    if (!made->region->open(made->state, bundle, self->command)) return failed("tilewright: a region does not open; standard error says why");
    return NULL;
}

static status compile_with(struct provider *self, const struct ort_graph **graphs, const struct ort_node **nodes, const struct ort_node **fused, size_t count,
                           struct ort_compute **computes)
{
    struct tilewright_bundle bundle = { 0 };
    char *held = NULL;
    size_t first = 0;
    while (first < count && !number_of(nodes[first], "main_context")) first++;
    if (first == count) return failed("tilewright: no EPContext node says where its bundle is");
    status found = open_bundle(graphs[first], nodes[first], &bundle, &held);
    for (size_t k = 0; !found && k < count; k++) found = compiled_node(self, nodes[k], fused[k], &bundle, computes + k);
    if (bundle.file) tilewright_close_bundle(&bundle);
    free(held);
    if (found) release(&self->ep, computes, count);
    return found;
}

static status compile(struct ort_ep *self, const struct ort_graph **graphs, const struct ort_node **fused, size_t count, struct ort_compute **computes,
                      struct ort_node **contexts)
{
    (void)contexts;
    const struct ort_node **const nodes = calloc(count + 1, sizeof *nodes);
    if (!nodes) return failed("no memory");
    status found = NULL;
    for (size_t k = 0; !found && k < count; k++) {
        const struct ort_node **inner;
        size_t inside;
        found = nodes_of(graphs[k], &inner, &inside);
        if (found) break;
        if (inside == 1) nodes[k] = inner[0];
        else found = failed("tilewright: a region is one node");
        free(inner);
    }
    if (!found) found = compile_with((struct provider *)self, graphs, nodes, fused, count, computes);
    free(nodes);
    return found;
}

static const char *ep_name(const struct ort_ep *self)
{
    (void)self;
    return tilewright_provider;
}

static const char *factory_name(const struct ort_factory *self)
{
    (void)self;
    return tilewright_provider;
}

static const char *vendor(const struct ort_factory *self)
{
    (void)self;
    return "tilewright";
}

static uint32_t vendor_id(const struct ort_factory *self)
{
    (void)self;
    return 0;
}

static const char *provider_version(const struct ort_factory *self)
{
    (void)self;
    return tilewright_version;
}

/* The processor stands for the machine: tensors are in its memory, and the regions' way to their device is their own. */
static status devices(struct ort_factory *self, const struct ort_device *const *given, size_t count, struct ort_ep_device **made, size_t most, size_t *found)
{
    *found = 0;
    for (size_t k = 0; k < count && *found < most && !*found; k++) {
        if (FUNCTION(api, DEVICE_TYPE, int, const struct ort_device *)(given[k]) != ORT_CPU) continue;
        TRY(FUNCTION(ep_api, CREATE_EP_DEVICE, status, struct ort_factory *, const struct ort_device *, const struct ort_pairs *, const struct ort_pairs *,
                     struct ort_ep_device **)(self, given[k], NULL, NULL, made + *found));
        ++*found;
    }
    return NULL;
}

/* The words of the option `command`. */
static status read_command(struct provider *made, const struct ort_options *options)
{
    char key[LONGEST];
    int there = 0;
    size_t room = sizeof made->words, count = 0;
    snprintf(key, sizeof key, "ep.%s.command", tilewright_provider);
    TRY(CALL(HAS_OPTION, const struct ort_options *, const char *, int *)(options, key, &there));
    if (there) TRY(CALL(GET_OPTION, const struct ort_options *, const char *, char *, size_t *)(options, key, made->words, &room));
    for (char *word = strtok(made->words, " "); word; word = strtok(NULL, " ")) {
        if (count == WORDS) return failed("tilewright: the option 'command' has too many words");
        made->command[count++] = word;
    }
    return NULL;
}

static status create(struct ort_factory *self, const struct ort_device *const *given, const struct ort_pairs *const *metadata, size_t count,
                     const struct ort_options *options, const void *logger, struct ort_ep **ep)
{
    (void)self, (void)given, (void)metadata, (void)count, (void)logger;
    struct provider *const made = calloc(1, sizeof *made);
    if (!made) return failed("no memory");
    made->ep = (struct ort_ep){ .version = ORT_VERSION, .name = ep_name, .capability = capability, .compile = compile, .release = release };
    const status found = read_command(made, options);
    if (found) free(made);
    else *ep = &made->ep;
    return found;
}

static void destroy(struct ort_factory *self, struct ort_ep *ep)
{
    (void)self;
    free(ep);
}

static status allocator(struct ort_factory *self, const void *memory, const struct ort_pairs *options, void **made)
{
    (void)self, (void)memory, (void)options;
    *made = NULL;
    return NULL;
}

static void release_allocator(struct ort_factory *self, void *held)
{
    (void)self, (void)held;
}

static status transfer(struct ort_factory *self, void **made)
{
    (void)self;
    *made = NULL;
    return NULL;
}

static bool has_streams(const struct ort_factory *self)
{
    (void)self;
    return false;
}

static struct ort_factory factory = {
    ORT_VERSION, factory_name, vendor, devices, create, destroy, vendor_id, provider_version, NULL, allocator, release_allocator, transfer, has_streams, NULL,
};

/* ONNX Runtime calls these two. */
EXPORTED status CreateEpFactories(const char *name, const struct ort_base *base, const void *logger, struct ort_factory **factories, size_t most, size_t *count);
EXPORTED status ReleaseEpFactory(struct ort_factory *given);

status CreateEpFactories(const char *name, const struct ort_base *base, const void *logger, struct ort_factory **factories, size_t most, size_t *count)
{
    (void)name, (void)logger;
    api = base->get(ORT_VERSION);
    if (!api) {
        api = base->get(1);
        return failed("tilewright: this ONNX Runtime is older than 1.23, which plug-ins need");
    }
    ep_api = FUNCTION(api, EP_API, const ort_function *, void)();
    if (!ep_api || !most) return failed("tilewright: this ONNX Runtime takes no plug-ins");
    factories[0] = &factory;
    *count = 1;
    return NULL;
}

status ReleaseEpFactory(struct ort_factory *given)
{
    (void)given;
    return NULL;
}
