/* The start of a session: sets up everything that redirecting and checking launches needs. */
#ifndef TSR_SHIM_START_H
#define TSR_SHIM_START_H

/* After the process' own cuInit. Does nothing if this process has a session. */
void tsr_session_start(void);

#endif
