/*
 * Sources that are compiled once per instruction-set level of the CPU: 0 baseline x86-64, 1 x86-64-v3, 2 x86-64-v4. The build defines
 * TSR_LEVEL; external names get the level as a suffix.
 */
#ifndef TSR_EXEC_LEVEL_H
#define TSR_EXEC_LEVEL_H

#define TSR_LEVEL_PASTE(name, level) name##_##level
#define TSR_LEVEL_EXPAND(name, level) TSR_LEVEL_PASTE(name, level)
#define TSR_LEVELED(name) TSR_LEVEL_EXPAND(name, TSR_LEVEL)

#endif
