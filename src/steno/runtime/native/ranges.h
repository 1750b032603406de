// Free memory as ranges of addresses: what is given back joins its neighbours, so that arrays of other sizes find room there, in pages that the
// system has found already.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace steno {

inline size_t whole_pages(size_t bytes) { return (bytes + 4095) & ~size_t(4095); }

class FreeRanges {
  public:
    size_t bytes() const { return bytes_; }

    // The beginning of the smallest range that has room, of several the one given back last; null: none has.
    void *take(size_t bytes) {
        auto best = ranges_.end();
        for (auto r = ranges_.begin(); r != ranges_.end(); ++r)
            if (r->size() >= bytes && (best == ranges_.end() || r->size() < best->size() || (r->size() == best->size() && r->touched > best->touched))) best = r;
        if (best == ranges_.end()) return nullptr;
        auto *data = reinterpret_cast<void *>(best->begin);
        best->begin += bytes;
        bytes_ -= bytes;
        if (!best->size()) ranges_.erase(best);
        return data;
    }

    void give(void *data, size_t bytes, double now) {
        auto begin = reinterpret_cast<uintptr_t>(data);
        Range made{begin, begin + bytes, now, now};
        auto after = std::lower_bound(ranges_.begin(), ranges_.end(), begin, [](const Range &r, uintptr_t at) { return r.begin < at; });
        if (after != ranges_.end() && after->begin == made.end) {
            made.end = after->end;
            made.since = after->since;
            after = ranges_.erase(after);
        }
        bytes_ += bytes;
        if (after != ranges_.begin() && (after - 1)->end == begin) {
            Range &before = *(after - 1);
            before.end = made.end;
            before.since = std::min(before.since, made.since);
            before.touched = now;
        } else {
            ranges_.insert(after, made);
        }
    }

    // Gives memory back to the system by `release(data, bytes)`: from the ranges with the oldest parts until at most `keep` bytes are left, and all
    // ranges with parts that wait since before `before`.
    template <class Release>
    void trim(size_t keep, double before, Release release) {
        while (!ranges_.empty()) {
            auto oldest = std::min_element(ranges_.begin(), ranges_.end(), [](const Range &a, const Range &b) { return a.since < b.since; });
            size_t bytes = oldest->since < before ? oldest->size() : bytes_ > keep ? std::min(oldest->size(), whole_pages(bytes_ - keep)) : 0;
            if (!bytes) return;
            oldest->end -= bytes;
            bytes_ -= bytes;
            release(reinterpret_cast<void *>(oldest->end), bytes);
            if (!oldest->size()) ranges_.erase(oldest);
        }
    }

  private:
    struct Range {
        uintptr_t begin, end;
        double since;    // when its oldest part was given back
        double touched;  // when its youngest was
        size_t size() const { return end - begin; }
    };

    std::vector<Range> ranges_;  // by address; no two touch
    size_t bytes_ = 0;
};

}  // namespace steno
