/*
 * Sources that are compiled once per instruction-set level of the CPU: 0 baseline x86-64, 1 x86-64-v3, 2 x86-64-v4. The build defines
 * TSR_LEVEL; external names get the level as a suffix. Sanitized builds (TSR_BASELINE_ONLY) have level 0 alone: the others are the same sources.
 */
#ifndef TSR_EXEC_LEVEL_H
#define TSR_EXEC_LEVEL_H

#define TSR_LEVEL_PASTE(name, level) name##_##level
#define TSR_LEVEL_EXPAND(name, level) TSR_LEVEL_PASTE(name, level)
#define TSR_LEVELED(name) TSR_LEVEL_EXPAND(name, TSR_LEVEL)

/* An array's initialiser: what `prefix` names at each level. */
#ifdef TSR_BASELINE_ONLY
#define TSR_LEVEL_COUNT 1
#define TSR_LEVELS(prefix) {prefix##_0}
#else
#define TSR_LEVEL_COUNT 3
#define TSR_LEVELS(prefix) {prefix##_0, prefix##_1, prefix##_2}
#endif

#endif
