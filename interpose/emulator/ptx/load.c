/* See load.h. */
#include "load.h"

#include <stdarg.h>

#include "base/format.h"

void tsr_load_fail(struct tsr_load *load, CUresult result, uint32_t line, uint32_t column, const char *format, ...)
{
    va_list values;
    load->result = result;
    load->error->line = line;
    load->error->column = column;
    va_start(values, format);
    tsr_format_list(load->error->message, sizeof load->error->message, format, values);
    va_end(values);
    longjmp(load->escape, 1);
}

void tsr_load_memory(struct tsr_load *load)
{
    tsr_load_fail(load, CUDA_ERROR_OUT_OF_MEMORY, load->text.line, 1, "out of memory");
}

void tsr_load_expected(struct tsr_load *load, const char *what)
{
    char found[24];
    uint32_t length = 0;
    const char *at = load->text.at < load->text.end ? load->text.at : load->text.end;
    for (; length < sizeof found - 1 && at + length < load->text.end && (uint8_t)at[length] > ' ' && (uint8_t)at[length] < 127;
         length++)
        found[length] = at[length];
    found[length] = 0;
    uint32_t column = tsr_text_column(&load->text, at);
    if (length)
        tsr_load_fail(load, CUDA_ERROR_INVALID_PTX, load->text.line, column, "expected %s, found '%s'", what, found);
    tsr_load_fail(load, CUDA_ERROR_INVALID_PTX, load->text.line, column, "expected %s%s", what,
                  at >= load->text.end ? ", found the end of the text" : "");
}

void *tsr_load_alloc(struct tsr_load *load, struct tsr_arena *arena, size_t bytes, size_t align)
{
    void *memory = tsr_arena_alloc(arena, bytes, align);
    if (!memory)
        tsr_load_memory(load);
    return memory;
}

struct tsr_ptx_name *tsr_load_intern(struct tsr_load *load, struct tsr_word word)
{
    struct tsr_ptx_name *name = tsr_names_intern(&load->names, word);
    if (!name)
        tsr_load_memory(load);
    return name;
}
