/*
 * Directories where the real driver is looked for when neither TESSERA_DRIVER, LD_LIBRARY_PATH nor the dynamic loader's cache leads to it.
 * Read by C and, as text, by Python; in both, libcuda.so.1 counts first in a directory, then the newest libcuda.so.<version>.
 */
#ifndef TESSERA_DRIVER_PLACES_H
#define TESSERA_DRIVER_PLACES_H

#define TSR_DRIVER_PLACES(X)                                                                                                   \
    X("/usr/lib/x86_64-linux-gnu")                                                                                             \
    X("/usr/lib64")                                                                                                            \
    X("/usr/local/nvidia/lib64")                                                                                               \
    X("/usr/lib/wsl/lib")                                                                                                      \
    X("/run/opengl-driver/lib")                                                                                                \
    X("/usr/lib")

#endif
