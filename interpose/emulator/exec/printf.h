/*
 * What device code prints: collected per team, written to descriptor 1 in the order of the blocks.
 */
#ifndef TSR_EXEC_PRINTF_H
#define TSR_EXEC_PRINTF_H

#include <stddef.h>
#include <stdint.h>

struct tsr_team;
struct tsr_grid;

struct tsr_printf_text {
    struct tsr_printf_text *next;
    uint64_t index; /* of the team */
    size_t bytes, capacity;
    char data[];
};

/* Adds to the team's text; what does not fit in memory is lost. */
void tsr_text_add(struct tsr_team *team, const char *data, size_t bytes);
/* The team is finished or stopped: its text joins the grid's. Caller holds the grid's lock. */
void tsr_text_hand_over_locked(struct tsr_grid *grid, struct tsr_team *team);
/* Writes out everything that has been handed over, by team. */
void tsr_text_write(struct tsr_grid *grid);

/*
 * Formats as device printf does: format and the packed arguments (each aligned to its size). read_string gives a string of device memory,
 * or NULL. Output goes to emit. Returns the number of arguments converted.
 */
struct tsr_format {
    void *context;
    void (*emit)(void *context, const char *data, size_t bytes);
    const void *(*argument)(void *context, uint32_t offset, uint32_t bytes); /* NULL: unreadable */
    const char *(*string)(void *context, uint64_t address, size_t *bytes);   /* NULL: unreadable */
};
int tsr_format_run(const struct tsr_format *format, const char *text, size_t bytes);

#endif
