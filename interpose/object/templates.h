/*
 * What is known of functions: their access templates, from the table that the control plane fills while the program runs (tessera/templates.h).
 * Looking never blocks and never waits: until a template is there, launches of the function are unknown. On a machine with GPUs of
 * different architectures nothing is known, as they run different code.
 */
#ifndef TSR_OBJECT_TEMPLATES_H
#define TSR_OBJECT_TEMPLATES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A function's way to its template; zero bytes with `code` and `function` set. Any number of threads may use it. */
struct tsr_template_link {
    uint64_t code;     /* hash of the image that the function is in; 0: not known, and so is the template */
    uint64_t function; /* hash of its name */
    const void *found; /* atomic; the bytes in the table */
    uint32_t bytes;    /* of them; written before `found` */
    uint32_t seen;     /* relaxed; entries of the table when it was last looked through in vain */
};

/* Once the driver is initialised. Without a table, or with one of another release, nothing is ever known. */
void tsr_templates_start(void);

extern const uint32_t *tsr_templates_published __attribute__((visibility("hidden"))); /* points to 0 while there is no table */
const void *tsr_template_search(struct tsr_template_link *link);

/* A template was found wrong: from now on, what it is of is unknown in this process, whatever link leads to it. NULL is allowed. */
void tsr_template_distrust(const void *template);
extern uint32_t tsr_templates_distrusted __attribute__((visibility("hidden"))); /* atomic; how many are */
bool tsr_template_is_distrusted(const void *template);

/* The bytes of the function's twin (tessera/twins.h), as long as the process lives; the last one is zero. NULL: none was made, or there is no
   template. */
const char *tsr_template_twin(const struct tsr_template_link *link, uint32_t *bytes);

/* The template's bytes, as long as the process lives: flat (tessera/access.h), within the table, not checked otherwise. NULL: unknown. */
static inline const void *tsr_template_find(struct tsr_template_link *link)
{
    const void *found = __atomic_load_n(&link->found, __ATOMIC_ACQUIRE);
    if (!found && __atomic_load_n(tsr_templates_published, __ATOMIC_ACQUIRE) != __atomic_load_n(&link->seen, __ATOMIC_RELAXED))
        found = tsr_template_search(link);
    bool look = __builtin_expect(__atomic_load_n(&tsr_templates_distrusted, __ATOMIC_ACQUIRE) != 0, 0);
    return look && tsr_template_is_distrusted(found) ? NULL : found;
}

#endif
