/*
 * Operands of NCCL's calls: counts times types. Inside a group, calls only say what is to be done; the call that ends the group launches it.
 * Launches reach the other GPUs' memory and NCCL's own, so they are never to be moved.
 */
#include "calls/entries.h"

static __thread uint32_t group_depth;

static uint64_t type_bytes(int32_t type)
{
    static const uint8_t bytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1}; /* ncclDataType_t */
    return type >= 0 && (uint32_t)type < sizeof bytes ? bytes[type] : 0;
}

static uint64_t ranks(const struct tsr_arguments *of, uint32_t communicator)
{
    static void *known;
    int (*get)(void *communicator, int *count) = tsr_call_function(of->call, "ncclCommCount", &known);
    int count = 0;
    return get && get((void *)tsr_argument(of, communicator), &count) == 0 && count > 0 ? (uint64_t)count : 0;
}

/* Which arguments say what; position 0: there is no such buffer. `each`: the buffer has a part of that size for each rank. */
static const struct row {
    uint16_t call;
    uint8_t read, write, count, type, communicator;
    bool each_read, each_write;
} rows[] = {
    {TSR_CALL_ncclAllReduce, 1, 2, 3, 4, 6, false, false}, {TSR_CALL_ncclBroadcast, 1, 2, 3, 4, 6, false, false},
    {TSR_CALL_ncclBcast, 1, 1, 2, 3, 5, false, false},     {TSR_CALL_ncclReduce, 1, 2, 3, 4, 7, false, false},
    {TSR_CALL_ncclAllGather, 1, 2, 3, 4, 5, false, true},  {TSR_CALL_ncclReduceScatter, 1, 2, 3, 4, 6, true, false},
    {TSR_CALL_ncclSend, 1, 0, 2, 3, 5, false, false},      {TSR_CALL_ncclRecv, 0, 1, 2, 3, 5, false, false},
};

static void add_call(const struct row *row, const struct tsr_arguments *of, struct tsr_operands *operands)
{
    uint64_t bytes = type_bytes(tsr_argument_int(of, row->type)), count = tsr_argument(of, row->count), total;
    uint64_t parts = row->each_read || row->each_write ? ranks(of, row->communicator) : 1;
    if (!bytes || !parts || __builtin_mul_overflow(bytes, count, &total)) {
        tsr_operands_unknown(operands, "a type or communicator that cannot be read");
        return;
    }
    if (row->read)
        tsr_operands_add_bytes(operands, TSR_OPERAND_READ, tsr_argument(of, row->read), total * (row->each_read ? parts : 1));
    if (row->write)
        tsr_operands_add_bytes(operands, TSR_OPERAND_WRITE, tsr_argument(of, row->write),
                               total * (row->each_write ? parts : 1));
}

static void take_group(const struct tsr_operands *grouped, struct tsr_operands *operands)
{
    if (grouped->unknown)
        tsr_operands_unknown(operands, grouped->unknown);
    for (uint32_t i = 0; i < grouped->count; i++)
        operands->ranges[operands->count++] = grouped->ranges[i];
}

void tsr_nccl_operands(const struct tsr_arguments *of, struct tsr_operands *operands)
{
    struct tsr_operands *grouped = &tsr_call_thread()->grouped;
    operands->other_gpus = true;
    if (of->call == TSR_CALL_ncclGroupEnd) {
        if (group_depth <= 1)
            take_group(grouped, operands);
        return;
    }
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].call == of->call)
            add_call(&rows[i], of, group_depth ? grouped : operands);
}

void tsr_nccl_note(const struct tsr_arguments *of)
{
    struct tsr_call_thread *thread = tsr_call_thread();
    if (of->call == TSR_CALL_ncclGroupStart)
        group_depth++;
    else if (of->call == TSR_CALL_ncclGroupEnd && group_depth && --group_depth == 0 && thread)
        tsr_operands_clear(&thread->grouped);
}
