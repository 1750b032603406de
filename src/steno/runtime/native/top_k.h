// The k least keys of each row.
#pragma once

#include <cstdint>

extern "C" {

// The positions of the k least keys of each row, in ascending order; of equal keys the first come first.
//     buffers: the keys, num_rows * length integers, and the positions, num_rows * k int32
//     meta:    num_rows, length (below 2^31), k (at most length), the code of the keys' dtype (`sort_code` in Python)
// Returns 0, or 2 if there is no memory. Needs no GIL; uses the thread pool.
int32_t steno_top_k(void **buffers, const int64_t *meta);
}
