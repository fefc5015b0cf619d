/*
 * tessera-executor --prove DESCRIPTOR --owner PID: whether the GPUs of a policy, whose decision table (tessera/policy.h) the descriptor is,
 * copy each other's memory without a wrong byte. There are machines, with an IOMMU or PCIe access control between GPUs, on which such
 * copies arrive wrong and nobody is told. The answers go into the table, beside the start of the program; of wrong ones the user is told.
 */
#ifndef TSR_EXECUTOR_PROVE_H
#define TSR_EXECUTOR_PROVE_H

/* The program's exit status. arguments: what follows --prove. */
int tsr_prove(int count, char **arguments);

#endif
