/* See launch.h. */
#include "launch/launch.h"

#include "object/registry.h"

bool tsr_launch_gather_now(const struct tsr_launch *launch)
{
    struct tsr_gathered *gathered = launch->gathered;
    gathered->done =
        launch->known && !launch->opaque &&
        tsr_parameters_gather(&launch->known->parameters, launch->params, launch->extra, gathered->values, &gathered->bytes);
    return gathered->done;
}
