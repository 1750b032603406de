// Relocatable ELF objects -> executable memory, without a linker.
//
// Done here is what our compiler's objects need (x86-64, position-independent, read-only data): the sections of all objects one after
// another in one mapping, behind them a slot for each symbol from outside, which holds its address and a jump to it, because the mapping
// may be more than 2 GB away. Anything else is refused with a ValueError, and the caller has LLVM's linker.
#include "code.h"

#include <elf.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <limits>
#include <new>
#include <string>
#include <unordered_map>
#include <vector>

namespace steno {

namespace {

struct Code {
    PyObject_HEAD
    void *memory;
    size_t size;
    void *entry;
};

PyTypeObject *CodeType;

struct Refused {
    std::string why;
};

// A file in memory, of which nothing is read beyond its end.
class Object {
  public:
    Object(const char *data, size_t size) : data_(data), size_(size) {
        const auto *head = at<Elf64_Ehdr>(0, 1);
        if (std::memcmp(head->e_ident, ELFMAG, SELFMAG) || head->e_ident[EI_CLASS] != ELFCLASS64 || head->e_ident[EI_DATA] != ELFDATA2LSB)
            throw Refused{"it is no 64-bit ELF file"};
        if (head->e_machine != EM_X86_64 || head->e_type != ET_REL) throw Refused{"it is no relocatable x86-64 object"};
        if (head->e_shentsize != sizeof(Elf64_Shdr)) throw Refused{"its section headers are of another size"};
        sections = at<Elf64_Shdr>(head->e_shoff, head->e_shnum);
        count = head->e_shnum;
        for (size_t k = 0; k < count; ++k)
            if (sections[k].sh_type == SHT_SYMTAB) {
                symbol_count = sections[k].sh_size / sizeof(Elf64_Sym);
                symbols = at<Elf64_Sym>(sections[k].sh_offset, symbol_count);
                const Elf64_Shdr &names = section(sections[k].sh_link);
                names_ = at<char>(names.sh_offset, names.sh_size);
                names_size_ = names.sh_size;
            }
        places.resize(count, kNowhere);
    }

    template <class T>
    const T *at(uint64_t offset, uint64_t n) const {
        if (offset > size_ || n > (size_ - offset) / sizeof(T) || offset % alignof(T)) throw Refused{"it is damaged"};
        return reinterpret_cast<const T *>(data_ + offset);
    }
    const Elf64_Shdr &section(uint64_t k) const {
        if (k >= count) throw Refused{"it names a section that it does not have"};
        return sections[k];
    }
    const Elf64_Sym &symbol(uint64_t k) const {
        if (k >= symbol_count) throw Refused{"it names a symbol that it does not have"};
        return symbols[k];
    }
    std::string name(const Elf64_Sym &s) const {
        if (s.st_name >= names_size_) throw Refused{"a symbol's name is missing"};
        return std::string(names_ + s.st_name, strnlen(names_ + s.st_name, names_size_ - s.st_name));
    }

    static constexpr size_t kNowhere = std::numeric_limits<size_t>::max();
    const Elf64_Shdr *sections;
    size_t count;
    const Elf64_Sym *symbols = nullptr;
    size_t symbol_count = 0;
    std::vector<size_t> places;  // offsets of the sections in the image

  private:
    const char *data_;
    size_t size_;
    const char *names_ = nullptr;
    size_t names_size_ = 0;
};

struct Slot {
    uint64_t address;
    uint8_t jump[8];
};
constexpr uint8_t kJump[8] = {0xff, 0x25, 0xf2, 0xff, 0xff, 0xff, 0xcc, 0xcc};  // jmp [rip - 14]: to `address`

constexpr size_t kLargest = size_t(1) << 30;  // half of what a relative jump reaches

class Image {
  public:
    explicit Image(std::vector<Object> objects) : objects_(std::move(objects)) {}
    ~Image() {
        if (memory) munmap(memory, size);
    }
    Image(const Image &) = delete;

