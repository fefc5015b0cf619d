/* Launches while a session exists: each is posted to an executor, or forwarded at home. */
#ifndef TSR_SHIM_REDIRECT_H
#define TSR_SHIM_REDIRECT_H

#include "api/driver.h"

struct tsr_launch;

/* Posts the launch if it is to run elsewhere; else makes sure that it may run at home, and holds its stream until tsr_order_leave. Errors: the driver's, or the executor's. */
CUresult tsr_redirect(struct tsr_launch *launch);

/* The driver has taken a launch that the session placed at home; its stream is still held. */
void tsr_redirect_launched(struct tsr_launch *launch);

/* After the driver has answered: counts it, and finds out what kept it at home if nothing has yet. */
void tsr_redirect_finish(struct tsr_launch *launch, CUresult result);

/* Launches that a lost executor had not taken are counted at home. */
void tsr_redirect_start(void);

#endif
