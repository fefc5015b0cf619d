/*
 * Decodes all PTX in files: PTX text, or anything in which fat binary containers lie (libraries). One JSON line per module on standard
 * output: bytes, kernels, milliseconds of processor time, and for each kernel that does not decode its name, line and message. A kernel that fails is
 * blanked and the module tried again, so that every kernel is judged on its own; a .func that fails takes the kernels with it that name it.
 *
 *     ptx_survey FILE...
 *
 * The device has compute capability 12.0, or that of the module's target where it is architecture-specific.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "emulator/isa/op.h"
#include "image/parts.h"
#include "emulator/ptx/code.h"
#include "tessera/machine.h"

static struct tsr_device_desc device; /* compute capability 12.0, or what an architecture-specific target asks for */

struct module {
    const char *file;
    char *text; /* NUL-terminated copy */
    size_t length;
    uint32_t kernels, failed;
};

static double cpu_ms(void)
{
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (double)time.tv_sec * 1e3 + (double)time.tv_nsec / 1e6;
}

static void print_string(const char *text, size_t length)
{
    putchar('"');
    for (size_t i = 0; i < length && text[i]; i++)
        if (text[i] == '"' || text[i] == '\\')
            printf("\\%c", text[i]);
        else if ((unsigned char)text[i] >= ' ')
            putchar(text[i]);
    putchar('"');
}

/* The function header (.entry or .func at the beginning of a line) before the place, or NULL. */
static char *header_before(struct module *module, char *place)
{
    for (char *at = place; at > module->text; at--)
        if ((at[-1] == '\n' || at[-1] == ' ') && (strncmp(at, ".entry", 6) == 0 || strncmp(at, ".func", 5) == 0))
            return at;
    return NULL;
}

static char *line_begin(struct module *module, uint32_t line)
{
    char *at = module->text;
    while (line > 1 && (at = strchr(at, '\n')) != NULL) {
        at++;
        line--;
    }
    return at;
}

static size_t name_of(char *header, char **name)
{
    char *at = header + (header[1] == 'e' ? 6 : 5);
    at += strspn(at, " \t\n");
    if (*at == '(')
        at = strchr(at, ')') ? strchr(at, ')') + 1 : at;
    at += strspn(at, " \t\n");
    *name = at;
    return strcspn(at, " \t\n(;{");
}

/* Empties the body that the header begins; false when there is none. */
static bool blank_body(char *header)
{
    char *at = strchr(header, '{');
    unsigned depth = 0;
    if (!at)
        return false;
    for (char *place = at; *place; place++) {
        depth += *place == '{';
        depth -= *place == '}';
        if (depth == 0)
            return true;
        if (place != at && *place != '\n')
            *place = ' ';
    }
    return false;
}

static void report(struct module *module, char *header, const struct tsr_ptx_error *error)
{
    char *name = module->text;
    size_t length = header ? name_of(header, &name) : 0;
    printf("%s{\"function\": ", module->failed ? ", " : "");
    print_string(name, length);
    printf(", \"line\": %u, \"column\": %u, \"message\": ", error->line, error->column);
    print_string(error->message, strlen(error->message));
    printf("}");
    module->failed++;
}

/* Kernels that name a function which does not decode fail with it. */
static void fail_users(struct module *module, const char *function, size_t length, const struct tsr_ptx_error *error)
{
    char name[512];
    snprintf(name, sizeof name, "%.*s", (int)length, function);
    for (char *at = module->text; (at = strstr(at, name)) != NULL; at++) {
        char *header = header_before(module, at);
        char *body = header ? strchr(header, '{') : NULL;
        if (header && header[1] == 'e' && body && body < at) {
            report(module, header, error);
            blank_body(header);
        }
    }
}

static void choose_device(const struct module *module)
{
    const char *target = strstr(module->text, ".target sm_");
    char *suffix = NULL;
    unsigned long arch = target ? strtoul(target + 11, &suffix, 10) : 0;
    if (!suffix || *suffix != 'a')
        arch = 120;
    device.compute_major = (uint32_t)arch / 10;
    device.compute_minor = (uint32_t)arch % 10;
}

