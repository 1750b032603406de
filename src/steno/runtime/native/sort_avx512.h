// Vectorised quicksort of unsigned integers, for processors with AVX-512.
#pragma once

#include <cstdint>

namespace steno {

bool have_avx512_sort();

// Sorts a[0..n); `scratch` is as large. Not stable, which shows only if equals can be told apart.
void avx512_sort(uint32_t *a, uint32_t *scratch, int64_t n);
void avx512_sort(uint64_t *a, uint64_t *scratch, int64_t n);

}  // namespace steno
