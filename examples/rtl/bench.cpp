// The test bench: a clock, and DRAM with a latency. It reads what `tilewright cosim write` left and writes what the machine leaves.
//
//   Vquad +code=STREAM.hex +before=DRAM.bin +after=FILE +starts=FILE +read=CYCLES +write=CYCLES [+seed=NUMBER]
//
// Reads are answered in order, `read` cycles after they were taken, and writes are done in order, `write` cycles after. With a seed, every latency is
// drawn from 1 to three times as much, and a quarter of the cycles takes no request.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <random>
#include <string>
#include <vector>

#include "Vquad.h"
#include "verilated.h"

static const uint64_t PATIENCE = 1000, LONGEST = 1 << 24;  // cycles without a start after which the machine stands still, where it rests and where not
static const char* const UNITS[] = {"load", "compute", "store"};

static void stop(const std::string& message) {
    std::fprintf(stderr, "bench: %s\n", message.c_str());
    std::exit(2);
}

static std::string argument(VerilatedContext& context, const std::string& name) {
    const std::string found = context.commandArgsPlusMatch((name + "=").c_str());
    return found.empty() ? "" : found.substr(name.size() + 2);
}

static std::vector<uint8_t> read_file(const std::string& path) {
    std::FILE* file = std::fopen(path.c_str(), "rb");
    if (!file) stop("cannot read '" + path + "'");
    std::vector<uint8_t> bytes;
    uint8_t part[1 << 16];
    for (size_t size; (size = std::fread(part, 1, sizeof part, file)) > 0;) bytes.insert(bytes.end(), part, part + size);
    std::fclose(file);
    return bytes;
}

static void write_file(const std::string& path, const void* data, size_t size) {
    std::FILE* file = std::fopen(path.c_str(), "wb");
    if (!file || std::fwrite(data, 1, size, file) != size || std::fclose(file)) stop("cannot write '" + path + "'");
}

// One direction of DRAM: what was taken, and when it is due.
struct Channel {
    struct Entry { uint64_t due; uint32_t word, data; };
    uint64_t latency, last = 0;
    std::deque<Entry> entries;

    void take(uint64_t now, uint32_t word, uint32_t data, std::mt19937* random) {
        const uint64_t wait = random ? 1 + (*random)() % (3 * latency) : latency;
        last = std::max(now + wait, last + 1);  // in order, one a cycle
        entries.push_back({last, word, data});
    }
    bool due(uint64_t now) const { return !entries.empty() && entries.front().due == now; }
};

// DRAM is read and written when an access is due, so one that nothing orders may see either value.
class Dram {
public:
    Dram(std::vector<uint8_t> bytes, uint64_t read, uint64_t write, std::mt19937* random) : bytes_(std::move(bytes)), random_(random) {
        reads_.latency = read;
        writes_.latency = write;
    }
    void answer(Vquad& machine, uint64_t now) {
        machine.read_answer = reads_.due(now);
        if (machine.read_answer) {
            const uint8_t* from = at(reads_.entries.front().word);
            machine.read_word = from[0] | from[1] << 8 | from[2] << 16 | static_cast<uint32_t>(from[3]) << 24;
            reads_.entries.pop_front();
        }
        machine.write_answer = writes_.due(now);
        if (machine.write_answer) {
            uint8_t* to = at(writes_.entries.front().word);
            for (int i = 0; i < 4; i++) to[i] = static_cast<uint8_t>(writes_.entries.front().data >> 8 * i);
            writes_.entries.pop_front();
        }
        machine.ready = !random_ || (*random_)() % 4;
    }
    void take(const Vquad& machine, uint64_t now) {
        if (!machine.request || !machine.ready) return;
        (machine.request_write ? writes_ : reads_).take(now, machine.request_word, machine.request_data, random_);
    }
    const std::vector<uint8_t>& bytes() const { return bytes_; }

private:
    uint8_t* at(uint32_t word) {
        if (4 * static_cast<size_t>(word) + 4 > bytes_.size()) stop("an access at word " + std::to_string(word) + " is past the end of DRAM");
        return &bytes_[4 * static_cast<size_t>(word)];
    }
    std::vector<uint8_t> bytes_;
    std::mt19937* random_;
    Channel reads_, writes_;
};

int main(int count, char** words) {
    VerilatedContext context;
    context.commandArgs(count, words);
    const std::string seed = argument(context, "seed"), starts_path = argument(context, "starts");
    std::mt19937 random(seed.empty() ? 0 : std::stoul(seed));
    context.randReset(2);  // memories and registers begin with random bits
    context.randSeed(1 + static_cast<int>(random() % 1000000));
    Dram dram(read_file(argument(context, "before")), std::stoul(argument(context, "read")), std::stoul(argument(context, "write")),
              seed.empty() ? nullptr : &random);
    Vquad machine{&context};
    std::string starts;

    const auto edge = [&] {
        machine.clock = 1;
        machine.eval();
        machine.clock = 0;
        machine.eval();
    };
    machine.clock = 0;
    machine.reset = 1;
    machine.eval();
    edge();
    machine.reset = 0;

    uint64_t now = 0, started = 0;
    for (machine.eval(); !machine.done; now++) {
        dram.answer(machine, now);
        machine.eval();
        if (machine.fault) stop("a token counter overflows in cycle " + std::to_string(now));
        dram.take(machine, now);
        for (int unit = 0; unit < 3; unit++)
            if (machine.start >> unit & 1) {
                starts += std::string(UNITS[unit]) + " " + std::to_string(now + 1) + "\n";
                started = now;
            }
        if (now - started > (machine.resting ? PATIENCE : LONGEST)) stop("the machine stands still since cycle " + std::to_string(started));
        edge();
    }
    machine.final();
    write_file(argument(context, "after"), dram.bytes().data(), dram.bytes().size());
    write_file(starts_path, starts.data(), starts.size());
    std::printf("%llu cycles\n", static_cast<unsigned long long>(now));
    return 0;
}