    // `outside`: address by name, 0 for an unknown name.
    template <class Outside>
    void link(Outside &&outside) {
        place_sections();
        find_symbols(outside);
        size_t slots = (size + alignof(Slot) - 1) / alignof(Slot) * alignof(Slot);
        size_t page = size_t(sysconf(_SC_PAGESIZE));
        size = (slots + slots_.size() * sizeof(Slot) + page - 1) / page * page;
        void *p = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (p == MAP_FAILED) throw std::bad_alloc();
        memory = static_cast<char *>(p);
        for (auto &[name, slot] : slots_) {
            slot.place = slots + slot.number * sizeof(Slot);
            Slot filled{slot.address, {}};
            std::memcpy(filled.jump, kJump, sizeof kJump);
            std::memcpy(memory + slot.place, &filled, sizeof filled);
        }
        for (Object &o : objects_) {
            for (size_t k = 0; k < o.count; ++k)
                if (o.places[k] != Object::kNowhere && o.sections[k].sh_type != SHT_NOBITS)
                    std::memcpy(memory + o.places[k], o.at<char>(o.sections[k].sh_offset, o.sections[k].sh_size), o.sections[k].sh_size);
            for (size_t k = 0; k < o.count; ++k)
                if (o.sections[k].sh_type == SHT_RELA) relocate(o, o.sections[k]);
        }
        if (mprotect(memory, size, PROT_READ | PROT_EXEC)) throw Refused{"the system gives no executable memory"};
    }
    void *entry(const std::string &name) const {
        auto found = defined_.find(name);
        if (found == defined_.end()) throw Refused{"no object defines " + name};
        return memory + found->second;
    }

    char *memory = nullptr;
    size_t size = 0;

  private:
    struct Outer {
        uint64_t address;
        size_t number, place;
    };

    void place_sections() {
        for (Object &o : objects_)
            for (size_t k = 0; k < o.count; ++k) {
                const Elf64_Shdr &s = o.sections[k];
                if (!(s.sh_flags & SHF_ALLOC) || s.sh_type == SHT_X86_64_UNWIND) continue;
                if (s.sh_type != SHT_PROGBITS && s.sh_type != SHT_NOBITS) throw Refused{"a section is of an unknown type"};
                if (s.sh_flags & (SHF_WRITE | SHF_TLS)) throw Refused{"it has data that is written"};
                uint64_t align = std::max<uint64_t>(s.sh_addralign, 1);
                if (align > 4096 || (align & (align - 1))) throw Refused{"a section's alignment is not supported"};
                size = (size + align - 1) / align * align;
                o.places[k] = size;
                if (s.sh_size > kLargest || size + s.sh_size > kLargest) throw Refused{"it is too large"};
                size += s.sh_size;
            }
    }

    template <class Outside>
    void find_symbols(Outside &&outside) {
        for (const Object &o : objects_)
            for (size_t k = 0; k < o.symbol_count; ++k) {
                const Elf64_Sym &s = o.symbols[k];
                if (ELF64_ST_BIND(s.st_info) != STB_LOCAL && s.st_shndx != SHN_UNDEF) defined_.emplace(o.name(s), place(o, s));
            }
        for (const Object &o : objects_)
            for (size_t k = 1; k < o.symbol_count; ++k) {
                const Elf64_Sym &s = o.symbols[k];
                if (s.st_shndx != SHN_UNDEF) continue;
                std::string name = o.name(s);
                if (defined_.count(name) || slots_.count(name)) continue;
                uint64_t address = outside(name);
                if (!address) throw Refused{"nobody provides " + name};
                slots_.emplace(name, Outer{address, slots_.size(), 0});
            }
    }

    size_t place(const Object &o, const Elf64_Sym &s) const {
        o.section(s.st_shndx);
        if (o.places[s.st_shndx] == Object::kNowhere) throw Refused{"a symbol is in a section that is not loaded"};
        return o.places[s.st_shndx] + s.st_value;
    }

    void relocate(const Object &o, const Elf64_Shdr &table) {
        const Elf64_Shdr &target = o.section(table.sh_info);
        size_t start = o.places[table.sh_info];
        if (start == Object::kNowhere) return;
        size_t n = table.sh_size / sizeof(Elf64_Rela);
        const auto *entries = o.at<Elf64_Rela>(table.sh_offset, n);
        for (size_t k = 0; k < n; ++k) {
            const Elf64_Rela &r = entries[k];
            const Elf64_Sym &s = o.symbol(ELF64_R_SYM(r.r_info));
            size_t kind = ELF64_R_TYPE(r.r_info), width = kind == R_X86_64_64 || kind == R_X86_64_PC64 ? 8 : 4;
            if (r.r_offset > target.sh_size || width > target.sh_size - r.r_offset) throw Refused{"a relocation is outside its section"};
            size_t at = start + r.r_offset, to;
            const Outer *outer = nullptr;
            if (s.st_shndx != SHN_UNDEF)
                to = place(o, s);
            else if (auto found = defined_.find(o.name(s)); found != defined_.end())
                to = found->second;
            else {
                auto slot = slots_.find(o.name(s));
                if (slot == slots_.end()) throw Refused{"a relocation is to no symbol"};
                outer = &slot->second;
                to = outer->place + offsetof(Slot, jump);
            }
            if (kind == R_X86_64_64) {
                uint64_t value = (outer ? outer->address : uint64_t(memory) + to) + uint64_t(r.r_addend);
                std::memcpy(memory + at, &value, 8);
                continue;
            }
            if (outer && (kind == R_X86_64_GOTPCREL || kind == R_X86_64_GOTPCRELX || kind == R_X86_64_REX_GOTPCRELX))
                to = outer->place;
            else if (kind != R_X86_64_PC32 && kind != R_X86_64_PLT32 && !(kind == R_X86_64_PC64 && !outer))
                throw Refused{"a relocation of type " + std::to_string(kind) + " is not supported"};
            int64_t value = int64_t(to) + r.r_addend - int64_t(at);  // within the image, which is smaller than 2 GB
            std::memcpy(memory + at, &value, width);
        }
    }

