/*
 * Nested scopes: what a word means at the reading position.
 *
 * PTX declares before use, inner declarations shadow outer ones (inline assembly relies on it), `.reg .b32 %r<10>` declares %r0 ... %r9.
 * Labels have scopes as well but may be used before they are defined; they are looked up when the function has been read.
 */
#ifndef TSR_PTX_SCOPE_H
#define TSR_PTX_SCOPE_H

#include "load.h"

void tsr_scope_open(struct tsr_load *load);
void tsr_scope_close(struct tsr_load *load);

/* A new symbol of the current scope; name may be NULL (cannot be found then). */
struct tsr_ptx_symbol *tsr_scope_declare(struct tsr_load *load, struct tsr_ptx_name *name, enum tsr_symbol_kind kind);
/* NULL when undeclared. Never a RANGE: the register itself. */
struct tsr_ptx_symbol *tsr_scope_find(struct tsr_load *load, struct tsr_ptx_name *name);

/*
 * The same for a word of the text, without a name for it when it is a register of a range: *register_id is set and NULL returned then.
 * Otherwise *name is set, and the result is that of tsr_scope_find.
 */
struct tsr_ptx_symbol *tsr_scope_find_word(struct tsr_load *load, struct tsr_word word, struct tsr_ptx_name **name,
                                           uint32_t *register_id);

/* .reg name<count> */
void tsr_scope_declare_range(struct tsr_load *load, struct tsr_ptx_name *name, uint8_t type, uint8_t width, uint32_t count);

uint32_t tsr_register_new(struct tsr_load *load, uint8_t type);
/* A frame area of the current scope. */
uint32_t tsr_area_new(struct tsr_load *load, uint32_t bytes);

void tsr_label_define(struct tsr_load *load, struct tsr_ptx_name *name);
/* From a statement in `scope`; NULL when there is none. */
struct tsr_label *tsr_label_find(struct tsr_load *load, const struct tsr_ptx_name *name, uint32_t scope);

#endif
