/* See functions.h. */
#include "lane/functions.h"

#include <pthread.h>
#include <string.h>

#include "base/fork.h"
#include "lane/lane_client.h"
#include "driver/real.h"
#include "object/collective.h"
#include "object/session.h"
#include "globals/globals.h"

#define HIGHEST_ADDRESS (1ull << 49) /* of GPUs */
#define CACHE_PLACE (TSR_FUNCTION_ATTRIBUTES - 1u)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* what is known of functions */
static pthread_mutex_t sending[TSR_LANES] = {[0 ... TSR_LANES - 1] =
                                                 PTHREAD_MUTEX_INITIALIZER}; /* by lane; held for long, taken before `lock` */

static void forget_parent(void)
{
    lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    for (uint32_t i = 0; i < TSR_LANES; i++)
        sending[i] = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
}

static const struct tsr_fork_listener forks = {.in_child = forget_parent};

void tsr_functions_start(void)
{
    tsr_fork_listen(&forks);
}

void tsr_functions_unload(struct tsr_module_record *module)
{
    struct tsr_session *session = tsr_session();
    for (uint32_t i = 0; session && i < session->lane_count; i++)
        if (__atomic_load_n(&module->sent, __ATOMIC_RELAXED) & (1u << i)) {
            struct tsr_message unload = {.kind = TSR_MESSAGE_UNLOAD, .id = module->id};
            tsr_lane_ask(session->lanes[i], &unload, -1);
        }
}

static uint32_t attribute_of(const struct tsr_function_record *function, CUfunction_attribute attribute, int fallback)
{
    CUdevice device;
    int value = fallback;
    if (!function->is_kernel)
        tsr_real.cuFuncGetAttribute(&value, attribute, (CUfunction)function->handle);
    else if (tsr_real.cuCtxGetDevice(&device) == CUDA_SUCCESS)
        tsr_real.cuKernelGetAttribute(&value, attribute, (CUkernel)function->handle, device);
    return (uint32_t)value;
}

