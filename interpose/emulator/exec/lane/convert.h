#ifndef TSR_LANE_CONVERT_H
#define TSR_LANE_CONVERT_H
#include "emulator/exec/lane/half.h"
#endif
