/* See journal.h. */
#include "record/journal.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define STEP (256u << 10) /* by which the file grows */

bool tsr_journal_create(struct tsr_journal_writer *writer)
{
    int descriptor = tsr_os_memfd("tessera-journal", 0);
    if (descriptor < 0)
        return false;
    if (!tsr_os_allocate(descriptor, 0, STEP) || !tsr_os_seal(descriptor, F_SEAL_SHRINK))
        goto close_file;
    writer->journal = tsr_os_map(NULL, TSR_JOURNAL_BYTES, PROT_READ | PROT_WRITE, descriptor, 0);
    if (!writer->journal)
        goto close_file;
    writer->allocated = STEP;
    writer->file = tsr_os_file_keep(descriptor);
    *writer->journal = (struct tsr_journal){.magic = TSR_RECORDS_MAGIC,
                                            .version = TSR_RECORDS_VERSION,
                                            .bytes = sizeof(struct tsr_journal),
                                            .pid = (uint32_t)getpid(),
                                            .parent = (uint32_t)getppid()};
    ssize_t length = readlink("/proc/self/exe", writer->journal->program, sizeof writer->journal->program - 1);
    writer->journal->program[length < 0 ? 0 : length] = 0;
    return true;

close_file:
    close(descriptor);
    return false;
}

static bool make_room(struct tsr_journal_writer *writer, uint64_t end)
{
    if (end <= writer->allocated)
        return true;
    uint64_t step = (end - writer->allocated + STEP - 1) / STEP * STEP;
    if (writer->allocated + step > TSR_JOURNAL_BYTES || !tsr_os_file_is_ours(&writer->file) ||
        !tsr_os_allocate(writer->file.descriptor, writer->allocated, step))
        return false;
    writer->allocated += step;
    return true;
}

bool tsr_journal_append(struct tsr_journal_writer *writer, struct tsr_entry *entry, const char *text)
{
    size_t length = strlen(text) + 1;
    uint64_t bytes = (sizeof *entry + length + 7) / 8 * 8;
    uint64_t at = TSR_JOURNAL_ENTRIES_OFFSET + writer->journal->used;
    if (!make_room(writer, at + bytes))
        return false;
    entry->bytes = (uint32_t)bytes;
    char *place = (char *)writer->journal + at;
    memcpy(place, entry, sizeof *entry);
    memcpy(place + sizeof *entry, text, length); /* the padding is zero: the file is new there */
    __atomic_store_n(&writer->journal->used, writer->journal->used + bytes, __ATOMIC_RELEASE);
    return true;
}

void tsr_journal_destroy(struct tsr_journal_writer *writer)
{
    if (writer->journal)
        tsr_os_unmap(writer->journal, TSR_JOURNAL_BYTES);
    tsr_os_file_close(&writer->file);
    *writer = (struct tsr_journal_writer){.file = {.descriptor = -1}};
}
