/*
 * tessera-executor --prove DESCRIPTOR --owner PID: tests whether the GPUs of a policy copy each other's memory without errors. On some machines, with an
 * IOMMU or PCIe access control between GPUs, such copies arrive corrupted, and no call reports an error. DESCRIPTOR is the decision table
 * (tessera/policy.h), into which the answers go while the program starts; of corrupted copies the user is warned.
 */
#ifndef TSR_EXECUTOR_PROVE_H
#define TSR_EXECUTOR_PROVE_H

/* The program's exit status. arguments: what follows --prove. */
int tsr_prove(int count, char **arguments);

#endif
