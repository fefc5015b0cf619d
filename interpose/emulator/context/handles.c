/* See handles.h. */
#include "handles.h"

struct tsr_handles *tsr_handle_table(void)
{
    static struct tsr_handles table;
    return &table;
}
