/* A driver in user space: device memory that both sides map, a doorbell for the hardware, an interrupt for the host, and a page of registers.
 *
 * It stands in the place of tilewright_process.c. Doorbell and interrupt are eventfds, and the hardware is a process (hardware.py); with a kernel's UIO
 * driver the memory is mapped from /dev/uio0, the doorbell is a register, and a read of /dev/uio0 waits for the interrupt. Linux. */
#define _GNU_SOURCE
#include "tilewright.h"

#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096, WORDS = 64, REGISTERS = 64, LOAD = 1, RUN = 2, STEP_MILLISECONDS = 100, MOST_STEPS = 6000 };

/* The hardware's registers, the last page of the shared memory. status: 0 where the command was done. */
struct control {
    uint32_t command, status, registers, reserved;
    uint64_t memory_bytes, program_bytes;
    struct {
        uint64_t index, address;
    } held[REGISTERS];
};

static int failed(const struct tilewright_device *device, const char *text)
{
    fprintf(stderr, "device %s: %s\n", device->machine, text);
    return 0;
}

static struct control *control_of(const struct tilewright_device *device)
{
    return (struct control *)(device->memory + device->room - PAGE);
}

/* Rings the doorbell and waits for the interrupt. */
static int command(struct tilewright_device *device, uint32_t number)
{
    volatile struct control *const control = control_of(device);
    uint64_t one = 1;
    control->command = number;
    __sync_synchronize(); /* the hardware sees the memory before the doorbell */
    if (write(device->to, &one, sizeof one) != sizeof one) return failed(device, "the doorbell cannot be rung");
    for (int step = 0; step < MOST_STEPS; step++) {
        struct pollfd interrupt = { .fd = device->from, .events = POLLIN };
        if (poll(&interrupt, 1, STEP_MILLISECONDS) > 0) {
            if (read(device->from, &one, sizeof one) != sizeof one) return failed(device, "the interrupt cannot be read");
            __sync_synchronize();
            return !control->status || failed(device, "the hardware says that the command failed");
        }
        if (waitpid((pid_t)device->handle, NULL, WNOHANG) != 0) {
            device->handle = 0;
            return failed(device, "the hardware is gone");
        }
    }
    return failed(device, "no interrupt comes");
}

/* Starts the hardware: COMMAND ... MACHINE MEMORY DOORBELL INTERRUPT, the last three as numbers of open files. */
static int start(struct tilewright_device *device, char *const *given)
{
    char *words[WORDS + 5], machine[256], numbers[3][16];
    int count = 0;
    while (given[count] && count < WORDS) words[count] = given[count], count++;
    if (!count || given[count] || strlen(device->machine) >= sizeof machine) return failed(device, "no command was given that starts the hardware");
    words[count++] = strcpy(machine, device->machine);
    const int files[3] = { device->shared, device->to, device->from };
    for (int k = 0; k < 3; k++) {
        snprintf(numbers[k], sizeof numbers[k], "%d", files[k]);
        words[count++] = numbers[k];
    }
    words[count] = NULL;
    const pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        execvp(words[0], words);
        _exit(127);
    }
    device->handle = child;
    return child > 0 || failed(device, "the hardware does not start");
}

int tilewright_open_device(struct tilewright_device *device, const char *machine, char *const *words, size_t memory_bytes, size_t program_bytes)
{
    memset(device, 0, sizeof *device);
    device->machine = machine;
    device->memory_bytes = (memory_bytes + PAGE - 1) / PAGE * PAGE, device->program_bytes = program_bytes;
    device->room = device->memory_bytes + (program_bytes + PAGE - 1) / PAGE * PAGE + PAGE;
    device->shared = memfd_create("device memory", 0), device->to = eventfd(0, 0), device->from = eventfd(0, 0);
    if (device->shared < 0 || device->to < 0 || device->from < 0 || ftruncate(device->shared, (off_t)device->room)) return failed(device, "no memory");
    void *const memory = mmap(NULL, device->room, PROT_READ | PROT_WRITE, MAP_SHARED, device->shared, 0);
    if (memory == MAP_FAILED) return failed(device, "the memory cannot be mapped");
    device->memory = memory, device->program = device->memory + device->memory_bytes;
    return start(device, words);
}

int tilewright_load(struct tilewright_device *device, const struct tilewright_register *registers, size_t count)
{
    struct control *const control = control_of(device);
    if (count > REGISTERS) return failed(device, "the hardware has fewer registers");
    control->memory_bytes = device->memory_bytes, control->program_bytes = device->program_bytes, control->registers = (uint32_t)count;
    for (size_t k = 0; k < count; k++) control->held[k].index = registers[k].index, control->held[k].address = registers[k].address;
    return command(device, LOAD);
}

int tilewright_run(struct tilewright_device *device)
{
    return command(device, RUN);
}

void tilewright_close_device(struct tilewright_device *device)
{
    if (!device->machine) return;
    if (device->handle > 0) kill((pid_t)device->handle, SIGKILL), waitpid((pid_t)device->handle, NULL, 0);
    if (device->memory) munmap(device->memory, device->room);
    const int files[3] = { device->shared, device->to, device->from };
    for (int k = 0; k < 3; k++)
        if (files[k] >= 0) close(files[k]);
    memset(device, 0, sizeof *device);
}
