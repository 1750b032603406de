#include "conv.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <vector>

#include "executable.h"
#include "fp_state.h"
#include "multiply_add.h"
#include "threads.h"
#include "vectors.h"

namespace {

thread_local PackBuffer pack_buffer;

// ---- the plan

// Numbers of the meta array, one after the other.
struct Reader {
    const int64_t *at;
    int64_t operator()() { return *at++; }
};

// An axis of positions: their number, and what a step means in lhs and in the result.
struct ConvAxis {
    int64_t count, lhs, out;
};

// A window axis: for each of its taps what it adds to the offsets in lhs and rhs.
struct ConvTaps {
    int64_t count;
    const int64_t *pairs;
};

struct ConvJob {
    int64_t code, groups, lhs_group, rhs_group, out_group, features, rhs_feature, out_feature, channels, lhs_channel, rhs_channel;
    const void *lhs, *rhs;
    void *out;
    std::atomic<bool> *failed;  // no memory, on whatever thread
};

// Results with the same taps: there are several such sets where lhs is dilated, or has zeros around it.
struct ConvPhase {
    int64_t by_positions;  // what vectors run along: positions or features
    int64_t lhs0, out0;
    std::vector<ConvAxis> axes;  // outer ones
    int64_t rows, row_lhs, row_out;
    std::vector<ConvTaps> taps;
    int64_t k;                        // taps times channels
    int64_t height, across, tiles;    // rows of a tile, tiles along the row axis, tiles in all
    int64_t chunk, chunks, columns, column_pieces;  // tiles and features of a piece
    int64_t pieces, before;                         // pieces in all, and those of other phases before them
    double work;

