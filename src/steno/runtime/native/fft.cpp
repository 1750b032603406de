#include "fft.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#define NPY_NO_DEPRECATED_API NPY_2_0_API_VERSION
#define NO_IMPORT_ARRAY
#define NO_IMPORT_UFUNC
#include <numpy/ndarraytypes.h>
#include <numpy/ufuncobject.h>

#include "executable.h"
#include "threads.h"
#include "vectors.h"

namespace {

// ---- NumPy's transforms

// The inner loop of a generalised ufunc (rows, factors) -> rows.
struct Loop {
    PyUFuncGenericFunction run = nullptr;
    void *data = nullptr;
};

enum Transform { kForward, kBackward, kRealEven, kRealOdd, kToReal, kTransforms };
constexpr const char *kNames[kTransforms] = {"fft", "ifft", "rfft_n_even", "rfft_n_odd", "irfft"};

Loop loops[kTransforms][2];
std::atomic<bool> loaded{false};

// The loop of `ufunc` for these element types; one without `run` if it has none.
Loop find(PyUFuncObject *ufunc, char in, char factor, char out) {
    if (ufunc->nin != 2 || ufunc->nout != 1) return {};
    for (int k = 0; k < ufunc->ntypes; ++k) {
        const char *types = ufunc->types + 3 * k;
        if (types[0] == in && types[1] == factor && types[2] == out) return {ufunc->functions[k], ufunc->data ? const_cast<void *>(ufunc->data[k]) : nullptr};
    }
    return {};
}

// Needs the GIL. False: an exception is set.
bool load() {
    if (loaded.load(std::memory_order_acquire)) return true;
    steno::Ref module(PyImport_ImportModule("numpy.fft._pocketfft_umath"));
    if (!module) return false;
    steno::Ref numpy(PyImport_ImportModule("numpy"));
    steno::Ref type(numpy ? PyObject_GetAttrString(numpy.get(), "ufunc") : nullptr);
    if (!type) return false;
    for (int t = 0; t < kTransforms; ++t) {
        steno::Ref f(PyObject_GetAttrString(module.get(), kNames[t]));
        if (!f) return false;
        int is = PyObject_IsInstance(f.get(), type.get());
        if (is < 0) return false;
        for (int wide = 0; wide < 2; ++wide) {
            char real = char(wide ? NPY_DOUBLE : NPY_FLOAT), complex = char(wide ? NPY_CDOUBLE : NPY_CFLOAT);
            char in = t == kRealEven || t == kRealOdd ? real : complex, out = t == kToReal ? real : complex;
            Loop found = is ? find(reinterpret_cast<PyUFuncObject *>(f.get()), in, real, out) : Loop{};
            if (!found.run) {
                PyErr_Format(PyExc_NotImplementedError, "fft: this NumPy has no loop of %s for %s precision", kNames[t], wide ? "double" : "single");
                return false;
            }
            loops[t][wide] = found;
        }
    }
    loaded.store(true, std::memory_order_release);
    return true;
}

// ---- several rows at once, for lengths of small factors

// A transform of n numbers as steps, each of a factor of n.
template <class T>
struct FftPlan {
    struct Factor {
        int radix;
        std::vector<T> twiddles, roots;  // pairs (re, im), of the forward transform
    };
    int64_t n;
    std::vector<Factor> factors;
};

// Where rows lie: distances of rows and of elements in operand and result.
template <class T>
struct FftRows {
    int64_t kind, row_in, element_in, row_out, element_out;
    T factor;
    const T *turns = nullptr;  // for each element and row (`turn_rows` apart): what the result is multiplied by, re and im in turn
    int64_t turn_rows = 0;
};

constexpr int kRadices[] = {8, 4, 2, 3, 5, 7, 11, 13};
constexpr int64_t kLongest = 4096;  // so that the lanes of all numbers stay in the second-level cache
constexpr int64_t kFewRows = 8, kBatch = 16;
constexpr int64_t kLongestRow = 1 << 18;  // the roots of longer ones would fill the caches

bool has_small_factors(int64_t n) {
    for (int r : kRadices)
        while (n % r == 0) n /= r;
    return n == 1;
}

// exp(-2 pi i k / n) for 0 <= k < n: each is the product of one from either of two short tables, in a type with more digits.
template <class T>
class Roots {
    using Wide = std::conditional_t<sizeof(T) == 4, double, long double>;

