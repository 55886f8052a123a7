/* Members of a bundle, which is a zip archive without compression: its directory is at the end, and says where each member begins.
 *
 * The program knows the SHA-256 of all that it reads, so whatever a file holds, its code runs on the very constants that it was compiled for. */
#include "tilewright.h"

#include <string.h>

enum { END = 22, ENTRY = 46, LOCAL = 30, BLOCK = 64, PART = 4096, HEX = 64 };

/* SHA-256 (FIPS 180-4) of the bytes so far. */
struct hash {
    uint32_t state[8];
    unsigned char block[BLOCK];
    uint64_t bytes;
};

static int failed(const struct tilewright_bundle *bundle, const char *text, const char *member)
{
    if (bundle->path) fprintf(stderr, "%s: %s%s\n", bundle->path, text, member);
    return 0;
}

static uint32_t turned(uint32_t word, int bits)
{
    return word >> bits | word << (32 - bits);
}

static void mix(struct hash *hash)
{
    static const uint32_t primes[64] = {
        0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be,
        0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa,
        0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85,
        0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3,
        0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f,
        0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
    };
    uint32_t words[64], s[8];
    memcpy(s, hash->state, sizeof s);
    for (int k = 0; k < 64; k++) {
        const unsigned char *bytes = hash->block + 4 * (k % 16);
        const uint32_t two = k < 16 ? 0 : words[k - 2], far = k < 16 ? 0 : words[k - 15];
        words[k] = k < 16 ? (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3]
                          : words[k - 16] + (turned(far, 7) ^ turned(far, 18) ^ far >> 3) + words[k - 7] + (turned(two, 17) ^ turned(two, 19) ^ two >> 10);
        const uint32_t one = s[7] + (turned(s[4], 6) ^ turned(s[4], 11) ^ turned(s[4], 25)) + ((s[4] & s[5]) ^ (~s[4] & s[6])) + primes[k] + words[k];
        const uint32_t other = (turned(s[0], 2) ^ turned(s[0], 13) ^ turned(s[0], 22)) + ((s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]));
        memmove(s + 1, s, 7 * sizeof *s);
        s[4] += one, s[0] = one + other;
    }
    for (int k = 0; k < 8; k++) hash->state[k] += s[k];
}

static void add(struct hash *hash, const unsigned char *data, size_t count)
{
    while (count--) {
        hash->block[hash->bytes++ % BLOCK] = *data++;
        if (hash->bytes % BLOCK == 0) mix(hash);
    }
}

static struct hash begun(void)
{
    const struct hash hash = { { 0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19 }, { 0 }, 0 };
    return hash;
}

/* Whether the bytes so far, which are all, have this digest. */
static int matches(struct hash *hash, const char *digest)
{
    const uint64_t bits = hash->bytes * 8;
    char text[HEX + 1];
    unsigned char size[8];
    for (int k = 0; k < 8; k++) size[k] = (unsigned char)(bits >> (56 - 8 * k));
    add(hash, (const unsigned char *)"\x80", 1);
    while (hash->bytes % BLOCK != BLOCK - sizeof size) add(hash, (const unsigned char *)"", 1);
    add(hash, size, sizeof size);
    for (int k = 0; k < 8; k++) snprintf(text + 8 * k, 9, "%08lx", (unsigned long)hash->state[k]);
    return !strcmp(text, digest);
}

static uint32_t number(const unsigned char *bytes, int count)
{
    uint32_t found = 0;
    while (count--) found = found << 8 | bytes[count];
    return found;
}

static int bytes_at(const struct tilewright_bundle *bundle, uint32_t place, unsigned char *data, size_t bytes)
{
    if (bundle->memory) {
        if (place > bundle->bytes || bytes > bundle->bytes - place) return 0;
        return memcpy(data, bundle->memory + place, bytes), 1;
    }
    return place <= INT32_MAX && !fseek(bundle->file, (long)place, SEEK_SET) && fread(data, 1, bytes, bundle->file) == bytes;
}

