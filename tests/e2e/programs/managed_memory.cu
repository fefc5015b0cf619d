// Managed memory: allocations and __managed__ variables read and written by both sides, attributes, prefetch and advice.
#include "check.h"

__managed__ int totals[4] = {5, 6, 7, 8};

struct Cell {
    int value;
    Cell *next;
};

__global__ void add_to_all(Cell *cell, int amount)
{
    for (; cell; cell = cell->next)
        cell->value += amount;
    totals[threadIdx.x] += amount;
}

int main()
{
    const int count = 20;
    Cell *cells = nullptr;
    CUDA(cudaMallocManaged((void **)&cells, count * sizeof(Cell)));
    for (int i = 0; i < count; i++)
        cells[i] = {i * 10, i + 1 < count ? &cells[i + 1] : nullptr};
    EXPECT(totals[2] == 7);
    totals[2] = 100;
    add_to_all<<<1, 1>>>(cells, 3);
    CUDA(cudaDeviceSynchronize());
    bool right = true;
    for (int i = 0; i < count; i++)
        right &= cells[i].value == i * 10 + 3;
    EXPECT(right);
    EXPECT(totals[0] == 8 && totals[1] == 6 && totals[2] == 100);

    cudaPointerAttributes attributes;
    CUDA(cudaPointerGetAttributes(&attributes, cells));
    EXPECT(attributes.type == cudaMemoryTypeManaged);
    EXPECT(attributes.devicePointer == cells && attributes.hostPointer == cells);
    cudaMemLocation location = {cudaMemLocationTypeDevice, 0};
    CUDA(cudaMemAdvise(cells, count * sizeof(Cell), cudaMemAdviseSetPreferredLocation, location));
    CUDA(cudaMemPrefetchAsync(cells, count * sizeof(Cell), location, 0, nullptr));
    add_to_all<<<1, 1>>>(cells + count / 2, -3);
    location = {cudaMemLocationTypeHost, 0};
    CUDA(cudaMemPrefetchAsync(cells, count * sizeof(Cell), location, 0, nullptr));
    CUDA(cudaDeviceSynchronize());
    EXPECT(cells[0].value == 3 && cells[count - 1].value == (count - 1) * 10);
    CUDA(cudaFree(cells));
    return finish();
}