  public:
    explicit Roots(int64_t n) : n_(n) {
        while (int64_t(1) << 2 * bits_ < n) ++bits_;
        for (int64_t k = 0; k < int64_t(1) << bits_ && k < n; ++k) fine_.push_back(root(k));
        for (int64_t k = 0; k << bits_ < n; ++k) coarse_.push_back(root(k << bits_));
    }
    void add_to(std::vector<T> &to, int64_t k) const {
        auto [a, b] = coarse_[size_t(k >> bits_)];
        auto [c, d] = fine_[size_t(k & ((int64_t(1) << bits_) - 1))];
        to.push_back(T(a * c - b * d));
        to.push_back(T(a * d + b * c));
    }

  private:
    std::pair<Wide, Wide> root(int64_t k) const {
        long double angle = -2 * 3.141592653589793238462643383279502884L * (long double)k / (long double)n_;
        return {Wide(std::cos(angle)), Wide(std::sin(angle))};
    }

    int64_t n_;
    int bits_ = 0;
    std::vector<std::pair<Wide, Wide>> fine_, coarse_;
};

// Plans are kept, the most recent few.
template <class T>
std::shared_ptr<const FftPlan<T>> plan_of(int64_t n) {
    static std::mutex lock;
    static std::map<int64_t, std::shared_ptr<const FftPlan<T>>> known;
    std::lock_guard<std::mutex> guard(lock);
    auto found = known.find(n);
    if (found != known.end()) return found->second;
    auto plan = std::make_shared<FftPlan<T>>();
    plan->n = n;
    Roots<T> roots(n);
    int64_t rest = n, l1 = 1;
    for (int r : kRadices)
        while (rest % r == 0) {
            typename FftPlan<T>::Factor f{r, {}, {}};
            rest /= r;
            int64_t ido = n / (l1 * r);
            for (int u = 1; u < r; ++u)
                for (int64_t i = 0; i < ido; ++i) roots.add_to(f.twiddles, u * i * l1);
            Roots<T> own(r);
            for (int k = 0; k < r; ++k) own.add_to(f.roots, k);
            plan->factors.push_back(std::move(f));
            l1 *= r;
        }
    if (known.size() >= 32) known.clear();
    known[n] = plan;
    return plan;
}

thread_local PackBuffer pack_buffer;

#define STENO_KERNELS "fft_kernels.inc"
#include "for_each_target.inc"

struct Batches {
    FftRows<double> rows;
    const void *in, *plan, *turns = nullptr;
    void *out;
    int64_t count, each, group_in, group_out;  // rows in a group, batches in it, distances of groups in numbers
    bool wide;
    std::atomic<bool> *failed;
};

template <class T>
bool run_batch(const Batches &j, int64_t group, int64_t first, int64_t rows) {
    const FftPlan<T> &plan = *static_cast<const FftPlan<T> *>(j.plan);
    FftRows<T> where{j.rows.kind, j.rows.row_in, j.rows.element_in, j.rows.row_out, j.rows.element_out, T(j.rows.factor)};
    if (j.turns) where.turns = static_cast<const T *>(j.turns) + 2 * first, where.turn_rows = j.rows.turn_rows;
    int64_t parts_in = where.kind == 2 ? 1 : 2, parts_out = where.kind == 3 ? 1 : 2;
    const T *in = static_cast<const T *>(j.in) + (group * j.group_in + first * where.row_in) * parts_in;
    T *out = static_cast<T *>(j.out) + (group * j.group_out + first * where.row_out) * parts_out;
    auto run = [&](auto lanes, auto kernel) {
        for (int64_t r = 0; r < rows; r += lanes, where.turns += where.turns ? 2 * lanes : 0)
            if (!kernel(plan, where, in + r * where.row_in * parts_in, out + r * where.row_out * parts_out, int(std::min<int64_t>(lanes, rows - r)), pack_buffer)) return false;
        return true;
    };
#if defined(__x86_64__)
    using Wide = std::conditional_t<std::is_same_v<T, float>, avx512::F32, avx512::F64>;
    using Narrow = std::conditional_t<std::is_same_v<T, float>, avx2::F32, avx2::F64>;
    return has_avx512() ? run(int(Wide::W), avx512::fft_rows<Wide>) : run(int(Narrow::W), avx2::fft_rows<Narrow>);
#else
    using V = std::conditional_t<std::is_same_v<T, float>, portable::F32, portable::F64>;
    return run(int(V::W), portable::fft_rows<V>);
#endif
}

void run_batches(void **bufs, int64_t begin, int64_t end) {
    const Batches &j = *static_cast<const Batches *>(bufs[0]);
    for (int64_t i = begin; i < end; ++i) {
        int64_t group = i / j.each, first = i % j.each * kBatch, rows = std::min(kBatch, j.count - first);
        if (!(j.wide ? run_batch<double>(j, group, first, rows) : run_batch<float>(j, group, first, rows))) j.failed->store(true);
    }
}

int32_t in_lanes(const void *in, void *out, int64_t kind, bool wide, int64_t outer, int64_t inner, int64_t n, double factor) {
    std::atomic<bool> failed{false};
    int64_t half = n / 2 + 1, length_in = kind == 3 ? half : n, length_out = kind == 2 ? half : n;
    Batches j;
    j.in = in, j.out = out, j.wide = wide, j.failed = &failed;
    bool last = inner == 1;
    j.rows = {kind, last ? length_in : 1, inner, last ? length_out : 1, inner, factor};
    j.count = last ? outer : inner;
    j.each = (j.count + kBatch - 1) / kBatch;
    j.group_in = length_in * inner, j.group_out = length_out * inner;
    int64_t batches = (last ? 1 : outer) * j.each;
    auto single = wide ? nullptr : plan_of<float>(n);
    auto twice = wide ? plan_of<double>(n) : nullptr;
    j.plan = wide ? static_cast<const void *>(twice.get()) : single.get();
    void *job = &j;
    double work = double(outer * inner) * double(n) * 5;
    int64_t grain = work < steno::kParallelWork ? batches : std::max<int64_t>(1, batches / (4 * std::max(1, steno::num_threads())));
    steno_parallel_for(run_batches, &job, batches, grain);
    return failed.load() ? steno::kOutOfMemory : steno::kOk;
}

// ---- one long row: as a matrix, its columns, then its rows (Bailey's four steps)

struct Cut {
    int64_t rows = 0, columns = 0;  // no rows: no such matrix
};

Cut cut(int64_t n) {
    Cut best;
    for (int64_t r = kBatch; r * r <= n && r <= kLongest; ++r)
        if (n % r == 0 && n / r <= kLongest && has_small_factors(r) && has_small_factors(n / r)) best = {r, n / r};
    return best;
}

// Roots of unity, kept for the last few lengths: exp(-2 pi i k / n) for k = row * column of the matrix; or for k < n / 2 + 1.
template <class T>
std::shared_ptr<const std::vector<T>> roots_of(int64_t n, Cut shape) {
    static std::mutex lock;
    static std::map<std::pair<int64_t, int64_t>, std::shared_ptr<const std::vector<T>>> known;
    std::lock_guard<std::mutex> guard(lock);
    auto key = std::make_pair(n, shape.rows);
    auto found = known.find(key);
    if (found != known.end()) return found->second;
    auto table = std::make_shared<std::vector<T>>();
    Roots<T> roots(n);
    if (shape.rows) {
        table->reserve(size_t(2 * n));
        for (int64_t i = 0; i < shape.rows; ++i)
            for (int64_t k = 0; k < shape.columns; ++k) roots.add_to(*table, i * k);
    } else {
        table->reserve(size_t(n + 2));
        for (int64_t k = 0; k <= n / 2; ++k) roots.add_to(*table, k);
    }
    if (known.size() >= 6) known.clear();
    known[key] = table;
    return table;
}

thread_local PackBuffer long_buffer;

template <class T>
bool run_matrix(const T *in, T *out, T *between, Cut shape, bool forward, T factor) {
    int64_t n = shape.rows * shape.columns;
    std::atomic<bool> failed{false};
    auto columns = plan_of<T>(shape.rows), rows = plan_of<T>(shape.columns);
    auto turns = roots_of<T>(n, shape);
    Batches j;
    void *job = &j;
    j.wide = sizeof(T) == 8, j.failed = &failed, j.group_in = j.group_out = 0;
    int64_t threads = std::max(1, steno::num_threads());
    auto run = [&] {
        j.each = (j.count + kBatch - 1) / kBatch;
        steno_parallel_for(run_batches, &job, j.each, std::max<int64_t>(1, j.each / (2 * threads)));
    };
    j.in = in, j.out = between, j.plan = columns.get(), j.turns = turns->data(), j.count = shape.columns;
    j.rows = {forward ? 0 : 1, 1, shape.columns, 1, shape.columns, 1.0};
    j.rows.turn_rows = shape.columns;
    run();
    j.in = between, j.out = out, j.plan = rows.get(), j.turns = nullptr, j.count = shape.rows;
    j.rows = {forward ? 0 : 1, shape.columns, 1, 1, shape.rows, double(factor)};
    run();
    return !failed.load();
}

// Real numbers are taken for complex ones, half as many, whose transform is taken apart (or put together before).
template <class T>
bool long_row(const T *in, T *out, int64_t kind, int64_t n, Cut shape, T factor) {
    int64_t h = shape.rows * shape.columns;
    T *between = long_buffer.a<T>(size_t(2 * h));
    if (!between) return false;
    if (kind < 2) return run_matrix(in, out, between, shape, kind == 0, factor);
    T *other = long_buffer.b<T>(size_t(2 * h + 2));
    if (!other) return false;
    auto roots = roots_of<T>(n, Cut{});
    const T *w = roots->data();
    if (kind == 2) {
        if (!run_matrix(in, other, between, shape, true, factor)) return false;
        other[2 * h] = other[0], other[2 * h + 1] = other[1];
        for (int64_t k = 0; k <= h; ++k) {
            T a = other[2 * k], b = other[2 * k + 1], c = other[2 * (h - k)], d = -other[2 * (h - k) + 1];
            T even_re = (a + c) / 2, even_im = (b + d) / 2, odd_re = (b - d) / 2, odd_im = (c - a) / 2;  // odd: -i times half the difference
            out[2 * k] = even_re + (odd_re * w[2 * k] - odd_im * w[2 * k + 1]);
            out[2 * k + 1] = even_im + (odd_re * w[2 * k + 1] + odd_im * w[2 * k]);
        }
        return true;
    }
    for (int64_t k = 0; k < h; ++k) {
        T a = in[2 * k], b = k ? in[2 * k + 1] : T(0), c = in[2 * (h - k)], d = k ? -in[2 * (h - k) + 1] : T(0);
        T re = a - c, im = b - d;  // times i conj(w)
        other[2 * k] = (a + c) + (re * w[2 * k + 1] - im * w[2 * k]);
        other[2 * k + 1] = (b + d) + (re * w[2 * k] + im * w[2 * k + 1]);
    }
    return run_matrix(other, out, between, shape, false, factor);
}

int32_t long_rows(const void *in, void *out, int64_t kind, bool wide, int64_t count, int64_t n, Cut shape, double factor) {
    int64_t half = n / 2 + 1, in_size = kind == 2 ? n : 2 * (kind == 3 ? half : n), out_size = kind == 3 ? n : 2 * (kind == 2 ? half : n);
    for (int64_t r = 0; r < count; ++r) {
        bool done = wide ? long_row(static_cast<const double *>(in) + r * in_size, static_cast<double *>(out) + r * out_size, kind, n, shape, factor)
                         : long_row(static_cast<const float *>(in) + r * in_size, static_cast<float *>(out) + r * out_size, kind, n, shape, float(factor));
        if (!done) return steno::kOutOfMemory;
    }
    return steno::kOk;
}

// ---- rows one by one

struct Job {
    Loop loop;
    const char *in;
    char *out;
    int64_t inner, length_in, length_out, size_in, size_out;
    double factor;
    float single;
    bool wide;
};

void run_range(void **bufs, int64_t begin, int64_t end) {
    const Job &j = *static_cast<const Job *>(bufs[0]);
    while (begin < end) {
        // rows that lie at one distance from each other
        int64_t outer = begin / j.inner, first = begin % j.inner;
        int64_t count = j.inner == 1 ? end - begin : std::min(end - begin, j.inner - first);
        char *args[3] = {const_cast<char *>(j.in) + (outer * j.length_in * j.inner + first) * j.size_in,
                         const_cast<char *>(j.wide ? reinterpret_cast<const char *>(&j.factor) : reinterpret_cast<const char *>(&j.single)),
                         j.out + (outer * j.length_out * j.inner + first) * j.size_out};
        npy_intp dimensions[3] = {count, j.length_in, j.length_out};
        int64_t step_in = j.inner == 1 ? j.length_in : 1, step_out = j.inner == 1 ? j.length_out : 1;
        npy_intp steps[5] = {step_in * j.size_in, 0, step_out * j.size_out, j.inner * j.size_in, j.inner * j.size_out};
        j.loop.run(args, dimensions, steps, j.loop.data);
        begin += count;
    }
}

PyObject *load_fft(PyObject *, PyObject *) {
    if (!load()) return nullptr;
    Py_RETURN_NONE;
}

PyMethodDef methods[] = {
    {"load_fft", load_fft, METH_NOARGS, "load_fft(): finds the transforms of NumPy that compiled code calls. NotImplementedError if they are not there."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

extern "C" int32_t steno_fft(void **bufs, const int64_t *meta) {
    int64_t kind = meta[0], outer = meta[2], n = meta[4];
    Job j;
    j.wide = meta[1] != 0;
    j.inner = meta[3];
    int64_t half = n / 2 + 1, real = j.wide ? 8 : 4;
    j.length_in = kind == 3 ? half : n, j.length_out = kind == 2 ? half : n;
    j.size_in = kind == 2 ? real : 2 * real, j.size_out = kind == 3 ? real : 2 * real;
    std::memcpy(&j.factor, &meta[5], sizeof(double));
    j.single = float(j.factor);
    int64_t rows = outer * j.inner;
    if (!rows || !n) return steno::kOk;
    // Which way depends on the sizes alone, so that results do.
    if ((j.inner == 1 ? outer : j.inner) >= kFewRows && n <= kLongest && has_small_factors(n))
        return in_lanes(bufs[0], bufs[1], kind, j.wide, outer, j.inner, n, j.factor);
    if (j.inner == 1 && n > kLongest && n <= kLongestRow && (kind < 2 || n % 2 == 0)) {
        Cut shape = cut(kind < 2 ? n : n / 2);
        if (shape.rows) return long_rows(bufs[0], bufs[1], kind, j.wide, outer, n, shape, j.factor);
    }
    if (!loaded.load(std::memory_order_acquire)) {  // only if the program was compiled by another process
        PyGILState_STATE state = PyGILState_Ensure();
        bool ok = load();
        if (!ok) PyErr_WriteUnraisable(nullptr);
        PyGILState_Release(state);
        if (!ok) return 3;
    }
    Transform t = kind == 0 ? kForward : kind == 1 ? kBackward : kind == 3 ? kToReal : n % 2 ? kRealOdd : kRealEven;
    j.loop = loops[t][j.wide];
    j.in = static_cast<const char *>(bufs[0]);
    j.out = static_cast<char *>(bufs[1]);
    void *job = &j;
    double work = double(rows) * double(n) * 20;
    int64_t grain = work < steno::kParallelWork ? rows : std::max<int64_t>(1, rows / (4 * std::max(1, steno::num_threads())));
    steno_parallel_for(run_range, &job, rows, grain);
    return steno::kOk;
}

namespace steno {

bool init_fft(PyObject *module) { return PyModule_AddFunctions(module, methods) == 0; }

}  // namespace steno
