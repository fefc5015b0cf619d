/* The start of everything: the process' own cuInit. */
#include "driver/engaged.h"

#include <pthread.h>

#include "base/fork.h"
#include "driver/gpus.h"
#include "driver/real.h"
#include "driver/shown.h"
#include "graph/instance.h"
#include "record/pull_record.h"
#include "record/recorder.h"
#include "shim/redirect.h"
#include "shim/seen.h"
#include "lane/functions.h"
#include "lane/prepared.h"
#include "memory/constants.h"
#include "shim/start.h"
#include "object/templates.h"
#include "object/registry.h"

static pthread_mutex_t starting = PTHREAD_MUTEX_INITIALIZER; /* threads may initialise CUDA at the same time */

static void forget_parent(void)
{
    starting = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
}

static const struct tsr_fork_listener forks = {.in_child = forget_parent};

static void start(struct tsr_anchor before_init)
{
    tsr_engaged_prepare();
    tsr_gpus_start();
    tsr_registry_start();
    tsr_functions_start();
    tsr_registry_listen(tsr_prepared_forget);
    tsr_registry_listen(tsr_instances_unload);
    tsr_registry_listen(tsr_functions_unload);
    tsr_registry_listen(tsr_constants_free);
    tsr_recorder_start(before_init);
    tsr_pull_records_start();
    tsr_templates_start();
    tsr_redirect_start();
    tsr_session_start();
}

CUresult CUDAAPI cuInit(unsigned int Flags)
{
    if (!tsr_real_open())
        return CUDA_ERROR_NO_DEVICE;
    struct tsr_anchor before_init = tsr_recorder_before_init();
    tsr_seen_start();
    CUresult result = tsr_shown_init(Flags);
    if (result != CUDA_SUCCESS)
        return result;
    tsr_fork_listen(&forks);
    pthread_mutex_lock(&starting);
    start(before_init);
    pthread_mutex_unlock(&starting);
    return result;
}
