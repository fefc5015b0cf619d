/*
 * For libraries that are preloaded: takes the place of libc's syscall(), which shim and executors wait and wake by, and says what was called.
 */
#pragma once

/* Written by who includes this: called after each system call, with its number and the six words that the kernel may have taken. */
void syscall_returned(long number, const long *words);
