/* See templates.h. */
#include "object/templates.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tessera/templates.h>

#include "base/log.h"
#include "base/options.h"
#include "base/os.h"
#include "driver/real.h"
#include "object/shapes.h"

#define MOST_DISTRUSTED 256u /* when there are as many, all are */

static const uint32_t nothing_published;
const uint32_t *tsr_templates_published = &nothing_published;

uint32_t tsr_templates_distrusted;

static pthread_mutex_t distrust_lock = PTHREAD_MUTEX_INITIALIZER; /* adding one */
static const void *distrusted[MOST_DISTRUSTED];                   /* the first tsr_templates_distrusted stay as they are */

static const struct tsr_templates *table;          /* of TSR_TEMPLATES_BYTES; NULL: none */
static uint32_t architectures[TSR_TEMPLATE_KINDS]; /* as slots have them; 0: of no GPU */

uint8_t tsr_templates_kinds[TSR_TEMPLATE_GPUS];

static uint32_t architecture_of(CUdevice device)
{
    int major = 0, minor = 0;
    tsr_real.cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device);
    tsr_real.cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device);
    return (uint32_t)(10 * major + minor);
}

/* Of the architecture, which is added if it is new and there is room. */
static uint8_t kind_of(uint32_t architecture)
{
    uint8_t kind = 0;
    while (kind < TSR_TEMPLATE_KINDS && architectures[kind] && architectures[kind] != architecture)
        kind++;
    if (kind < TSR_TEMPLATE_KINDS)
        architectures[kind] = architecture;
    return kind;
}

static void find_kinds(void)
{
    uint32_t emulated = tsr_options()->machine[0] ? TSR_TEMPLATES_EMULATED : 0;
    int count = 0;
    tsr_real.cuDeviceGetCount(&count);
    for (int i = 0; i < count && i < TSR_TEMPLATE_GPUS; i++) {
        CUdevice device;
        uint32_t own = tsr_real.cuDeviceGet(&device, i) == CUDA_SUCCESS ? architecture_of(device) : 0;
        tsr_templates_kinds[i] = own ? kind_of(own | emulated) : TSR_TEMPLATE_KINDS;
    }
}

static const struct tsr_templates *map_table(const char *path)
{
    struct stat status;
    int descriptor = tsr_os_open_own(path, O_RDONLY);
    if (descriptor < 0)
        return NULL;
    const struct tsr_templates *mapped = MAP_FAILED;
    if (fstat(descriptor, &status) == 0 && status.st_size == TSR_TEMPLATES_BYTES)
        mapped = mmap(NULL, TSR_TEMPLATES_BYTES, PROT_READ, MAP_SHARED | MAP_NORESERVE, descriptor, 0);
    close(descriptor);
    if (mapped == MAP_FAILED)
        return NULL;
    if (mapped->magic == TSR_TEMPLATES_MAGIC && mapped->version == TSR_TEMPLATES_VERSION && mapped->bytes == sizeof *mapped)
        return mapped;
    munmap((void *)mapped, TSR_TEMPLATES_BYTES);
    return NULL;
}

void tsr_templates_start(void)
{
    const char *path = tsr_options()->templates;
    if (table || !path[0])
        return;
    find_kinds();
    table = map_table(path);
    if (table)
        tsr_shapes_start(path);
    if (table)
        __atomic_store_n(&tsr_templates_published, &table->published, __ATOMIC_RELEASE);
    else
        tsr_warn("the table of templates cannot be used; what launches read and write is unknown");
}

static const struct tsr_templates_slot *slot_of(const struct tsr_template_link *link, uint32_t architecture)
{
    const struct tsr_templates_slot *slots = (const void *)((const char *)table + TSR_TEMPLATES_SLOTS_OFFSET);
    uint32_t place = tsr_templates_place(link->code, link->function, architecture);
    for (uint32_t i = 0; i < TSR_TEMPLATES_SLOTS; i++) {
        const struct tsr_templates_slot *slot = &slots[(place + i) % TSR_TEMPLATES_SLOTS];
        if (!__atomic_load_n(&slot->offset, __ATOMIC_ACQUIRE))
            return NULL;
        if (slot->code == link->code && slot->function == link->function && slot->architecture == architecture)
            return slot;
    }
    return NULL;
}

static bool is_inside(uint64_t offset, uint32_t bytes)
{
    return bytes && offset % 8 == 0 && offset <= TSR_SHAPES_OFFSET && bytes <= TSR_SHAPES_OFFSET - offset;
}

const void *tsr_template_search(struct tsr_template_link *link, uint32_t kind)
{
    struct tsr_template_place *place = &link->places[kind];
    uint32_t published = __atomic_load_n(tsr_templates_published, __ATOMIC_ACQUIRE);
    const struct tsr_templates_slot *slot =
        table && architectures[kind] && link->code ? slot_of(link, architectures[kind]) : NULL;
    uint64_t offset = slot ? slot->offset : 0;
    uint32_t bytes = slot ? slot->bytes : 0;
    if (!is_inside(offset, bytes)) {
        __atomic_store_n(&place->seen, published, __ATOMIC_RELAXED);
        return NULL;
    }
    const void *found = (const char *)table + offset;
    __atomic_store_n(&place->bytes, bytes, __ATOMIC_RELAXED);
    __atomic_store_n(&place->found, found, __ATOMIC_RELEASE);
    return found;
}

const char *tsr_template_clone(const struct tsr_template_link *link, uint32_t gpu, uint32_t *bytes)
{
    uint32_t kind = tsr_template_kind(gpu);
    bool found = kind < TSR_TEMPLATE_KINDS && __atomic_load_n(&link->places[kind].found, __ATOMIC_ACQUIRE);
    const struct tsr_templates_slot *slot = found ? slot_of(link, architectures[kind]) : NULL;
    uint64_t offset = slot ? slot->clone : 0;
    *bytes = slot ? slot->clone_bytes : 0;
    if (!is_inside(offset, *bytes))
        return NULL;
    const char *clone = (const char *)table + offset;
    return clone[*bytes - 1] == 0 ? clone : NULL;
}

bool tsr_template_is_distrusted(const void *template)
{
    uint32_t count = __atomic_load_n(&tsr_templates_distrusted, __ATOMIC_ACQUIRE);
    for (uint32_t i = 0; i < count; i++)
        if (distrusted[i] == template)
            return true;
    return count == MOST_DISTRUSTED;
}

void tsr_template_distrust(const void *template)
{
    pthread_mutex_lock(&distrust_lock);
    uint32_t count = tsr_templates_distrusted;
    if (template && count < MOST_DISTRUSTED && !tsr_template_is_distrusted(template)) {
        distrusted[count] = template;
        __atomic_store_n(&tsr_templates_distrusted, count + 1, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&distrust_lock);
}
