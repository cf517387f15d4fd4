// SPDX-License-Identifier: Apache-2.0
// All the headers in a C++ program that has no C compiler enabled.
#include <parlin/mpi.h>
#include <parlin/opencl.h>
#include <parlin/parlin.h>

#include <cstdio>

int main()
{
    std::size_t count = 0;
    if (parlin_device_count(&count) || count == 0) {
        std::fprintf(stderr, "no device: %s\n", parlin_last_error());
        return 1;
    }
    parlin_device *device = nullptr;
    if (parlin_device_open(nullptr, &device)) {
        std::fprintf(stderr, "%s\n", parlin_last_error());
        return 1;
    }
    int started = 1;
    MPI_Initialized(&started);
    bool good = !started && parlin_device_context(device) && parlin_row_defaults().bias;
    parlin_device_close(device);
    return good ? 0 : 1;
}
