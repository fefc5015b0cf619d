#ifndef TSR_LANE_APPROXIMATE_H
#define TSR_LANE_APPROXIMATE_H
#include "emulator/exec/lane/float.h"
#endif