void tsr_function_ask(struct tsr_function_record *function)
{
    tsr_function_read_parameters(function);
    pthread_mutex_lock(&lock);
    if (!function->described) {
        function->max_threads = attribute_of(function, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1024);
        function->most_shared_bytes = attribute_of(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 48 << 10);
        function->is_collective = tsr_is_collective_code(function);
        __atomic_store_n(&function->described, function->parameters.known, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&lock);
}

static CUresult send_attribute(uint32_t function, struct tsr_lane_client *lane, unsigned place, int value)
{
    struct tsr_message message = {.kind = TSR_MESSAGE_ATTRIBUTE,
                                  .id = function,
                                  .detail = place == CACHE_PLACE ? TSR_ATTRIBUTE_CACHE : (int32_t)place,
                                  .value = value};
    return tsr_lane_ask(lane, &message, -1);
}

static CUresult send_attributes_of(uint32_t function, struct tsr_lane_client *lane, uint32_t set, const int *values)
{
    CUresult result = CUDA_SUCCESS;
    for (unsigned place = 0; place < TSR_FUNCTION_ATTRIBUTES && result == CUDA_SUCCESS; place++)
        if (set >> place & 1)
            result = send_attribute(function, lane, place, values[place]);
    return result;
}

/* Marks the function as sent, or as refused with these attributes. What the application sets after that, it sends itself. */
static CUresult send_attributes(struct tsr_function_record *function, struct tsr_lane_client *lane)
{
    uint16_t bit = (uint16_t)(1u << tsr_lane_number(lane));
    int values[TSR_FUNCTION_ATTRIBUTES];
    CUresult result;
    bool complete;
    do {
        pthread_mutex_lock(&lock);
        uint32_t set = function->attributes_set, changes = function->attribute_changes;
        memcpy(values, function->attributes, sizeof values);
        pthread_mutex_unlock(&lock);
        result = send_attributes_of(function->id, lane, set, values);
        pthread_mutex_lock(&lock);
        complete = changes == function->attribute_changes;
        if (complete && result == CUDA_SUCCESS)
            __atomic_fetch_or(&function->sent, bit, __ATOMIC_RELEASE);
        else if (complete && tsr_lane_state(lane) == CUDA_SUCCESS)
            __atomic_fetch_or(&function->refused, bit, __ATOMIC_RELAXED);
        pthread_mutex_unlock(&lock);
    } while (!complete);
    return result;
}

/* Of a module, or of a function of a library, that an executor was asked to load. The home GPU has loaded it: PTX that is none is of a newer GPU. */
static void note_code(struct tsr_module_record *module, uint16_t bit, CUresult result)
{
    if (result == CUDA_ERROR_NO_BINARY_FOR_GPU || result == CUDA_ERROR_INVALID_PTX)
        __atomic_fetch_or(&module->foreign, bit, __ATOMIC_RELAXED);
}

/* NOT_SUPPORTED: the executor cannot load it. */
static CUresult send_module_locked(struct tsr_module_record *module, struct tsr_lane_client *lane)
{
    uint16_t bit = (uint16_t)(1u << tsr_lane_number(lane));
    if (__atomic_load_n(&module->sent, __ATOMIC_RELAXED) & bit)
        return CUDA_SUCCESS;
    bool refused = __atomic_load_n(&module->refused, __ATOMIC_RELAXED) & bit;
    struct tsr_message load = {
        .kind = TSR_MESSAGE_MODULE, .id = module->id, .bytes = module->bytes, .detail = module->is_library};
    CUresult result = refused ? CUDA_ERROR_NOT_SUPPORTED : tsr_lane_ask(lane, &load, module->image);
    if (result != CUDA_SUCCESS && tsr_lane_state(lane) != CUDA_SUCCESS)
        return tsr_lane_state(lane);
    note_code(module, bit, result);
    __atomic_fetch_or(result == CUDA_SUCCESS ? &module->sent : &module->refused, bit, __ATOMIC_RELAXED);
    return result == CUDA_SUCCESS ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
}

static CUresult send_locked(struct tsr_function_record *function, struct tsr_lane_client *lane)
{
    struct tsr_module_record *module = function->module;
    uint16_t bit = (uint16_t)(1u << tsr_lane_number(lane));
    CUresult result = send_module_locked(module, lane);
    if (result != CUDA_SUCCESS)
        return result;
    if (__atomic_load_n(&function->refused, __ATOMIC_RELAXED) & bit)
        return CUDA_ERROR_NOT_SUPPORTED;
    struct tsr_message name = {.kind = TSR_MESSAGE_FUNCTION, .id = function->id, .parent = module->id};
    if (strlen(function->name) >= sizeof name.text) {
        __atomic_fetch_or(&function->refused, bit, __ATOMIC_RELAXED);
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    strcpy(name.text, function->name);
    struct tsr_reply reply;
    result = tsr_lane_inquire(lane, &name, &reply);
    note_code(module, bit, result);
    __atomic_fetch_or(&function->globals, reply.flags, __ATOMIC_RELAXED);
    __atomic_fetch_or(&function->variables, reply.variables, __ATOMIC_RELAXED);
    if (result == CUDA_SUCCESS)
        return send_attributes(function, lane);
    if (tsr_lane_state(lane) == CUDA_SUCCESS)
        __atomic_fetch_or(&function->refused, bit, __ATOMIC_RELAXED);
    return result;
}

/* NOT_SUPPORTED: the executor cannot load its module. Errors: of one that has failed. */
static CUresult send(struct tsr_function_record *function, struct tsr_lane_client *lane)
{
    uint32_t number = tsr_lane_number(lane);
    if (__atomic_load_n(&function->sent, __ATOMIC_ACQUIRE) >> number & 1)
        return CUDA_SUCCESS;
    uint32_t refused =
        __atomic_load_n(&function->module->refused, __ATOMIC_RELAXED) | __atomic_load_n(&function->refused, __ATOMIC_RELAXED);
    if (refused >> number & 1) /* nothing more is known of it than before */
        return CUDA_ERROR_NOT_SUPPORTED;
    pthread_mutex_lock(&sending[number]);
    bool sent = __atomic_load_n(&function->sent, __ATOMIC_ACQUIRE) >> number & 1; /* by another thread, meanwhile */
    CUresult result = sent ? CUDA_SUCCESS : send_locked(function, lane);
    pthread_mutex_unlock(&sending[number]);
    tsr_function_changed(); /* of what it uses more may be known now */
    return result;
}

enum tsr_reason tsr_function_refusal(const struct tsr_function_record *function, const struct tsr_lane_client *lane)
{
    uint16_t foreign = __atomic_load_n(&function->module->foreign, __ATOMIC_RELAXED);
    return foreign >> tsr_lane_number(lane) & 1 ? TSR_REASON_ARCHITECTURE : TSR_REASON_EXECUTOR;
}

enum tsr_reason tsr_function_reason_sent(const struct tsr_function_record *function)
{
    uint32_t globals = __atomic_load_n(&function->globals, __ATOMIC_RELAXED);
    uint64_t held = __atomic_load_n(&function->module->held, __ATOMIC_RELAXED);
    if (globals & TSR_GLOBALS_PRINTF)
        return TSR_REASON_PRINTF;
    if (globals & TSR_GLOBALS_HEAP)
        return TSR_REASON_HEAP;
    if (globals & TSR_GLOBALS_CODE)
        return TSR_REASON_CODE;
    if ((globals & TSR_GLOBALS_STATE) || (held & __atomic_load_n(&function->variables, __ATOMIC_RELAXED)))
        return TSR_REASON_VARIABLE;
    return globals & TSR_GLOBALS_ADDRESS ? TSR_REASON_ADDRESS : TSR_REASON_NONE;
}

uint64_t tsr_function_changes = 1;

void tsr_function_changed(void)
{
    __atomic_add_fetch(&tsr_function_changes, 1, __ATOMIC_SEQ_CST);
}

enum tsr_reason tsr_function_reason_unsent(const struct tsr_function_record *function)
{
    if (__atomic_load_n(&function->different, __ATOMIC_RELAXED))
        return TSR_REASON_VERIFY;
    if (function->is_collective)
        return TSR_REASON_OTHER_GPUS;
    return function->module && function->module->image >= 0 ? TSR_REASON_NONE : TSR_REASON_MODULE;
}

/* What was found after `changes`. Another thread's note may win; then the next launch finds it again. */
static void note_fit(struct tsr_function_record *function, uint32_t lane, uint64_t changes)
{
    uint64_t old = __atomic_load_n(&function->fit, __ATOMIC_RELAXED);
    uint64_t fit = (old >> TSR_FIT_LANES == changes ? old : changes << TSR_FIT_LANES) | 1ull << lane;
    __atomic_compare_exchange_n(&function->fit, &old, fit, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED);
}

CUresult tsr_function_prepare(struct tsr_function_record *function, struct tsr_lane_client *lane, enum tsr_reason *reason)
{
    CUresult result = send(function, lane);
    if (result != CUDA_SUCCESS && tsr_lane_state(lane) != CUDA_SUCCESS)
        return result;
    uint64_t changes = __atomic_load_n(&tsr_function_changes, __ATOMIC_ACQUIRE); /* before what is looked at */
    *reason = result == CUDA_SUCCESS ? tsr_function_reason_sent(function) : tsr_function_refusal(function, lane);
    if (*reason == TSR_REASON_NONE && tsr_function_reason_unsent(function) == TSR_REASON_NONE)
        note_fit(function, tsr_lane_number(lane), changes);
    return CUDA_SUCCESS;
}

/* Not of what the shim places itself, the same for all GPUs. */
static bool may_be_stored_address(uint64_t word)
{
    bool placed = word - TSR_ARENA_ADDRESS < TSR_ARENA_BYTES + TSR_RESERVE_BYTES || tsr_host_covers(word);
    return word > UINT32_MAX && word < HIGHEST_ADDRESS && !placed;
}

static bool may_hold_stored_address(const uint8_t *block, uint32_t begin, uint32_t end)
{
    for (uint32_t offset = (begin + 7) / 8 * 8; offset + sizeof(uint64_t) <= end; offset += sizeof(uint64_t)) {
        uint64_t word;
        memcpy(&word, block + offset, sizeof word);
        if (may_be_stored_address(word))
            return true;
    }
    return false;
}

/* Parameter by parameter if their layout is known: two 4-byte numbers are not an address. */
enum tsr_reason tsr_function_scan_stored(const struct tsr_function_record *function, const void *block, uint32_t bytes)
{
    const struct tsr_parameters *parameters = &function->parameters;
    bool known = __atomic_load_n(&parameters->known, __ATOMIC_ACQUIRE) && parameters->all && parameters->bytes <= bytes;
    bool found = false;
    if (!known)
        found = may_hold_stored_address(block, 0, bytes);
    for (uint32_t i = 0; known && !found && i < parameters->count; i++) {
        const struct tsr_parameter *each = &parameters->all[i];
        found = may_hold_stored_address(block, each->offset, each->offset + (uint32_t)each->bytes);
    }
    return found ? TSR_REASON_ADDRESS : TSR_REASON_NONE;
}

static uint64_t bit_of(const char *variable)
{
    return variable ? tsr_variable_bit(variable, strlen(variable)) : UINT64_MAX;
}

void tsr_module_hold(struct tsr_module_record *module, const char *variable)
{
    __atomic_fetch_or(&module->held, bit_of(variable), __ATOMIC_RELAXED);
    tsr_function_changed();
}

bool tsr_module_holds(const struct tsr_module_record *module, const char *variable)
{
    return __atomic_load_n(&module->held, __ATOMIC_RELAXED) & bit_of(variable);
}

CUresult tsr_module_locate(const struct tsr_module_record *module, const char *variable, CUdeviceptr *address, size_t *bytes)
{
    if (module->is_library)
        return tsr_real.cuLibraryGetGlobal(address, bytes, (CUlibrary)module->handle, variable);
    return tsr_real.cuModuleGetGlobal_v2(address, bytes, (CUmodule)module->handle, variable);
}

bool tsr_module_leads_to(struct tsr_module_record *module, const char *variable)
{
    const struct tsr_session *session = tsr_session();
    struct tsr_message look = {.kind = TSR_MESSAGE_VARIABLE, .parent = module->id};
    struct tsr_reply reply;
    if (!session || !session->lane_count || module->image < 0 || strlen(variable) >= sizeof look.text)
        return true;
    strcpy(look.text, variable);
    struct tsr_lane_client *lane = session->lanes[0];
    pthread_mutex_lock(&sending[tsr_lane_number(lane)]);
    bool known = send_module_locked(module, lane) == CUDA_SUCCESS && tsr_lane_inquire(lane, &look, &reply) == CUDA_SUCCESS &&
                 !tsr_lane_is_lost(lane); /* which answers nothing, and no error if its loss is none */
    pthread_mutex_unlock(&sending[tsr_lane_number(lane)]);
    return !known || reply.flags;
}

static CUresult send_attribute_to_all_locked(struct tsr_function_record *function, unsigned place)
{
    const struct tsr_session *session = tsr_session();
    uint16_t sent = __atomic_load_n(&function->sent, __ATOMIC_ACQUIRE);
    if (__atomic_exchange_n(&function->refused, 0, __ATOMIC_RELAXED)) {
        __atomic_store_n(&function->was_listed, false, __ATOMIC_RELAXED);
        tsr_function_changed();
    }
    for (uint32_t i = 0; session && i < session->lane_count; i++) {
        uint16_t bit = (uint16_t)(1u << i);
        if (!(sent & bit) ||
            send_attribute(function->id, session->lanes[i], place, function->attributes[place]) == CUDA_SUCCESS)
            continue;
        if (tsr_lane_state(session->lanes[i]) != CUDA_SUCCESS)
            return tsr_lane_state(session->lanes[i]);
        __atomic_fetch_and(&function->sent, (uint16_t)~bit, __ATOMIC_RELEASE);
        tsr_function_changed();
        __atomic_fetch_or(&function->refused, bit, __ATOMIC_RELAXED);
    }
    return CUDA_SUCCESS;
}

static CUresult set_attribute(const void *handle, unsigned place, int value)
{
    struct tsr_function_record *function = tsr_session() ? tsr_function_find(handle) : NULL;
    if (!function)
        return CUDA_SUCCESS;
    pthread_mutex_lock(&lock);
    bool same = (function->attributes_set >> place & 1) && function->attributes[place] == value;
    function->attributes_set |= 1u << place;
    function->attributes[place] = value;
    function->attribute_changes += !same;
    if (place == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES)
        function->most_shared_bytes = (uint32_t)value;
    CUresult result = same ? CUDA_SUCCESS : send_attribute_to_all_locked(function, place);
    pthread_mutex_unlock(&lock);
    return result;
}

CUresult tsr_function_set_attribute(const void *handle, CUfunction_attribute attribute, int value)
{
    return (unsigned)attribute < CACHE_PLACE ? set_attribute(handle, (unsigned)attribute, value) : CUDA_SUCCESS;
}

CUresult tsr_function_set_cache(const void *handle, CUfunc_cache config)
{
    return set_attribute(handle, CACHE_PLACE, (int)config);
}
