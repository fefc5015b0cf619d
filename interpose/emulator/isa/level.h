/*
 * Sources that are compiled once per instruction-set level of the CPU: 0 baseline x86-64, 1 x86-64-v3, 2 x86-64-v4. The build defines
 * TSR_LEVEL; external names get the level as a suffix. TSR_LEVELS_BUILT has a bit for each level that the build has: the baseline always.
 */
#ifndef TSR_EXEC_LEVEL_H
#define TSR_EXEC_LEVEL_H

#define TSR_LEVEL_PASTE(name, level) name##_##level
#define TSR_LEVEL_EXPAND(name, level) TSR_LEVEL_PASTE(name, level)
#define TSR_LEVELED(name) TSR_LEVEL_EXPAND(name, TSR_LEVEL)

#define TSR_LEVEL_COUNT 3

#if TSR_LEVELS_BUILT >> 1 & 1
#define TSR_LEVEL_IF_1(name) name
#else
#define TSR_LEVEL_IF_1(name) 0
#endif
#if TSR_LEVELS_BUILT >> 2 & 1
#define TSR_LEVEL_IF_2(name) name
#else
#define TSR_LEVEL_IF_2(name) 0
#endif

/* An array's initialiser: what `prefix` names at each level, NULL where the build lacks it. */
#define TSR_LEVELS(prefix) {prefix##_0, TSR_LEVEL_IF_1(prefix##_1), TSR_LEVEL_IF_2(prefix##_2)}

#endif
