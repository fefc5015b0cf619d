/* The mark that a per-thread form is running; see driver.h. */
#include "api/driver.h"

__thread int tsr_driver_per_thread;
