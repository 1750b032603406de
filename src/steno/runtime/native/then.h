// What follows a product, block by block: generated code that reads its result row by row.
#pragma once

#include <cstdint>

#include "threads.h"

// The code's points [begin, end), and of each of them the columns [first, last).
extern "C" typedef void StenoThen(void **bufs, int64_t begin, int64_t end, int64_t first, int64_t last);

namespace steno {

constexpr int64_t kThenColumns = 64;

// Numbers that come before those of the product in `meta` of a function `..._then`.
constexpr int64_t kThenMeta = 4;

struct Then {
    StenoThen *run;
    void **bufs;
    int64_t points;    // in a row
    bool by_columns;   // a block may be some of the columns, from a multiple of kThenColumns to one, or to the last
    int64_t itemsize;  // of the product
    double work;       // of all of it, in multiply-adds

    Then(StenoThen *f, void **b, const int64_t *meta)
        : run(f), bufs(b), points(meta[0]), by_columns(meta[1] != 0), itemsize(meta[2]), work(double(meta[3]) * (kParallelWork / 20000)) {}

    void operator()(int64_t row, int64_t rows, int64_t first, int64_t last) const { run(bufs, row * points, (row + rows) * points, first, last); }
};

}  // namespace steno