    std::vector<Object> objects_;
    std::unordered_map<std::string, size_t> defined_;  // offsets of the symbols that are not local
    std::unordered_map<std::string, Outer> slots_;
};

PyObject *load_code(PyObject *, PyObject *args) try {
    PyObject *given, *symbols;
    const char *entry;
    if (!PyArg_ParseTuple(args, "OO!s:load_code", &given, &PyDict_Type, &symbols, &entry)) return nullptr;
    Ref sequence(PySequence_Tuple(given));
    if (!sequence) return nullptr;
    std::vector<Object> objects;
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(sequence.get()); ++k) {
        PyObject *o = PyTuple_GET_ITEM(sequence.get(), k);
        if (!PyBytes_Check(o)) return PyErr_Format(PyExc_TypeError, "load_code: object %zd is no bytes", k);
        objects.emplace_back(PyBytes_AS_STRING(o), size_t(PyBytes_GET_SIZE(o)));
    }
    Image image(std::move(objects));
    image.link([&](const std::string &name) -> uint64_t {
        Ref key(PyUnicode_DecodeUTF8(name.data(), Py_ssize_t(name.size()), "replace"));  // of a damaged object it may be any bytes
        PyObject *address = key ? PyDict_GetItemWithError(symbols, key.get()) : nullptr;
        return address ? uint64_t(reinterpret_cast<uintptr_t>(PyLong_AsVoidPtr(address))) : 0;
    });
    if (PyErr_Occurred()) return nullptr;
    void *start = image.entry(entry);
    Code *code = reinterpret_cast<Code *>(CodeType->tp_alloc(CodeType, 0));
    if (!code) return nullptr;
    code->memory = std::exchange(image.memory, nullptr);
    code->size = image.size;
    code->entry = start;
    return reinterpret_cast<PyObject *>(code);
} catch (const Refused &refused) {
    return PyErr_Format(PyExc_ValueError, "the object cannot be loaded: %s", refused.why.c_str());
} catch (const std::bad_alloc &) {
    return PyErr_NoMemory();
}

void code_dealloc(PyObject *self) {
    Code *code = reinterpret_cast<Code *>(self);
    if (code->memory) munmap(code->memory, code->size);
    PyTypeObject *type = Py_TYPE(self);
    type->tp_free(self);
    Py_DECREF(type);
}

PyObject *get_address(PyObject *self, void *) { return PyLong_FromVoidPtr(reinterpret_cast<Code *>(self)->entry); }
PyObject *get_memory(PyObject *self, void *) {
    Code *code = reinterpret_cast<Code *>(self);
    return Py_BuildValue("(Nn)", PyLong_FromVoidPtr(code->memory), Py_ssize_t(code->size));
}

PyGetSetDef getset[] = {
    {"address", get_address, nullptr, "of the entry", nullptr},
    {"memory", get_memory, nullptr, "(address, bytes) of the mapping", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyType_Slot slots[] = {
    {Py_tp_dealloc, reinterpret_cast<void *>(code_dealloc)},
    {Py_tp_getset, getset},
    {Py_tp_doc, const_cast<char *>("Loaded machine code, for as long as this object lives.")},
    {0, nullptr},
};

PyType_Spec spec = {"steno._native.Code", sizeof(Code), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};

PyMethodDef methods[] = {
    {"load_code", load_code, METH_VARARGS,
     "load_code(objects, symbols, entry) -> Code\n\nobjects: bytes of relocatable ELF files. symbols: a dict of the addresses of what they "
     "do not define. entry: the symbol whose address is wanted. ValueError for objects that only a linker can load, that are damaged, or "
     "that need a symbol nobody provides."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

bool init_code(PyObject *module) {
    CodeType = add_type(module, &spec);
    return CodeType && PyModule_AddFunctions(module, methods) == 0;
}

}  // namespace steno