    // The offsets of k0 .. k0 + count in lhs and rhs.
    void offsets(const ConvJob &j, int64_t k0, int64_t count, int64_t *lhs_at, int64_t *rhs_at) const {
        int64_t channel = k0 % j.channels, tap = k0 / j.channels;
        for (int64_t i = 0; i < count; ++tap, channel = 0) {
            int64_t lhs = 0, rhs = 0, rest = tap;
            for (auto t = taps.rbegin(); t != taps.rend(); ++t) {
                const int64_t *pair = t->pairs + 2 * (rest % t->count);
                rest /= t->count;
                lhs += pair[0];
                rhs += pair[1];
            }
            for (; channel < j.channels && i < count; ++channel, ++i) {
                lhs_at[i] = lhs + channel * j.lhs_channel;
                rhs_at[i] = rhs + channel * j.rhs_channel;
            }
        }
    }
};

// Of all phases; `next`: the first one that nobody has taken.
struct Pieces {
    std::atomic<int64_t> next;
    int64_t count;
};

// A piece of the row axis.
struct ConvTile {
    int64_t lhs, out, c;  // `c`: where it goes, relative to the piece's place
    int rows;
};

// ---- the kernels, for each instruction set

#define STENO_KERNELS "conv_kernels.inc"
#include "for_each_target.inc"

template <class T>
void clear(const ConvJob &j, const ConvPhase &p, int64_t n, T *out, const std::vector<ConvTile> &tiles) {
    for (const ConvTile &t : tiles)
        for (int64_t r = 0; r < t.rows; ++r)
            for (int64_t f = 0; f < n; ++f) out[t.out + r * p.row_out + f * j.out_feature] = T(0);
}

// The dtypes without kernels.
STENO_FMA_BEGIN
template <class T>
void plain(const ConvJob &j, const ConvPhase &p, const T *lhs, const T *rhs, int64_t n, T *out, const std::vector<ConvTile> &tiles) {
    std::vector<int64_t> lhs_at(kBlockK), rhs_at(kBlockK);
    clear(j, p, n, out, tiles);
    for (int64_t k0 = 0; k0 < p.k; k0 += kBlockK) {
        int64_t kc = std::min(kBlockK, p.k - k0);
        p.offsets(j, k0, kc, lhs_at.data(), rhs_at.data());
        for (const ConvTile &t : tiles)
            for (int64_t r = 0; r < t.rows; ++r) {
                const T *x = lhs + t.lhs + r * p.row_lhs;
                for (int64_t f = 0; f < n; ++f) {
                    T &to = out[t.out + r * p.row_out + f * j.out_feature];
                    T acc = to;
                    const T *w = rhs + f * j.rhs_feature;
                    for (int64_t k = 0; k < kc; ++k) multiply_add(acc, x[lhs_at[size_t(k)]], w[rhs_at[size_t(k)]]);
                    to = acc;
                }
            }
    }
}

STENO_FMA_END

template <class T>
bool vectorised(const ConvJob &j, const ConvPhase &p, const T *lhs, const T *rhs, int64_t n, T *out, std::vector<ConvTile> &tiles) {
    // A tile's rows lie across its lanes: where the lanes are not neighbours in the result, a piece is computed aside and moved there.
    bool aside = p.by_positions ? p.row_out != 1 : j.out_feature != 1;
    int64_t c_row = p.by_positions ? j.out_feature : p.row_out;
    T *c = out;
    if (aside) {
        int64_t positions = 0;
        for (ConvTile &t : tiles) {
            t.c = p.by_positions ? positions : positions * n;
            positions += t.rows;
        }
        c_row = p.by_positions ? positions : n;
        c = pack_buffer.a<T>(size_t(positions * n));
        if (!c) return false;
    } else {
        for (ConvTile &t : tiles) t.c = t.out;
    }
    bool done = true;
    int64_t count = int64_t(tiles.size());
#if defined(__x86_64__)
    using Wide = std::conditional_t<std::is_same_v<T, float>, avx512::F32, avx512::F64>;
    using Narrow = std::conditional_t<std::is_same_v<T, float>, avx2::F32, avx2::F64>;
    if (p.by_positions)
        done = has_avx512() ? avx512::conv_by_positions<Wide>(j, p, lhs, rhs, n, c, c_row, tiles.data(), count, pack_buffer)
                            : avx2::conv_by_positions<Narrow>(j, p, lhs, rhs, n, c, c_row, tiles.data(), count, pack_buffer);
    else
        done = has_avx512() ? avx512::conv_by_features<Wide>(j, p, lhs, rhs, n, c, c_row, tiles.data(), count, pack_buffer)
                            : avx2::conv_by_features<Narrow>(j, p, lhs, rhs, n, c, c_row, tiles.data(), count, pack_buffer);
#else
    using V = std::conditional_t<std::is_same_v<T, float>, portable::F32, portable::F64>;
    if (p.by_positions)
        done = portable::conv_by_positions<V>(j, p, lhs, rhs, n, c, c_row, tiles.data(), count, pack_buffer);
    else
        done = portable::conv_by_features<V>(j, p, lhs, rhs, n, c, c_row, tiles.data(), count, pack_buffer);
#endif
    if (!done || !aside) return done;
    for (const ConvTile &t : tiles) {
        int64_t c_position = p.by_positions ? 1 : n, c_feature = p.by_positions ? c_row : 1;
        for (int64_t f = 0; f < n; ++f) {
            T *to = out + t.out + f * j.out_feature;
            const T *from = c + t.c + f * c_feature;
            for (int64_t r = 0; r < t.rows; ++r) to[r * p.row_out] = from[r * c_position];
        }
    }
    return true;
}

template <class T>
void run_piece(const ConvJob &j, const ConvPhase &p, int64_t group, int64_t chunk, int64_t column) {
    int64_t n0 = column * p.columns, n = std::min(p.columns, j.features - n0);
    const T *lhs = static_cast<const T *>(j.lhs) + group * j.lhs_group;
    const T *rhs = static_cast<const T *>(j.rhs) + group * j.rhs_group + n0 * j.rhs_feature;
    T *out = static_cast<T *>(j.out) + group * j.out_group + n0 * j.out_feature;
    int64_t first = chunk * p.chunk, last = std::min(p.tiles, first + p.chunk);
    std::vector<ConvTile> tiles;
    tiles.reserve(size_t(last - first));
    for (int64_t t = first; t < last; ++t) {
        int64_t row = t % p.across * p.height, rest = t / p.across;
        ConvTile tile{p.lhs0 + row * p.row_lhs, p.out0 + row * p.row_out, 0, int(std::min(p.height, p.rows - row))};
        for (auto axis = p.axes.rbegin(); axis != p.axes.rend(); ++axis) {
            int64_t i = rest % axis->count;
            rest /= axis->count;
            tile.lhs += i * axis->lhs;
            tile.out += i * axis->out;
        }
        tiles.push_back(tile);
    }
    if constexpr (std::is_same_v<T, float> || std::is_same_v<T, double>) {
        if (!p.k)
            clear(j, p, n, out, tiles);
        else if (!vectorised<T>(j, p, lhs, rhs, n, out, tiles))
            j.failed->store(true);
    } else {
        plain<T>(j, p, lhs, rhs, n, out, tiles);
    }
}

// What one thread does, whatever its range: it takes one piece after the other, as their sizes differ a lot.
void run_pieces(void **bufs, int64_t, int64_t) {
    const ConvJob &j = *static_cast<const ConvJob *>(bufs[0]);
    const ConvPhase *phase = static_cast<const ConvPhase *>(bufs[1]);
    Pieces &pieces = *static_cast<Pieces *>(bufs[2]);
    steno::FlushSubnormals flush;
    for (int64_t i; (i = pieces.next.fetch_add(1, std::memory_order_relaxed)) < pieces.count;) {
        while (i >= phase->before + phase->pieces) ++phase;
        const ConvPhase &p = *phase;
        int64_t k = i - p.before, column = k % p.column_pieces, chunk = k / p.column_pieces % p.chunks, group = k / p.column_pieces / p.chunks;
        switch (j.code) {
            case 0: run_piece<float>(j, p, group, chunk, column); break;
            case 1: run_piece<double>(j, p, group, chunk, column); break;
            case 2: run_piece<std::complex<float>>(j, p, group, chunk, column); break;
            case 3: run_piece<std::complex<double>>(j, p, group, chunk, column); break;
            case 4: run_piece<int8_t>(j, p, group, chunk, column); break;
            case 5: run_piece<int16_t>(j, p, group, chunk, column); break;
            case 6: run_piece<int32_t>(j, p, group, chunk, column); break;
            case 7: run_piece<int64_t>(j, p, group, chunk, column); break;
            case 8: run_piece<uint8_t>(j, p, group, chunk, column); break;
            case 9: run_piece<uint16_t>(j, p, group, chunk, column); break;
            case 10: run_piece<uint32_t>(j, p, group, chunk, column); break;
            case 11: run_piece<uint64_t>(j, p, group, chunk, column); break;
            case 12: run_piece<bool>(j, p, group, chunk, column); break;
        }
    }
}

// ---- padding

// A copy of some samples of an array with zeros around, in rows: the innermost padded axis with all behind it.
struct Padding {
    const char *from = nullptr;
    char *to = nullptr;
    std::vector<int64_t> sizes, padded, low;  // of the axes before
    int64_t bytes, before, after;             // of a row's elements, of the zeros around it
    int64_t itemsize;
};

void pad_rows(void **bufs, int64_t begin, int64_t end) {
    const Padding &p = *static_cast<const Padding *>(bufs[0]);
    int64_t whole = p.before + p.bytes + p.after;
    for (int64_t r = begin; r < end; ++r) {
        int64_t rest = r, source = 0, scale = 1;
        bool inside = true;
        for (size_t d = p.sizes.size(); d-- > 0;) {
            int64_t i = rest % p.padded[d] - p.low[d];
            rest /= p.padded[d];
            inside = inside && 0 <= i && i < p.sizes[d];
            source += i * scale;
            scale *= p.sizes[d];
        }
        char *to = p.to + r * whole;
        if (!inside) {
            std::memset(to, 0, size_t(whole));
            continue;
        }
        std::memset(to, 0, size_t(p.before));
        std::memcpy(to + p.before, p.from + source * p.bytes, size_t(p.bytes));
        std::memset(to + p.before + p.bytes, 0, size_t(p.after));
    }
}

int64_t grain_for(double work, int64_t pieces) {
    // Each thread gets a few pieces.
    return work < steno::kParallelWork ? std::max<int64_t>(pieces, 1) : std::max<int64_t>(1, pieces / (4 * std::max(1, steno::num_threads())));
}

Padding read_padding(Reader &read) {
    Padding p;
    p.itemsize = read();
    int64_t rank = read(), inner = p.itemsize;
    std::vector<int64_t> sizes, padded, low;
    for (int64_t d = 0; d < rank; ++d) {
        sizes.push_back(read());
        padded.push_back(read());
        low.push_back(read());
    }
    while (sizes.back() == padded.back()) {
        inner *= sizes.back();
        sizes.pop_back(), padded.pop_back(), low.pop_back();
    }
    p.bytes = sizes.back() * inner;
    p.before = low.back() * inner;
    p.after = padded.back() * inner - p.bytes - p.before;
    sizes.pop_back(), padded.pop_back(), low.pop_back();
    p.sizes = std::move(sizes), p.padded = std::move(padded), p.low = std::move(low);
    return p;
}

void pad(Padding &p) {
    int64_t rows = 1;
    for (int64_t n : p.padded) rows *= n;
    void *job = &p;
    double bytes = double(rows) * double(p.before + p.bytes + p.after);
    steno_parallel_for(pad_rows, &job, rows, grain_for(2 * bytes, rows));
}

// Rows of a register tile.
int64_t register_rows() {
#if defined(__x86_64__)
    return has_avx512() ? avx512::F32::MR : avx2::F32::MR;
#else
    return portable::F32::MR;
#endif
}

// How the results of a phase are cut into tiles and pieces.
void cut(const ConvJob &j, ConvPhase &p) {
    int64_t most = p.by_positions ? 1024 : register_rows();
    p.across = (p.rows + most - 1) / most;
    p.height = p.across ? (p.rows + p.across - 1) / p.across : 1;
    p.across = (p.rows + p.height - 1) / p.height;
    p.tiles = p.across;
    for (const ConvAxis &a : p.axes) p.tiles *= a.count;
    p.columns = std::min<int64_t>(j.features, 512);
    // Each piece packs its weights, so pieces are large; but the memory for a piece that is computed aside stays in the caches.
    int64_t threads = steno::num_threads(), wanted = std::max<int64_t>(1, (int64_t(1) << 16) / (p.columns * p.height));
    int64_t share = (p.tiles * j.groups + 2 * threads - 1) / (2 * threads);
    p.chunk = std::max<int64_t>(1, std::min({wanted, share, p.tiles}));
    p.chunks = (p.tiles + p.chunk - 1) / p.chunk;
    if (p.chunks * j.groups < threads) p.columns = std::min(p.columns, ((j.features + threads - 1) / threads + 31) / 32 * 32);
    p.column_pieces = (j.features + p.columns - 1) / p.columns;
}

}  // namespace

