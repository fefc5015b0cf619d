/* How many GPUs a machine may have: they are numbered from 0, and one of them is home. Python's reader of the other headers knows this name. */
#ifndef TESSERA_GPUS_H
#define TESSERA_GPUS_H

#define TSR_GPUS 16u

#endif
