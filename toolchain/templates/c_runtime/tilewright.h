/* What a model's program needs: members of its bundle, and programs on devices.
 *
 * All functions answer with 1 if they did it. If they did not, they say why on standard error and answer with 0. */
#ifndef TILEWRIGHT_H
#define TILEWRIGHT_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* An open bundle: a zip archive whose members are stored as they are. entries: where its directory begins; count: its members.
 *
 * path: for messages, NULL for none. memory: in place of a file, its whole contents of so many bytes, which stay the caller's. */
struct tilewright_bundle {
    FILE *file;
    const char *path;
    uint32_t entries, count;
    const unsigned char *memory;
    size_t bytes;
};

/* manifest: the SHA-256, in hex, of the member manifest.json of the bundle that this program was made for. */
int tilewright_open_bundle(struct tilewright_bundle *bundle, const char *path, const char *manifest);

/* The same of a bundle in memory; no message is written. */
int tilewright_open_memory(struct tilewright_bundle *bundle, const void *memory, size_t bytes, const char *manifest);

/* Reads a whole member of so many bytes to `place`. digest: its SHA-256 in hex; with another one the bytes are not to be used. */
int tilewright_read(const struct tilewright_bundle *bundle, const char *member, const char *digest, unsigned char *place, size_t bytes);

void tilewright_close_bundle(struct tilewright_bundle *bundle);

/* A register of the host, and the address that it holds. */
struct tilewright_register {
    unsigned index;
    uint64_t address;
};

/* A program on a device. memory: the device's, addresses count from here. program: room for the program's bytes. handles: the device's own.
 *
 * tilewright_process.c reaches a device in another process. For hardware, write these four functions in a file of your own and link that. */
struct tilewright_device {
    unsigned char *memory, *program;
    size_t memory_bytes, program_bytes, room;
    const char *machine;
    char file[64];
    int to, from, shared, sealed;
    long handle;
};

/* Finds a device for a machine and provides memory, all zeros. command: words that start the device's process, ended by NULL. */
int tilewright_open_device(struct tilewright_device *device, const char *machine, char *const *command, size_t memory_bytes, size_t program_bytes);

/* Makes the device ready, once memory holds the constants and `program` the program. */
int tilewright_load(struct tilewright_device *device, const struct tilewright_register *registers, size_t count);

/* Runs the program once, to its end. */
int tilewright_run(struct tilewright_device *device);

void tilewright_close_device(struct tilewright_device *device);

#endif
