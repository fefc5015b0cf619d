/*
 * Checks of what launches touch: what is asked for, and what came out. tessera-run makes a memory file that TESSERA_CHECKS names (/proc/<pid>/fd/<n>); the
 * shims of all processes of a run count in it and say which launches touched what they were not predicted to (check/check.h).
 *
 * The part between the marks is read by Python through cffi as well. Bump TSR_CHECKS_VERSION on any change; both sides refuse another
 * version.
 */
#ifndef TESSERA_CHECKS_H
#define TESSERA_CHECKS_H

#include <stdint.h>

#define TSR_CHECKS_MAGIC 0x4b4548435f525354ull
#define TSR_CHECKS_VERSION 5u

/* cffi: begin */
enum tsr_check_source { /* of what is known of a launch */
                        TSR_CHECK_PTX,
                        TSR_CHECK_MACHINE_CODE,
                        TSR_CHECK_LIBRARY,
                        TSR_CHECK_SOURCES
};

enum tsr_check_skip {                       /* why a launch whose turn it was is not checked */
                      TSR_CHECK_UNKNOWN,    /* with these parameters it may write anything */
                      TSR_CHECK_PARAMETERS, /* they could not be read */
                      TSR_CHECK_BUSY,       /* other work did not become complete, or a thread stayed inside a call */
                      TSR_CHECK_MEMORY,     /* no room for a copy of the program's memory */
                      TSR_CHECK_DRIVER,     /* the driver refused something, or the launch */
                      TSR_CHECK_SKIPS
};

enum tsr_check_what { TSR_CHECK_OF_WRITES = 1, TSR_CHECK_OF_ACCESSES = 2 };

enum tsr_check_lack {                    /* why the accesses of a launch whose turn it was are not tested */
                      TSR_CHECK_NO_PTX,  /* what is known of it is from machine code or from a library call */
                      TSR_CHECK_NO_TWIN, /* its PTX cannot be rewritten */
                      TSR_CHECK_REFUSED, /* the driver does not load the clone, does not launch it, or does not say where variables are */
                      TSR_CHECK_PARTLY, /* they are, but not all */
                      TSR_CHECK_LACKS
};

enum tsr_check_claim { /* that a launch does not need what is in some bytes, because */
                       TSR_CHECK_CLAIM_NONE,
                       TSR_CHECK_CLAIM_OVERWRITTEN, /* it writes them in any case */
                       TSR_CHECK_CLAIM_SCRATCH      /* they are its work area */
};

enum tsr_check_claims { /* what became of a checked launch's claims */
                        TSR_CHECK_CLAIMS_TESTED,
                        TSR_CHECK_CLAIMS_UNTESTED, /* no room for a second copy, or what it may write is not looked at */
                        TSR_CHECK_CLAIMS_UNSTEADY, /* it gives other results in each run */
                        TSR_CHECK_CLAIMS_OUTCOMES
};

struct tsr_check_untested { /* a function of which launches are not tested */
    uint32_t ready;         /* atomic, release: the rest is written */
    uint32_t process, lack; /* its id; enum tsr_check_lack */
    uint32_t reserved;
    uint64_t launches; /* atomic */
    char why[112];     /* cut off if longer, as is */
    char function[512];
};

struct tsr_check_parameter {
    uint16_t offset, bytes;
};

struct
    tsr_check_range { /* that a launch was predicted to touch: [low, high), of these `width` at low and at each stride after it */
    uint64_t low, high, stride, width; /* stride 0: all */
    int32_t parameter;                 /* -1: none holds its base */
    uint32_t whole;                    /* 1: little is known but the allocation */
};

struct tsr_check_violation {  /* a launch that touched what it was not predicted to */
    uint32_t ready;           /* atomic, release: the rest is written */
    uint32_t process, source; /* its id; enum tsr_check_source */
    uint32_t grid[3], block[3];
    uint32_t shared_bytes;
    uint32_t parameter_count, parameter_bytes; /* all of them; as many as there is room for follow */
    uint32_t access,
        line;          /* 0: bytes changed. Else 1 + enum tsr_access_kind, and where in the PTX: of one access of a thread */
    uint64_t accesses; /* how many of these there were */
    uint64_t address, bytes; /* of the first such byte, of that access or of all; how many changed, or that access touches */
    uint64_t allocation, allocation_bytes; /* that it lies in; 0: in none, any more or yet */
    uint8_t before, after;                 /* its values */
    uint64_t code;                         /* hash of the image that the function is in; 0: not known */
    uint32_t predicted_count;              /* ranges; the first are listed */
    uint32_t
        claim; /* enum tsr_check_claim: bytes came out otherwise (`after`, not `before`) when what it is said not to need had other values */
    struct tsr_check_range claimed; /* of these, a range */
    struct tsr_check_range predicted[16];
    char function[512];    /* cut off if longer */
    char library_call[64]; /* that it happened in; else empty */
    struct tsr_check_parameter parameters[64];
    uint8_t values[1024]; /* the parameter block */
};

struct tsr_checks {
    uint64_t magic;
    uint32_t version;
    uint32_t bytes; /* of this struct */
    /* asked for */
    uint32_t every;        /* one of so many launches that are known, as if at random, and the first of each function */
    uint32_t what;         /* set of enum tsr_check_what */
    uint64_t seed;         /* another one draws other launches */
    uint64_t most;         /* drawn launches that are checked at most (a few more with several threads); 0: no limit */
    uint64_t memory_bytes; /* of a copy of the program's memory, at most; 0: no limit */
    /* live: written by the shims, atomic */
    uint64_t known, unknown;       /* launches on the home GPU, not into graphs: something is known of them, or nothing */
    uint64_t checked;              /* of the known ones */
    uint64_t checked_by_source[3]; /* the same by enum tsr_check_source */
    uint64_t first;                /* of the checked ones, only because they were the first of their function */
    uint64_t whole;                /* of these, with a write that is only known as its allocation */
    uint64_t outside;              /* of these, with a predicted write to memory that is not looked at */
    uint64_t skipped[5];           /* by enum tsr_check_skip */
    uint64_t idle;                 /* of the checked ones, that changed no byte */
    uint64_t changed_bytes;        /* by the checked ones, as predicted */
    uint64_t predicted_bytes;      /* that these were predicted to write */
    uint64_t looked_at_bytes;      /* of the program's memory, sum over the checked ones */
    uint64_t check_ns;             /* they took */
    uint64_t claims[3];            /* of the checked ones, with claims, by enum tsr_check_claims */
    uint64_t filled_bytes;         /* to test these */
    uint64_t tested_launches;      /* of the checked ones, whose accesses were tested */
    uint64_t tested;               /* accesses of threads, sum over those */
    uint64_t untested[4];          /* launches by enum tsr_check_lack */
    uint64_t untested_functions;   /* of these; the first are listed: */
    struct tsr_check_untested told_untested[256];
    uint64_t violations; /* of the checked launches; the first are listed: */
    struct tsr_check_violation told[64];
};
/* cffi: end */

#endif
