/* Keeping executors' mirrors of instances up to date. */
#ifndef TSR_GRAPH_MIRROR_H
#define TSR_GRAPH_MIRROR_H

#include "graph/instance.h"

/* Executors forget the instance. Its lock is held, or nobody else knows it. */
void tsr_mirrors_drop(struct tsr_instance *instance);

#endif
