/*
 * What is recorded of a launch's operands besides its parameters, when parameters are: those of the library call that it happens in, and
 * the tensor maps that it may be given.
 */
#ifndef TSR_RECORD_OPERAND_RECORD_H
#define TSR_RECORD_OPERAND_RECORD_H

#include <stdint.h>

#include <tessera/records.h>

#include "calls/box.h"
#include "driver/rows.h"

struct tsr_thread;

/* The library call that the thread is in, as long as it is. */
struct tsr_call_operands {
    uint32_t call; /* 0: none */
    uint32_t ranges, text_bytes, other_gpus;
    const struct tsr_access_range *of;
    const char *why; /* why the operands are not known; NULL: they are */
};

void tsr_operand_records_start(void);
struct tsr_call_operands tsr_call_operands(void);
/* For a launch in a call: how many records its operands take; and writes them, the first one `ahead` records after the last committed one. */
uint32_t tsr_operand_records(const struct tsr_call_operands *operands);
void tsr_operand_write(const struct tsr_thread *thread, uint32_t ahead, const struct tsr_call_operands *operands,
                       const struct tsr_record *launch);

/* start: from tsr_record_start. */
void tsr_tensor_record(uint64_t start, enum tsr_row row, const void *map, const struct tsr_box *box);

#endif
