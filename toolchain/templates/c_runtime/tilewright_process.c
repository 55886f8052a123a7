/* A device in another process. It shares the device's memory as a file that both map, and talks by lines of text:
 *
 *     load FILE MEMORY PROGRAM REGISTER=VALUE ...     FILE has MEMORY bytes of memory, then PROGRAM bytes of the program
 *     run
 *
 * It answers each with `done`, or with `failed` and the reason, and ends when its input does. Where the system can seal memory, neither side can make
 * the file shorter; elsewhere its size is looked at before its bytes are. An answer may take TILEWRIGHT_SECONDS (-DTILEWRIGHT_SECONDS=60 sets it). */
#if defined(__linux__)
#define _GNU_SOURCE
#else
#define _POSIX_C_SOURCE 200809L
#endif
#include "tilewright.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifndef TILEWRIGHT_SECONDS
#define TILEWRIGHT_SECONDS 600
#endif

extern char **environ;

enum { PAGE = 4096, WORDS = 64, LINE = 4096, END_MILLISECONDS = 2000, STEP_MILLISECONDS = 10 };

static int failed(const struct tilewright_device *device, const char *text, const char *reason)
{
    fprintf(stderr, "device %s: %s%s\n", device->machine, text, reason);
    return 0;
}

/* Gives the file its size and maps it. */
static int map(struct tilewright_device *device, int file)
{
    void *shared = ftruncate(file, (off_t)device->room) ? MAP_FAILED : mmap(NULL, device->room, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (shared == MAP_FAILED) return close(file), 0;
    fcntl(file, F_SETFD, FD_CLOEXEC);
    device->memory = shared, device->shared = file;
    device->program = device->memory + device->memory_bytes;
    return 1;
}

/* A file in a folder, whose size the other side can change. */
static int share(struct tilewright_device *device, const char *pattern)
{
    strcpy(device->file, pattern);
    const int file = mkstemp(device->file);
    return file >= 0 && (map(device, file) || (unlink(device->file), 0));
}

/* Memory whose size nobody can change, which the other side opens by our number and that of the file. */
static int share_sealed(struct tilewright_device *device)
{
#if defined(MFD_ALLOW_SEALING) && defined(F_ADD_SEALS)
    const int file = access("/proc/self/fd", X_OK) ? -1 : memfd_create("tilewright", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (file < 0 || !map(device, file)) return 0;
    device->sealed = !fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
    snprintf(device->file, sizeof device->file, "/proc/%ld/fd/%d", (long)getpid(), file);
    return 1;
#else
    (void)device;
    return 0;
#endif
}

/* Whether all of the memory may be read and written. */
static int whole(const struct tilewright_device *device)
{
    struct stat now;
    return device->sealed || (!fstat(device->shared, &now) && (size_t)now.st_size >= device->room)
        || failed(device, "the process has made the file of the shared memory shorter", "");
}

static void forget_file(const struct tilewright_device *device)
{
    if (strncmp(device->file, "/proc/", 6)) unlink(device->file);
}

static int64_t milliseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
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
    posix_spawn_file_actions_t actions; /* a copy of this process, as fork makes it first, may be more than the system has memory for */
    pid_t child = 0;
    int wrong = posix_spawn_file_actions_init(&actions);
    if (!wrong) {
        const int ends[4] = { to[0], to[1], from[0], from[1] };
        wrong = posix_spawn_file_actions_adddup2(&actions, to[0], 0);
        if (!wrong) wrong = posix_spawn_file_actions_adddup2(&actions, from[1], 1);
        for (int i = 0; i < 4 && !wrong; i++) wrong = posix_spawn_file_actions_addclose(&actions, ends[i]);
        if (!wrong) wrong = posix_spawnp(&child, words[0], &actions, NULL, words, environ);
        posix_spawn_file_actions_destroy(&actions);
    }
    close(to[0]), close(from[1]);
    fcntl(to[1], F_SETFD, FD_CLOEXEC), fcntl(from[0], F_SETFD, FD_CLOEXEC); /* processes that start later must not hold these ends open */
    fcntl(to[1], F_SETFL, O_NONBLOCK);
    device->to = to[1], device->from = from[0], device->handle = wrong ? 0 : child;
    return !wrong || failed(device, "no process: ", strerror(wrong));
}

int tilewright_open_device(struct tilewright_device *device, const char *machine, char *const *command, size_t memory_bytes, size_t program_bytes)
{
    memset(device, 0, sizeof *device);
    device->machine = machine, device->to = device->from = device->shared = -1;
    device->memory_bytes = (memory_bytes + PAGE - 1) / PAGE * PAGE, device->program_bytes = program_bytes;
    device->room = device->memory_bytes + program_bytes + 1;
    if (!share_sealed(device) && !share(device, "/dev/shm/tilewright-XXXXXX") && !share(device, "/tmp/tilewright-XXXXXX"))
        return failed(device, "no memory to share: ", strerror(errno));
    if (start(device, command)) return 1;
    forget_file(device);
    return 0;
}

/* Waits until a pipe is ready, or until `end`. */
static int ready(const struct tilewright_device *device, int pipe, short event, int64_t end)
{
    for (;;) {
        struct pollfd one = { pipe, event, 0 };
        const int64_t left = end - milliseconds();
        const int found = poll(&one, 1, left > 0 ? (int)(left < INT_MAX ? left : INT_MAX) : 0);
        if (found > 0) return 1;
        if (found == 0 && left <= 0) return failed(device, "the process does not answer in time", "");
        if (found < 0 && errno != EINTR) return failed(device, "its pipe fails: ", strerror(errno));
    }
}

static int ask(struct tilewright_device *device, const char *line)
{
    char answer[LINE];
    size_t size = strlen(line), held = 0;
    const int64_t end = milliseconds() + (int64_t)TILEWRIGHT_SECONDS * 1000;
    while (size) {
        if (!ready(device, device->to, POLLOUT, end)) return 0;
        const ssize_t sent = write(device->to, line, size);
        if (sent <= 0) return failed(device, "the process has ended without an answer", ""); /* it may end before or after it is asked */
        line += sent, size -= (size_t)sent;
    }
    while (!held || answer[held - 1] != '\n') {
        if (held < sizeof answer && !ready(device, device->from, POLLIN, end)) return 0;
        const ssize_t got = held < sizeof answer ? read(device->from, answer + held, sizeof answer - held) : 0;
        if (got <= 0) return failed(device, "the process has ended without an answer", "");
        held += (size_t)got;
    }
    answer[held - 1] = 0;
    return (!strcmp(answer, "done") || failed(device, "", answer)) && whole(device);
}

int tilewright_load(struct tilewright_device *device, const struct tilewright_register *registers, size_t count)
{
    char line[LINE];
    int used = snprintf(line, sizeof line, "load %s %zu %zu", device->file, device->memory_bytes, device->program_bytes);
    for (size_t k = 0; k < count && used < LINE; k++)
        used += snprintf(line + used, sizeof line - (size_t)used, " %u=%" PRIu64, registers[k].index, registers[k].address);
    if (used >= LINE - 1) return forget_file(device), failed(device, "too many registers", "");
    strcat(line, "\n");
    const int done = ask(device, line);
    forget_file(device);
    return done;
}

int tilewright_run(struct tilewright_device *device)
{
    return ask(device, "run\n");
}

/* Its input is closed: it ends by itself, or is ended. */
static void end_process(pid_t child)
{
    const struct timespec step = { 0, STEP_MILLISECONDS * 1000000L };
    for (int spent = 0; spent < 2 * END_MILLISECONDS; spent += STEP_MILLISECONDS) {
        if (waitpid(child, NULL, WNOHANG) != 0) return;
        if (spent == END_MILLISECONDS) kill(child, SIGKILL);
        nanosleep(&step, NULL);
    }
}

void tilewright_close_device(struct tilewright_device *device)
{
    if (!device->machine) return;
    if (device->to >= 0) close(device->to);
    if (device->from >= 0) close(device->from);
    if (device->handle > 0) end_process((pid_t)device->handle);
    if (device->memory) munmap(device->memory, device->room);
    if (device->shared >= 0) close(device->shared);
    device->to = device->from = device->shared = -1, device->handle = 0, device->memory = NULL;
}
