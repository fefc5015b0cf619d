/*
 * What is known of functions: their access templates, from the table that the control plane fills while the program runs (tessera/templates.h).
 * Looking never blocks and never waits: until a template is there, launches of the function are unknown. GPUs of different architectures
 * run different code: what is known is of the GPU that runs the launch.
 */
#ifndef TSR_OBJECT_TEMPLATES_H
#define TSR_OBJECT_TEMPLATES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tessera/gpus.h>

enum { TSR_TEMPLATE_GPUS = TSR_GPUS, TSR_TEMPLATE_KINDS = 4 }; /* kinds: architectures that GPUs of one machine have */

/* A function's way to its template; zero bytes with `code` and `function` set. Any number of threads may use it. */
struct tsr_template_link {
    uint64_t code;     /* hash of the image that the function is in; 0: not known, and so is the template */
    uint64_t function; /* hash of its name */
    uint32_t shapes;   /* atomic; of its launches, that this process has kept (shapes.h) */
    struct tsr_template_place {
        const void *found;        /* atomic; the bytes in the table */
        uint32_t bytes;           /* of them; written before `found` */
        uint32_t seen;            /* relaxed; entries of the table when it was last looked through in vain */
    } places[TSR_TEMPLATE_KINDS]; /* by kind of GPU */
};

/* By number of the GPU: its kind, those of one architecture; TSR_TEMPLATE_KINDS: of none of which anything is known. Constant after the start. */
extern uint8_t tsr_templates_kinds[TSR_TEMPLATE_GPUS] __attribute__((visibility("hidden")));

static inline uint32_t tsr_template_kind(uint32_t gpu)
{
    return gpu < TSR_TEMPLATE_GPUS ? tsr_templates_kinds[gpu] : TSR_TEMPLATE_KINDS;
}

/* Once the driver is initialised. Without a table, or with one of another release, nothing is ever known. */
void tsr_templates_start(void);

extern const uint32_t *tsr_templates_published __attribute__((visibility("hidden"))); /* points to 0 while there is no table */
const void *tsr_template_search(struct tsr_template_link *link, uint32_t kind);

/* A template was found wrong: from now on, what it is of is unknown in this process, whatever link leads to it. NULL is allowed. */
void tsr_template_distrust(const void *template);
extern uint32_t tsr_templates_distrusted __attribute__((visibility("hidden"))); /* atomic; how many are */
bool tsr_template_is_distrusted(const void *template);

/* The bytes of the function's clone (tessera/clones.h), as long as the process lives; the last one is zero. NULL: none was made, or there is no
   template. */
const char *tsr_template_clone(const struct tsr_template_link *link, uint32_t gpu, uint32_t *bytes);

/* For launches on that GPU: the template's bytes, as long as the process lives: flat (tessera/access.h), within the table, not checked otherwise. NULL: unknown. */
static inline const void *tsr_template_find(struct tsr_template_link *link, uint32_t gpu)
{
    uint32_t kind = tsr_template_kind(gpu);
    if (kind >= TSR_TEMPLATE_KINDS)
        return NULL;
    const struct tsr_template_place *place = &link->places[kind];
    const void *found = __atomic_load_n(&place->found, __ATOMIC_ACQUIRE);
    if (!found && __atomic_load_n(tsr_templates_published, __ATOMIC_ACQUIRE) != __atomic_load_n(&place->seen, __ATOMIC_RELAXED))
        found = tsr_template_search(link, kind);
    bool look = __builtin_expect(__atomic_load_n(&tsr_templates_distrusted, __ATOMIC_ACQUIRE) != 0, 0);
    return look && tsr_template_is_distrusted(found) ? NULL : found;
}

#endif
