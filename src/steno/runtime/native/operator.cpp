#include "operator.h"

#include <cstring>

#include "executable.h"
#include "state.h"

namespace steno {

namespace {

// The answer for one pair of operand types; owned references.
struct Known {
    ShapedArray *array;         // of the left operand; null: the slot is empty
    PyObject *other;            // of the right one: a ShapedArray, or the class float or int
    const ConfigRecord *config;
    Executable *executable;     // null: only Python knows
};

struct Operator {
    PyObject_HEAD vectorcallfunc call;
    PyObject *function;  // (left, right) -> result
    PyObject *find;      // (left, right) -> Executable of both in the function's order, or None
    bool reflected;      // the operands are handed over the other way round
    uint64_t epoch;
    static constexpr size_t kSlots = 64;
    Known known[kSlots];
};

PyTypeObject *OperatorType;
uint64_t current_epoch = 0;  // `clear_operators` counts it up: what is known from before does not count any more

Operator *as(PyObject *o) { return reinterpret_cast<Operator *>(o); }

void forget(Known &k) {
    Known old = std::exchange(k, Known{});
    Py_XDECREF(reinterpret_cast<PyObject *>(old.array));
    Py_XDECREF(old.other);
    Py_XDECREF(reinterpret_cast<PyObject *>(old.executable));
}

// A Python number where `aval` is wanted, as the typed scalar of that number. 1: it is in `to`; 0: Python has to look at it.
int read_number(PyObject *number, const ShapedArray *aval, ScalarBytes *to) {
    double d;
    if (PyFloat_CheckExact(number)) {
        d = PyFloat_AS_DOUBLE(number);
    } else {
        int overflow;
        long long v = PyLong_AsLongLongAndOverflow(number, &overflow);
        if (overflow || v != int32_t(v)) return 0;  // too large, unless 64-bit types are on
        if (aval->dtype->code == DCode::Int32) {
            int32_t x = int32_t(v);
            std::memcpy(to, &x, sizeof x);
            return 1;
        }
        if (aval->dtype->code == DCode::Int64) {
            int64_t x = v;
            std::memcpy(to, &x, sizeof x);
            return 1;
        }
        d = double(v);
    }
    if (aval->dtype->code == DCode::Float32) {
        float x = float(d);
        std::memcpy(to, &x, sizeof x);
        return 1;
    }
    if (aval->dtype->code == DCode::Float64) {
        std::memcpy(to, &d, sizeof d);
        return 1;
    }
    return 0;
}

// The first result of the executable; a new reference. Null without an exception: Python has to do it.
PyObject *run(Executable *e, PyObject *left, PyObject *right) {
    PyObject *operands[2] = {left, right};
    void *in[8];
    Array *arrays[2];
    ScalarBytes numbers[2];
    for (int k = 0; k < 2; ++k) {
        arrays[k] = is_array(operands[k]) ? as_array(operands[k]) : nullptr;
        if (arrays[k]) {
            if (!check_alive(arrays[k])) return nullptr;
            in[k] = arrays[k]->buffer->data;
        } else {
            if (!read_number(operands[k], e->in_avals[size_t(k)], &numbers[k])) return nullptr;
            in[k] = &numbers[k];
        }
    }
    Ref alive = Ref::borrow(reinterpret_cast<PyObject *>(e));
    Buffer *out;
    return execute(e, in, arrays, nullptr, &out) ? make_array(e->out_avals[0], out) : nullptr;
}

bool fits(PyObject *found) {
    if (!Py_IS_TYPE(found, ExecutableType)) return false;
    auto *e = reinterpret_cast<Executable *>(found);
    return e->n_in() == 2 && e->n_out() == 1 && e->n_pointers() <= 8;
}

// Asks Python for the executable of such operands, for the next time. False: exception set.
bool learn(Operator *self, Known &slot, ShapedArray *array, PyObject *other, const ConfigRecord *config, PyObject *left, PyObject *right) {
    Ref found(PyObject_CallFunctionObjArgs(self->find, left, right, nullptr));
    if (!found) return false;
    forget(slot);
    slot = Known{reinterpret_cast<ShapedArray *>(Py_NewRef(reinterpret_cast<PyObject *>(array))), Py_NewRef(other), config,
                 fits(found.get()) ? reinterpret_cast<Executable *>(found.release()) : nullptr};
    return true;
}

PyObject *operator_call(PyObject *callable, PyObject *const *args, size_t nargsf, PyObject *kwnames) {
    Operator *self = as(callable);
    if (PyVectorcall_NARGS(nargsf) != 2 || kwnames) {
        PyErr_SetString(PyExc_TypeError, "an operator takes two operands");
        return nullptr;
    }
    PyObject *x = args[0], *y = args[1];
    PyObject *left = self->reflected ? y : x, *right = self->reflected ? x : y;
    bool second_array = is_array(y);
    if (thread_state.trace || !is_array(x) || !(second_array || PyFloat_CheckExact(y) || PyLong_CheckExact(y)))
        return PyObject_Vectorcall(self->function, args, 2, nullptr);
    const ConfigRecord *config = config_record();
    if (!config) return nullptr;
    if (STENO_UNLIKELY(self->epoch != current_epoch)) {
        for (Known &k : self->known) forget(k);
        self->epoch = current_epoch;
    }
    ShapedArray *array = as_array(x)->aval;
    PyObject *other = second_array ? reinterpret_cast<PyObject *>(as_array(y)->aval) : reinterpret_cast<PyObject *>(Py_TYPE(y));
    uint64_t hash = array->hash ^ (second_array ? as_array(y)->aval->hash * 31 : uint64_t(reinterpret_cast<uintptr_t>(other)) >> 4);
    Known &slot = self->known[(hash ^ hash >> 32) % Operator::kSlots];
    if (STENO_LIKELY(slot.array == array && slot.other == other && slot.config == config)) {
        if (slot.executable) {
            PyObject *result = run(slot.executable, left, right);
            if (STENO_LIKELY(result != nullptr) || PyErr_Occurred()) return result;
        }
        return PyObject_Vectorcall(self->function, args, 2, nullptr);
    }
    Ref keep = Ref::borrow(reinterpret_cast<PyObject *>(array)), keep_other = Ref::borrow(other);
    Ref result(PyObject_Vectorcall(self->function, args, 2, nullptr));
    if (!result || !is_array(result.get())) return result.release();
    return learn(self, slot, array, other, config, left, right) ? result.release() : nullptr;
}

PyObject *operator_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static const char *names[] = {"function", "find", "reflected", nullptr};
    PyObject *function, *find;
    int reflected = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO|p:Operator", const_cast<char **>(names), &function, &find, &reflected)) return nullptr;
    PyObject *o = type->tp_alloc(type, 0);  // zeros
    if (!o) return nullptr;
    Operator *self = as(o);
    self->call = operator_call;
    self->function = Py_NewRef(function);
    self->find = Py_NewRef(find);
    self->reflected = reflected;
    self->epoch = current_epoch;
    return o;
}

int operator_traverse(PyObject *o, visitproc visit, void *arg) {
    Py_VISIT(Py_TYPE(o));
    Py_VISIT(as(o)->function);
    Py_VISIT(as(o)->find);
    return 0;
}

int operator_clear(PyObject *o) {
    Py_CLEAR(as(o)->function);
    Py_CLEAR(as(o)->find);
    return 0;
}

void operator_dealloc(PyObject *o) {
    PyObject_GC_UnTrack(o);
    operator_clear(o);
    for (Known &k : as(o)->known) forget(k);
    PyTypeObject *type = Py_TYPE(o);
    type->tp_free(o);
    Py_DECREF(type);
}

PyObject *operator_get(PyObject *self, PyObject *instance, PyObject *) {
    return instance && instance != Py_None ? PyMethod_New(self, instance) : Py_NewRef(self);
}

PyObject *get_function(PyObject *o, void *) { return Py_NewRef(as(o)->function); }
PyObject *get_attribute(PyObject *o, void *name) { return PyObject_GetAttrString(as(o)->function, static_cast<const char *>(name)); }

PyObject *clear_operators(PyObject *, PyObject *) {
    ++current_epoch;
    Py_RETURN_NONE;
}

char name_[] = "__name__", qualname_[] = "__qualname__", doc_[] = "__doc__", module_[] = "__module__";
PyGetSetDef getset[] = {
    {"__wrapped__", get_function, nullptr, "what does it in Python", nullptr},
    {name_, get_attribute, nullptr, nullptr, name_},
    {qualname_, get_attribute, nullptr, nullptr, qualname_},
    {doc_, get_attribute, nullptr, nullptr, doc_},
    {module_, get_attribute, nullptr, nullptr, module_},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyMemberDef members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Operator, call), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};

PyType_Slot slots[] = {
    {Py_tp_new, reinterpret_cast<void *>(operator_new)},
    {Py_tp_dealloc, reinterpret_cast<void *>(operator_dealloc)},
    {Py_tp_traverse, reinterpret_cast<void *>(operator_traverse)},
    {Py_tp_clear, reinterpret_cast<void *>(operator_clear)},
    {Py_tp_call, reinterpret_cast<void *>(PyVectorcall_Call)},
    {Py_tp_descr_get, reinterpret_cast<void *>(operator_get)},
    {Py_tp_getset, getset},
    {Py_tp_members, members},
    {0, nullptr},
};

PyType_Spec spec = {"steno._native.Operator", sizeof(Operator), 0,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR, slots};

PyMethodDef methods[] = {
    {"clear_operators", clear_operators, METH_NOARGS, "clear_operators(): operators ask Python again for what they have seen."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

bool init_operator(PyObject *module) {
    OperatorType = add_type(module, &spec);
    return OperatorType && PyModule_AddFunctions(module, methods) == 0;
}

}  // namespace steno