static void decode_module(struct module *module, uint32_t arch)
{
    uint32_t instructions = 0, frame = 0;
    struct tsr_ptx_error error;
    struct tsr_ptx_code *code = NULL;
    for (char *at = module->text; (at = strstr(at, ".entry")) != NULL; at++)
        module->kernels++;
    printf("{\"file\": ");
    print_string(module->file, strlen(module->file));
    printf(", \"arch\": %u, \"bytes\": %zu, \"kernels\": %u, \"failures\": [", arch, module->length, module->kernels);
    choose_device(module);
    double begin = cpu_ms();
    CUresult result = tsr_code_create(module->text, module->length, &device, &code, &error);
    double time = cpu_ms() - begin;
    while (result != CUDA_SUCCESS) {
        char *header = header_before(module, line_begin(module, error.line) + 1), *name;
        if (!header || !blank_body(header)) { /* not in a function: nothing of the module can be used */
            report(module, NULL, &error);
            module->failed = module->kernels;
            break;
        }
        if (header[1] == 'e') {
            report(module, header, &error);
        } else {
            size_t length = name_of(header, &name);
            fail_users(module, name, length, &error);
        }
        result = tsr_code_create(module->text, module->length, &device, &code, &error);
    }
    for (uint32_t i = 0; result == CUDA_SUCCESS && i < code->function_count; i++) {
        instructions += code->functions[i].insn_count;
        frame = code->functions[i].frame_bytes > frame ? code->functions[i].frame_bytes : frame;
    }
    if (result == CUDA_SUCCESS)
        tsr_code_destroy(code);
    printf("], \"failed\": %u, \"instructions\": %u, \"largest_frame_bytes\": %u, \"ms\": %.3f}\n", module->failed,
           instructions, frame, time);
    fflush(stdout);
}

static bool is_ptx(void *context, uint32_t arch, bool machine)
{
    (void)context, (void)arch;
    return !machine;
}

static void visit(void *context, struct tsr_span text, uint32_t arch)
{
    struct module module = {.file = context, .length = text.size};
    while (module.length && text.data[module.length - 1] == 0)
        module.length--;
    module.text = calloc(1, module.length + 1);
    memcpy(module.text, text.data, module.length);
    decode_module(&module, arch);
    free(module.text);
}

static bool is_container(const uint8_t *at)
{
    return tsr_read32(at) == 0xba55ed50 && tsr_read16(at + 4) == 1 && tsr_read16(at + 6) == 16;
}

static void survey(char *name, struct tsr_span file)
{
    bool found = false;
    for (size_t at = 0; at + 16 <= file.size;) {
        const uint8_t *next = memchr(file.data + at, 0x50, file.size - at - 15);
        if (!next)
            break;
        at = (size_t)(next - file.data);
        uint64_t size = is_container(next) ? tsr_read64(next + 8) : 0;
        if (!is_container(next) || size > file.size - at - 16) {
            at++;
            continue;
        }
        found = true;
        if (tsr_fatbin_each((struct tsr_span){next, size + 16}, is_ptx, visit, name) != CUDA_SUCCESS)
            fprintf(stderr, "%s: damaged container at %zu\n", name, at);
        at += size + 16;
    }
    if (!found)
        visit(name, file, 0);
}

int main(int argc, char **argv)
{
    tsr_op_find("join", 4); /* builds the registry, once per process */
    for (int i = 1; i < argc; i++) {
        FILE *stream = fopen(argv[i], "rb");
        if (!stream) {
            fprintf(stderr, "%s: cannot be opened\n", argv[i]);
            return 2;
        }
        fseek(stream, 0, SEEK_END);
        size_t size = (size_t)ftell(stream);
        rewind(stream);
        uint8_t *data = malloc(size + 1);
        if (!data || fread(data, 1, size, stream) != size)
            return 2;
        fclose(stream);
        survey(argv[i], (struct tsr_span){data, size});
        free(data);
    }
    return 0;
}
