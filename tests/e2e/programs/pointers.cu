// Pointers that kernels find by themselves: in a struct passed by value, in an array in device memory, in a linked list,
// written to a global by another kernel.
#include "check.h"

struct Node {
    int value;
    Node *next;
};

struct Job {
    const int *parts[3];
    int lengths[3];
    int *out;
};

__device__ Node *list_head;

__global__ void concatenate(Job job)
{
    int position = 0;
    for (int p = 0; p < 3; p++)
        for (int i = 0; i < job.lengths[p]; i++, position++)
            if (position % blockDim.x == threadIdx.x)
                job.out[position] = job.parts[p][i];
}

__global__ void gather_rows(int *const *rows, const int *order, int *out, int columns)
{
    const int *row = rows[order[blockIdx.x]];
    for (int i = threadIdx.x; i < columns; i += blockDim.x)
        out[blockIdx.x * columns + i] = row[i];
}

__global__ void link(Node *nodes, const int *order, int count)
{
    for (int i = 0; i < count; i++) {
        nodes[order[i]].value = i * i;
        nodes[order[i]].next = i + 1 < count ? &nodes[order[i + 1]] : nullptr;
    }
    list_head = &nodes[order[0]];
}

__global__ void walk(int *out, int *length)
{
    int count = 0;
    for (Node *node = list_head; node; node = node->next)
        out[count++] = node->value;
    *length = count;
}

int main()
{
    Job job;
    std::vector<int> joined;
    for (int p = 0; p < 3; p++) {
        std::vector<int> part;
        for (int i = 0; i < 10 * (p + 1); i++)
            part.push_back(100 * p + i);
        joined.insert(joined.end(), part.begin(), part.end());
        job.parts[p] = upload(part);
        job.lengths[p] = (int)part.size();
    }
    job.out = device_array<int>(joined.size());
    concatenate<<<1, 32>>>(job);
    CUDA(cudaGetLastError());
    expect_equal("struct of pointers", download(job.out, joined.size()), joined);

    const int rows = 9, columns = 50;
    std::vector<int *> addresses;
    std::vector<int> order, want(rows * columns);
    for (int r = 0; r < rows; r++) {
        std::vector<int> row;
        for (int c = 0; c < columns; c++)
            row.push_back(r * 1000 + c);
        addresses.push_back(upload(row));
        order.push_back(r * 4 % rows);
    }
    for (int r = 0; r < rows; r++)
        for (int c = 0; c < columns; c++)
            want[r * columns + c] = order[r] * 1000 + c;
    int *out = device_array<int>(rows * columns);
    gather_rows<<<rows, 32>>>(upload(addresses), upload(order), out, columns);
    CUDA(cudaGetLastError());
    expect_equal("array of pointers", download(out, want.size()), want);

    std::vector<int> places, squares;
    for (int i = 0; i < 64; i++) {
        places.push_back(i * 27 % 64);
        squares.push_back(i * i);
    }
    Node *nodes = device_array<Node>(64);
    int *length = device_array<int>(1);
    link<<<1, 1>>>(nodes, upload(places), 64);
    walk<<<1, 1>>>(out, length);
    CUDA(cudaGetLastError());
    EXPECT(download(length, 1)[0] == 64);
    expect_equal("linked list", download(out, 64), squares);
    return finish();
}