extern "C" int32_t steno_conv(void **bufs, const int64_t *meta) {
    std::atomic<bool> failed{false};
    Reader read{meta};
    ConvJob j;
    for (int64_t *field : {&j.code, &j.groups, &j.lhs_group, &j.rhs_group, &j.out_group, &j.features, &j.rhs_feature, &j.out_feature, &j.channels,
                           &j.lhs_channel, &j.rhs_channel})
        *field = read();
    if (!j.features) return steno::kOk;
    bool padded = read();
    j.lhs = bufs[0], j.rhs = bufs[1], j.out = bufs[2], j.failed = &failed;
    Padding padding;
    int64_t blocks = 1, lhs_step = 0, out_step = 0;  // blocks of samples that are padded together, elements from one to the next
    if (padded) {
        blocks = read(), lhs_step = read(), out_step = read();
        padding = read_padding(read);
        padding.from = static_cast<const char *>(bufs[0]);
        padding.to = static_cast<char *>(bufs[3]);
        j.lhs = bufs[3];
    }
    int64_t count = read(), spatial = read();
    std::vector<ConvPhase> phases(static_cast<size_t>(count));
    for (ConvPhase &p : phases) {
        p.by_positions = read(), p.lhs0 = read(), p.out0 = read();
        int64_t axes = read();
        for (int64_t d = 0; d < axes; ++d) {
            ConvAxis a;
            a.count = read(), a.lhs = read(), a.out = read();
            p.axes.push_back(a);
        }
        p.rows = p.axes.back().count, p.row_lhs = p.axes.back().lhs, p.row_out = p.axes.back().out;
        p.axes.pop_back();
        p.k = j.channels;
        for (int64_t d = 0; d < spatial; ++d) {
            ConvTaps t;
            t.count = read();
            t.pairs = read.at;
            read.at += 2 * t.count;
            p.k *= t.count;
            p.taps.push_back(t);
        }
        cut(j, p);
        p.pieces = p.column_pieces * p.chunks * j.groups;
        p.work = double(p.tiles) * double(p.height) * double(j.groups) * double(j.features) * double(p.k + 8);
    }
    // The larger pieces first: the small ones fill the time in which a thread would wait for the others.
    auto of_a_piece = [](const ConvPhase &p) { return p.work / double(std::max<int64_t>(1, p.pieces)); };
    std::stable_sort(phases.begin(), phases.end(), [&](const ConvPhase &a, const ConvPhase &b) { return of_a_piece(a) > of_a_piece(b); });
    int64_t pieces = 0;
    double work = 0;
    for (ConvPhase &p : phases) {
        p.before = pieces;
        pieces += p.pieces;
        work += p.work;
    }
    for (int64_t i = 0; i < blocks; ++i) {
        if (padded) pad(padding);
        Pieces taken{0, pieces};
        void *job[] = {&j, phases.data(), &taken};
        int64_t threads = work < steno::kParallelWork ? 1 : std::min<int64_t>(pieces, steno::num_threads());
        steno_parallel_for(run_pieces, job, threads, 1);
        if (padded) {
            padding.from += lhs_step * padding.itemsize;
            j.out = static_cast<char *>(j.out) + out_step * padding.itemsize;
        }
    }
    return failed.load() ? steno::kOutOfMemory : steno::kOk;
}
