/*
 * The process' journal, from the writer's side: see tessera/records.h. Entries are appended under the caller's lock.
 */
#ifndef TSR_RECORD_JOURNAL_H
#define TSR_RECORD_JOURNAL_H

#include "base/os.h"

#include <tessera/records.h>

struct tsr_journal_writer {
    struct tsr_journal *journal; /* TSR_JOURNAL_BYTES of address space; NULL: none */
    struct tsr_os_file file;
    uint64_t allocated; /* bytes of the file that have memory */
};

/* False: no memory. */
bool tsr_journal_create(struct tsr_journal_writer *writer);
/* Fills in entry->bytes. False: no room; the entry is left out. */
bool tsr_journal_append(struct tsr_journal_writer *writer, struct tsr_entry *entry, const char *text);
/* Also in a forked child, to which the parent's journal is nothing. */
void tsr_journal_destroy(struct tsr_journal_writer *writer);

#endif
