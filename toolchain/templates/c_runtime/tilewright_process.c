/* A device in another process. It shares the device's memory as a file that both map, and talks by lines of text:
 *
 *     load FILE MEMORY PROGRAM REGISTER=VALUE ...     FILE has MEMORY bytes of memory, then PROGRAM bytes of the program
 *     run
 *
 * It answers each with `done`, or with `failed` and the reason, and ends when its input does. */
#define _POSIX_C_SOURCE 200809L
#include "tilewright.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096, WORDS = 64, LINE = 4096 };

static int failed(const struct tilewright_device *device, const char *text, const char *reason)
{
    fprintf(stderr, "device %s: %s%s\n", device->machine, text, reason);
    return 0;
}

static int share(struct tilewright_device *device, const char *pattern)
{
    strcpy(device->file, pattern);
    const int file = mkstemp(device->file);
    if (file < 0) return 0;
    void *shared = ftruncate(file, (off_t)device->room) ? MAP_FAILED : mmap(NULL, device->room, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (shared == MAP_FAILED) return unlink(device->file), 0;
    device->memory = shared;
    device->program = device->memory + device->memory_bytes;
    return 1;
}

static int start(struct tilewright_device *device, char *const *command)
{
    char *words[WORDS + 2], machine[256];
    int count = 0, to[2], from[2];
    while (command[count] && count < WORDS) words[count] = command[count], count++;
    if (!count || command[count] || strlen(device->machine) >= sizeof machine) return failed(device, "the program was given no command that starts it", "");
    words[count++] = strcpy(machine, device->machine);
    words[count] = NULL;
    if (pipe(to)) return failed(device, "no pipe: ", strerror(errno));
    if (pipe(from)) return close(to[0]), close(to[1]), failed(device, "no pipe: ", strerror(errno));
    signal(SIGPIPE, SIG_IGN);
    const pid_t child = fork();
    if (child == 0) {
        dup2(to[0], 0), dup2(from[1], 1);
        close(to[0]), close(to[1]), close(from[0]), close(from[1]);
        execvp(words[0], words);
        _exit(127);
    }
    close(to[0]), close(from[1]);
    fcntl(to[1], F_SETFD, FD_CLOEXEC), fcntl(from[0], F_SETFD, FD_CLOEXEC); /* processes that start later must not hold these ends open */
    device->to = to[1], device->from = from[0], device->handle = child;
    return child > 0 || failed(device, "no process: ", strerror(errno));
}

int tilewright_open_device(struct tilewright_device *device, const char *machine, char *const *command, size_t memory_bytes, size_t program_bytes)
{
    memset(device, 0, sizeof *device);
    device->machine = machine, device->to = device->from = -1;
    device->memory_bytes = (memory_bytes + PAGE - 1) / PAGE * PAGE, device->program_bytes = program_bytes;
    device->room = device->memory_bytes + program_bytes + 1;
    if (!share(device, "/dev/shm/tilewright-XXXXXX") && !share(device, "/tmp/tilewright-XXXXXX")) return failed(device, "no memory to share: ", strerror(errno));
    if (start(device, command)) return 1;
    unlink(device->file);
    return 0;
}

static int ask(struct tilewright_device *device, const char *line)
{
    char answer[LINE];
    size_t size = strlen(line), held = 0;
    while (size) {
        const ssize_t sent = write(device->to, line, size);
        if (sent <= 0) return failed(device, "the process has ended without an answer", ""); /* it may end before or after it is asked */
        line += sent, size -= (size_t)sent;
    }
    while (!held || answer[held - 1] != '\n') {
        const ssize_t got = held < sizeof answer ? read(device->from, answer + held, sizeof answer - held) : 0;
        if (got <= 0) return failed(device, "the process has ended without an answer", "");
        held += (size_t)got;
    }
    answer[held - 1] = 0;
    return !strcmp(answer, "done") || failed(device, "", answer);
}

int tilewright_load(struct tilewright_device *device, const struct tilewright_register *registers, size_t count)
{
    char line[LINE];
    int used = snprintf(line, sizeof line, "load %s %zu %zu", device->file, device->memory_bytes, device->program_bytes);
    for (size_t k = 0; k < count && used < LINE; k++)
        used += snprintf(line + used, sizeof line - (size_t)used, " %u=%" PRIu64, registers[k].index, registers[k].address);
    if (used >= LINE - 1) return unlink(device->file), failed(device, "too many registers", "");
    strcat(line, "\n");
    const int done = ask(device, line);
    unlink(device->file);
    return done;
}

int tilewright_run(struct tilewright_device *device)
{
    return ask(device, "run\n");
}

void tilewright_close_device(struct tilewright_device *device)
{
    if (device->to >= 0) close(device->to);
    if (device->from >= 0) close(device->from);
    if (device->handle > 0) waitpid((pid_t)device->handle, NULL, 0);
    if (device->memory) munmap(device->memory, device->room);
    device->to = device->from = -1, device->handle = 0, device->memory = NULL;
}
