// The floating point environment compiled code expects: round to nearest, subnormals kept, no traps. Others change it (flush-to-zero).
#pragma once

#include <cstdint>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace steno {

class StrictFloats {
  public:
#if defined(__x86_64__)
    StrictFloats() : before_(_mm_getcsr()) {
        if ((before_ & ~kFlags) != kDefault) _mm_setcsr(kDefault);
    }
    ~StrictFloats() {
        if ((before_ & ~kFlags) != kDefault) _mm_setcsr(before_);
    }

  private:
    static constexpr unsigned kFlags = 0x3F, kDefault = 0x1F80;
    unsigned before_;
#elif defined(__aarch64__)
    StrictFloats() {
        asm volatile("mrs %0, fpcr" : "=r"(before_));
        if (before_) asm volatile("msr fpcr, %0" ::"r"(uint64_t(0)));
    }
    ~StrictFloats() {
        if (before_) asm volatile("msr fpcr, %0" ::"r"(before_));
    }

  private:
    uint64_t before_;
#endif
  public:
    StrictFloats(const StrictFloats &) = delete;
    StrictFloats &operator=(const StrictFloats &) = delete;
};

// While it lives, subnormal operands and results of this thread's arithmetic are zero. For long chains of multiply-adds: an operation with a
// subnormal costs a hundred times one without.
class FlushSubnormals {
  public:
#if defined(__x86_64__)
    FlushSubnormals() : before_(_mm_getcsr()) { _mm_setcsr(before_ | 0x8040); }
    ~FlushSubnormals() { _mm_setcsr(before_); }

  private:
    unsigned before_;
#elif defined(__aarch64__)
    FlushSubnormals() {
        asm volatile("mrs %0, fpcr" : "=r"(before_));
        asm volatile("msr fpcr, %0" ::"r"(before_ | (uint64_t(1) << 24)));
    }
    ~FlushSubnormals() { asm volatile("msr fpcr, %0" ::"r"(before_)); }

  private:
    uint64_t before_;
#endif
  public:
    FlushSubnormals(const FlushSubnormals &) = delete;
    FlushSubnormals &operator=(const FlushSubnormals &) = delete;
};

}  // namespace steno
