/* See shown.h. */
#include "driver/shown.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/fork.h"
#include "base/options.h"
#include "driver/real.h"

#define VARIABLE "CUDA_VISIBLE_DEVICES"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Whether that is the list's first entry. */
static bool is_first_of(const char *shown, const char *list)
{
    size_t length = strcspn(list, ",");
    return *list && shown && strlen(shown) == length && strncmp(shown, list, length) == 0;
}

static void forget_parent(void)
{
    lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
}

static const struct tsr_fork_listener forks = {.in_child = forget_parent};

CUresult tsr_shown_init(unsigned flags)
{
    const char *list = tsr_options()->shown;
    if (!*list)
        return tsr_real.cuInit(flags);
    pthread_mutex_lock(&lock);
    char *shown = getenv(VARIABLE);
    bool hides = is_first_of(shown, list) && (shown = strdup(shown)) && setenv(VARIABLE, list, 1) == 0;
    CUresult result = tsr_real.cuInit(flags);
    tsr_fork_listen(&forks);
    if (hides) {
        setenv(VARIABLE, shown, 1);
        free(shown);
    }
    pthread_mutex_unlock(&lock);
    return result;
}
