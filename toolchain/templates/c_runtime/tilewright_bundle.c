/* Members of a bundle, which is a zip archive without compression: its directory is at the end, and says where each member begins. */
#include "tilewright.h"

#include <string.h>

enum { END = 22, ENTRY = 46, LOCAL = 30 };

static int failed(const struct tilewright_bundle *bundle, const char *text, const char *member)
{
    fprintf(stderr, "%s: %s%s\n", bundle->path, text, member);
    return 0;
}

static uint32_t number(const unsigned char *bytes, int count)
{
    uint32_t found = 0;
    while (count--) found = found << 8 | bytes[count];
    return found;
}

static int bytes_at(const struct tilewright_bundle *bundle, uint32_t place, unsigned char *data, size_t bytes)
{
    return place <= INT32_MAX && !fseek(bundle->file, (long)place, SEEK_SET) && fread(data, 1, bytes, bundle->file) == bytes;
}

/* The directory's entry of a member, without its name; where its data begins. */
static int find(const struct tilewright_bundle *bundle, const char *member, unsigned char entry[ENTRY], uint32_t *data)
{
    const size_t length = strlen(member);
    uint32_t place = bundle->entries;
    for (uint32_t k = 0; k < bundle->count; k++) {
        char name[128];
        unsigned char local[LOCAL];
        if (!bytes_at(bundle, place, entry, ENTRY)) break;
        if (number(entry + 28, 2) == length && length < sizeof name && fread(name, 1, length, bundle->file) == length && !memcmp(name, member, length)) {
            const uint32_t first = number(entry + 42, 4);
            if (number(entry + 10, 2) || !bytes_at(bundle, first, local, LOCAL)) break;
            *data = first + LOCAL + number(local + 26, 2) + number(local + 28, 2);
            return 1;
        }
        place += ENTRY + number(entry + 28, 2) + number(entry + 30, 2) + number(entry + 32, 2);
    }
    return failed(bundle, "the bundle has no member ", member);
}

int tilewright_open_bundle(struct tilewright_bundle *bundle, const char *path, uint32_t manifest)
{
    unsigned char end[END], entry[ENTRY];
    uint32_t data;
    *bundle = (struct tilewright_bundle){ fopen(path, "rb"), path, 0, 0 };
    if (!bundle->file) return failed(bundle, "cannot be opened", "");
    if (fseek(bundle->file, -END, SEEK_END) || fread(end, 1, END, bundle->file) != END || number(end, 4) != 0x06054b50)
        return tilewright_close_bundle(bundle), failed(bundle, "no bundle", "");
    bundle->count = number(end + 10, 2);
    bundle->entries = number(end + 16, 4);
    if (!find(bundle, "manifest.json", entry, &data)) return tilewright_close_bundle(bundle), 0;
    if (number(entry + 16, 4) != manifest) return tilewright_close_bundle(bundle), failed(bundle, "not the bundle that this program was made of", "");
    return 1;
}

int tilewright_read(const struct tilewright_bundle *bundle, const char *member, unsigned char *place, size_t bytes)
{
    unsigned char entry[ENTRY];
    uint32_t data;
    if (!find(bundle, member, entry, &data)) return 0;
    if (number(entry + 24, 4) != bytes || !bytes_at(bundle, data, place, bytes)) return failed(bundle, "another size than the program expects: ", member);
    return 1;
}

void tilewright_close_bundle(struct tilewright_bundle *bundle)
{
    if (bundle->file) fclose(bundle->file);
    bundle->file = NULL;
}
