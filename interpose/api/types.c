/* The exported functions have the types that cudaTypedefs.h gives their names: checked by the compiler, nothing at run time. */
#include "api/driver.h"

#include <cudaTypedefs.h>

#define CHECK_TYPE(symbol, type) _Static_assert(__builtin_types_compatible_p(__typeof__(&symbol), type), #symbol);
#define TSR_DRIVER(symbol, class, status, type) CHECK_TYPE(symbol, type)
#define TSR_DRIVER_TWIN(symbol, base, type)                                                                                    \
    CHECK_TYPE(symbol, type)                                                                                                   \
    CHECK_TYPE(base, type)
#include "api/driver.def"