/* The directory's entry of a member, without its name; where its data begins. */
static int find(const struct tilewright_bundle *bundle, const char *member, unsigned char entry[ENTRY], uint32_t *data)
{
    const size_t length = strlen(member);
    uint32_t place = bundle->entries;
    for (uint32_t k = 0; k < bundle->count; k++) {
        unsigned char name[128];
        unsigned char local[LOCAL];
        if (!bytes_at(bundle, place, entry, ENTRY)) break;
        if (number(entry + 28, 2) == length && length < sizeof name && bytes_at(bundle, place + ENTRY, name, length) && !memcmp(name, member, length)) {
            const uint32_t first = number(entry + 42, 4);
            if (number(entry + 10, 2) || !bytes_at(bundle, first, local, LOCAL)) break;
            *data = first + LOCAL + number(local + 26, 2) + number(local + 28, 2);
            return 1;
        }
        place += ENTRY + number(entry + 28, 2) + number(entry + 30, 2) + number(entry + 32, 2);
    }
    return failed(bundle, "the bundle has no member ", member);
}

/* Whether a member has this digest, however long it is. */
static int is_member(const struct tilewright_bundle *bundle, const char *member, const char *digest)
{
    unsigned char entry[ENTRY], part[PART];
    struct hash hash = begun();
    uint32_t data, left;
    if (!find(bundle, member, entry, &data)) return 0;
    for (left = number(entry + 24, 4); left;) {
        const uint32_t size = left < PART ? left : PART;
        if (!bytes_at(bundle, data, part, size)) return failed(bundle, "the bundle ends within ", member);
        add(&hash, part, size);
        data += size, left -= size;
    }
    return matches(&hash, digest) || failed(bundle, "not the bundle that this program was made of", "");
}

/* What the last bytes of an archive say; then whether its manifest is the one. */
static int opened(struct tilewright_bundle *bundle, const unsigned char end[END], const char *manifest)
{
    if (number(end, 4) != 0x06054b50) return failed(bundle, "no bundle", "");
    bundle->count = number(end + 10, 2);
    bundle->entries = number(end + 16, 4);
    return is_member(bundle, "manifest.json", manifest);
}

int tilewright_open_bundle(struct tilewright_bundle *bundle, const char *path, const char *manifest)
{
    unsigned char end[END];
    *bundle = (struct tilewright_bundle){ fopen(path, "rb"), path, 0, 0, NULL, 0 };
    if (!bundle->file) return failed(bundle, "cannot be opened", "");
    if (fseek(bundle->file, -END, SEEK_END) || fread(end, 1, END, bundle->file) != END)
        return tilewright_close_bundle(bundle), failed(bundle, "no bundle", "");
    return opened(bundle, end, manifest) || (tilewright_close_bundle(bundle), 0);
}

int tilewright_open_memory(struct tilewright_bundle *bundle, const void *memory, size_t bytes, const char *manifest)
{
    *bundle = (struct tilewright_bundle){ NULL, NULL, 0, 0, memory, bytes };
    return memory && bytes >= END && opened(bundle, bundle->memory + bytes - END, manifest);
}

int tilewright_read(const struct tilewright_bundle *bundle, const char *member, const char *digest, unsigned char *place, size_t bytes)
{
    unsigned char entry[ENTRY];
    struct hash hash = begun();
    uint32_t data;
    if (!find(bundle, member, entry, &data)) return 0;
    if (number(entry + 24, 4) != bytes || !bytes_at(bundle, data, place, bytes)) return failed(bundle, "another size than the program expects: ", member);
    add(&hash, place, bytes);
    return matches(&hash, digest) || failed(bundle, "damaged: ", member);
}

void tilewright_close_bundle(struct tilewright_bundle *bundle)
{
    if (bundle->file) fclose(bundle->file);
    bundle->file = NULL;
}
