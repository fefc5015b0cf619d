/*
 * Damages access templates and evaluates them: no input may crash, hang, or read outside of itself, and what is remembered must be what
 * evaluating gives. Deterministic. Build with TESSERA_SANITIZE=address,undefined; an evaluation that takes more than ten seconds ends the
 * program by SIGALRM. Before each input its seed is written to standard output's line, with --verbose.
 *
 *     access_fuzz [--iterations N] [--seed N] [--verbose] TEMPLATE...
 *
 * Templates: tests/corpus/access, or what ptxtools/access/flat.py writes.
 */
#include <stdbool.h>
#include <unistd.h>

#include "access_damage.h"

#define LIMIT_S 10

int main(int argc, char **argv)
{
    uint64_t iterations = 100000, seed = 1, counts[3] = {0};
    bool is_verbose = false;
    int first = 1;
    for (; first < argc && argv[first][0] == '-'; first++) {
        if (strcmp(argv[first], "--verbose") == 0)
            is_verbose = true;
        else if (first + 1 < argc && strcmp(argv[first], "--iterations") == 0)
            iterations = strtoull(argv[++first], NULL, 0);
        else if (first + 1 < argc && strcmp(argv[first], "--seed") == 0)
            seed = strtoull(argv[++first], NULL, 0);
        else
            return 2;
    }
    if (first == argc)
        return 2;
    for (uint64_t i = 0; i < iterations; i++) {
        uint64_t state = (seed + i) * 0x9e3779b97f4a7c15ull | 1;
        struct template_bytes bytes = read_template(argv[first + (int)(i % (uint64_t)(argc - first))]);
        if (bytes.size <= sizeof(struct tsr_access_template))
            return 2;
        if (is_verbose)
            printf("%llu\n", (unsigned long long)(seed + i));
        fflush(stdout);
        alarm(LIMIT_S);
        int verdict = damage_and_evaluate(&bytes, &state);
        counts[1 + verdict]++;
        if (verdict < 0)
            printf("seed %llu: what is remembered differs\n", (unsigned long long)(seed + i));
        free(bytes.data);
    }
    printf("%llu evaluated, %llu refused, %llu wrong\n", (unsigned long long)counts[2], (unsigned long long)counts[1],
           (unsigned long long)counts[0]);
    return counts[0] != 0;
}
