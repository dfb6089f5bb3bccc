# SPDX-License-Identifier: MIT
"""Writes the parts of the Python package that repeat the public headers.

    generate.py INCLUDE PACKAGE [LIBRARY]

INCLUDE is the folder of clsample.h. Two modules are written to the folder PACKAGE. LIBRARY is the
name of the library that is opened where the package contains none.

_cffi.py    the declarations, in cffi's compact form, which is the same for every Python version
_types.py   the enums, the names and types of parameters, options and outputs, and their comments

What a field is, beyond its C type, stands in its comment, in the words that the headers use
everywhere: "a cls_chain" and "cls_feature bits" name an enum, and "float32 [rows, vocab]" the
elements and the shape of a buffer. A new field therefore needs no line of Python.
"""

import contextlib
import pathlib
import re
import sys

import cffi

sys.path.insert(0, str(pathlib.Path(__file__).parent / "clsample"))
import _words  # noqa: E402

OPENCL_TYPES = """
typedef int32_t cl_int;
typedef uint32_t cl_uint;
typedef uint32_t cl_bool;
typedef uint64_t cl_ulong;
typedef uint64_t cl_bitfield;
typedef intptr_t cl_context_properties;
typedef struct _cl_platform_id *cl_platform_id;
typedef struct _cl_device_id *cl_device_id;
typedef struct _cl_context *cl_context;
typedef struct _cl_command_queue *cl_command_queue;
typedef struct _cl_mem *cl_mem;
typedef struct _cl_event *cl_event;
"""

# What the package calls in OpenCL's loader itself, and how the wheel's library is given a loader.
OPENCL_CALLS = """
cl_int clGetPlatformIDs(cl_uint, cl_platform_id *, cl_uint *);
cl_int clGetPlatformInfo(cl_platform_id, cl_uint, size_t, void *, size_t *);
cl_int clGetDeviceIDs(cl_platform_id, cl_bitfield, cl_uint, cl_device_id *, cl_uint *);
cl_int clGetDeviceInfo(cl_device_id, cl_uint, size_t, void *, size_t *);
cl_context clCreateContext(const cl_context_properties *, cl_uint, const cl_device_id *, void *,
                           void *, cl_int *);
cl_int clRetainContext(cl_context);
cl_int clReleaseContext(cl_context);
cl_int clGetContextInfo(cl_context, cl_uint, size_t, void *, size_t *);
cl_command_queue clCreateCommandQueue(cl_context, cl_device_id, cl_bitfield, cl_int *);
cl_int clRetainCommandQueue(cl_command_queue);
cl_int clReleaseCommandQueue(cl_command_queue);
cl_int clGetCommandQueueInfo(cl_command_queue, cl_uint, size_t, void *, size_t *);
cl_mem clCreateBuffer(cl_context, cl_bitfield, size_t, void *, cl_int *);
cl_int clRetainMemObject(cl_mem);
cl_int clReleaseMemObject(cl_mem);
cl_int clGetMemObjectInfo(cl_mem, cl_uint, size_t, void *, size_t *);
cl_int clEnqueueReadBuffer(cl_command_queue, cl_mem, cl_bool, size_t, size_t, void *, cl_uint,
                           const cl_event *, cl_event *);
cl_int clEnqueueWriteBuffer(cl_command_queue, cl_mem, cl_bool, size_t, size_t, const void *,
                            cl_uint, const cl_event *, cl_event *);
cl_int clEnqueueCopyBuffer(cl_command_queue, cl_mem, cl_mem, size_t, size_t, size_t, cl_uint,
                           const cl_event *, cl_event *);
void *clEnqueueMapBuffer(cl_command_queue, cl_mem, cl_bool, cl_bitfield, size_t, size_t, cl_uint,
                         const cl_event *, cl_event *, cl_int *);
cl_int clEnqueueUnmapMemObject(cl_command_queue, cl_mem, void *, cl_uint, const cl_event *,
                               cl_event *);
cl_int clRetainEvent(cl_event);
cl_int clReleaseEvent(cl_event);
cl_int clGetEventInfo(cl_event, cl_uint, size_t, void *, size_t *);
cl_int clWaitForEvents(cl_uint, const cl_event *);
cl_int clFlush(cl_command_queue);
cl_int clFinish(cl_command_queue);
int cls_opencl_open(const char *);
"""

COMMENT = re.compile(r"/\*.*?\*/", re.S)
STRUCT = re.compile(r"typedef struct (cls_\w+) \{(.*?)^\} \1;", re.S | re.M)
ENUM = re.compile(r"typedef enum (cls_\w+) \{(.*?)^\} \1;", re.S | re.M)
TYPE_COMMENT = re.compile(r"(/\*(?:(?!\*/).)*\*/)\ntypedef (?:enum|struct) (cls_\w+)", re.S)
MEMBER = r"CLS_\w+ = -?\d+,?"
ELEMENTS = re.compile(r"(read: )?\b(float32|int32) \[([^]]+)\]")
ENUM_NAME = re.compile(r"\b(?:a (cls_\w+)|bits 1u << (cls_\w+)|(cls_\w+) bits)\b", re.I)
DEFINE = re.compile(r"^#define (CLS_\w+) (\d+)u?(?=\s)", re.M)


class Field:
    """A field of a struct: its C type, its comment, and whether that comment is on the line."""

    def __init__(self, ctype, name, comment, own):
        self.ctype, self.name, self.comment, self.own = ctype, name, comment, own


def read_headers(include):
    """The text of all headers that clsample.h includes, each after those that it needs."""
    texts = {}

    def read(path):
        text = path.read_text()
        for name in re.findall(r'^#include "([\w/]+\.h)"', text, re.M):
            if (path.parent / name).name not in texts:
                read(path.parent / name)
        texts[path.name] = text

    read(pathlib.Path(include) / "clsample.h")
    return "\n".join(texts.values())


def plain(comment):
    """A comment's words, without its frame."""
    return " ".join(re.sub(r"^\s*\*? ?", "", line) for line in comment[2:-2].splitlines()).strip()


def fields_of(body, item="[^;/]+;"):
    """The fields between the braces of a struct, or the members of an enum. A comment stands behind
    its field on the line, or before the fields that it is about; a blank line ends these."""
    fields, latest, comment, fresh = [], [], "", False
    for space, remark, declaration in re.findall(rf"(\s*)(?:(/\*.*?\*/)|({item}))", body, re.S):
        if space.count("\n") > 1:
            comment, fresh = "", False
        if remark and "\n" not in space:
            for field in latest:
                field.comment, field.own = plain(remark), True
        elif remark:
            comment, fresh = (comment + " " if fresh else "") + plain(remark), True
        else:
            latest = [Field(*pair, comment, fresh) for pair in declared(declaration.rstrip(";"))]
            fields += latest
            fresh = False
    return fields


def declared(text):
    """The (type, name) pairs of one declaration."""
    text = " ".join(text.split())
    member = re.match(r"(CLS_\w+) = ", text)
    if member:
        return [("", member[1])]
    pointer = re.match(r"(.*)\(\*(\w+)\)(\(.*\))$", text)
    if pointer:
        return [("function", pointer[2])]
    first, *others = text.split(",")
    match = re.match(r"(.*?[ *])(\w+)(\[.*\])?$", first)
    ctype = match[1].strip()
    names = [match[2] + (match[3] or "")] + [other.strip() for other in others]
    return [(ctype + re.sub(r"^\w+", "", name), re.match(r"\w+", name)[0]) for name in names]


def class_name(name):
    return "".join(word.capitalize() for word in name.split("_")[1:]).replace("Dtype", "DType")


def members_of(body):
    names = re.findall(r"\b(CLS_\w+) = (-?\d+)", COMMENT.sub("", body))
    words = [name.split("_") for name, _ in names]
    common = 0
    while all(len(w) > common + 1 and w[common] == words[0][common] for w in words):
        common += 1
    return [("_".join(w[common:]), int(value)) for w, (_, value) in zip(words, names)]


def declarations(headers):
    """The headers as cffi reads them: without comments, preprocessor and annotations."""
    text = COMMENT.sub("", headers)
    text = re.sub(r"^#(?:.*\\\n)*.*$", "", text, flags=re.M)
    text = re.sub(r'^extern "C" \{|^\}$|^\s*static inline void name##.*$', "", text, flags=re.M)
    text = re.sub(r"\b(CLS_API|CLS_WARN_UNUSED|CLS_RETURNS_NONNULL)\b", "", text)
    text = re.sub(r"^CLS_INIT_FUNCTION\(.*\)$", "", text, flags=re.M)
    for name, value in DEFINE.findall(headers):  # cffi knows no names in an array's length
        text = re.sub(rf"\b{name}\b", value, text)
    return OPENCL_TYPES + text + OPENCL_CALLS


ANNOTATIONS = {
    "float": "float",
    "double": "float",
    "const int32_t *": "Ids",
    "const uint32_t *": "Ids",
    "cls_ids": "Ids",
    "cls_biases": "Biases",
    "cls_sequences": "Sequences",
    "const char *": "Path",
    "const void *": "bytes",
    "function": "Callable[..., None]",
}
RECORDS = (
    "cls_device_info",
    "cls_program_info",
    "cls_memory",
    "cls_adaptive_state",
    "cls_host_result",
    "cls_host_verified",
)
RECORD_TYPES = {
    "float": "float",
    "double": "float",
    "const char *": "str",
    "float *": "Any",
    "int32_t *": "Any",
}
NOT_ARGUMENTS = {
    "struct_size",
    "reserved",
    "progress_user",
    "build_log",
    "build_log_size",
    "build_log_stays",
    "binary_size",
}


# The classes of enums that are neither Names nor Bits.
BASES = {"cls_row_status": "RowBits"}


# Fields that are arguments of another name, and their types in Python.
ARGUMENTS = {"no_late_compile": ("late_compile", "bool")}


def annotation(field, enum):
    if enum:
        return f"Choices[{enum[0]}]" if enum[1] else f"Choice[{enum[0]}]"
    if field.ctype.startswith("uint8_t["):
        return "Stages"
    return ANNOTATIONS.get(field.ctype, "int")


def enum_of(field, enums):
    """The enum that a number's comment names, and how: 0 a value, 1 a sum of bits, 2 a sum of
    1 << value. A comment that the field shares must name it as the field does."""
    if field.ctype not in ("int32_t", "uint32_t"):
        return None
    for names in ENUM_NAME.findall(field.comment):
        how = {0: 0, 1: 2, 2: 1}[[bool(n) for n in names].index(True)]
        name = "".join(names)
        alone = field.own and len(ENUM_NAME.findall(field.comment)) == 1
        if name in enums and (alone or name.split("_")[-1] in field.name):
            return class_name(name), how
    return None


def count_of(field, fields):
    """The field that holds the number of an array's elements: prompt_count for prompt."""
    counts = [
        f.name
        for f in fields
        if f.name.endswith("_count") and field.name.startswith(f.name[: -len("_count")])
    ]
    return max(counts, key=len, default=None)


def typed_dict(name, title, fields, enums, skip=()):
    lines = [f"class {name}(TypedDict, total=False):", f'    """{title}"""', ""]
    counts = {count_of(f, fields) for f in fields if f.ctype.endswith("*")}
    for field in fields:
        if field.name not in NOT_ARGUMENTS | counts | set(skip):
            found = ARGUMENTS.get(field.name) or (
                field.name,
                annotation(field, enum_of(field, enums)),
            )
            lines.append("    {}: {}".format(*found))
    return "\n".join(lines) + "\n\n\n"


def outputs_class(name, fields, structs, doc):
    """A class with an attribute for each buffer that a call writes."""
    lines = [f"class {name}:", doc, ""]
    for field in fields:
        if field.ctype == "cls_buffer" and field.elements and not field.elements[2]:
            lines.append(f"    {field.name}: Optional[DeviceArray] = None")
        elif field.ctype in structs and any(f.ctype == "cls_buffer" for f in structs[field.ctype]):
            lines.append(f"    {field.name}: Optional[{class_name(field.ctype)}] = None")
    return "\n".join(lines) + "\n\n\n"


def record_class(name, fields, enums, doc):
    """A named tuple of a struct that the library fills."""
    lines = [f"class {class_name(name)}(NamedTuple):", doc, ""]
    for field in fields:
        enum = enum_of(field, enums)
        if enum:
            kind = enum[0] if enum[1] < 2 else "int"
        else:
            kind = RECORD_TYPES.get(field.ctype, "Tuple[int, ...]" if "[" in field.ctype else "int")
            if field.ctype in RECORDS:
                kind = class_name(field.ctype)
        if field.name != "struct_size" and not field.name.startswith("reserved"):
            lines.append(f"    {field.name}: {kind}")
    lines += ["", "    @staticmethod", "    def structure() -> str:", f'        return "{name}"']
    return "\n".join(lines) + "\n\n\n"


def wrapped(text, width, indent):
    lines, line = [], indent
    for word in text.split():
        if len(line) + len(word) + 1 > width and line.strip():
            lines.append(line.rstrip())
            line = indent
        line += word + " "
    return "\n".join(lines + [line.rstrip()])


def manual(fields, names, skip=(), indent="    "):
    """The comments of a struct's fields in Python's words, each with the names of the arguments
    that it is about."""
    groups = []
    counts = {count_of(f, fields) for f in fields if f.ctype.endswith("*")}
    for field in fields:
        name = ARGUMENTS.get(field.name, (field.name,))[0]
        if name in NOT_ARGUMENTS | counts | set(skip):
            continue
        comment = _words.MANUAL.get(name, field.comment)
        if groups and groups[-1][1] == comment and not field.own:
            groups[-1][0].append(name)
        else:
            groups.append(([name], comment))
    return [
        (tuple(found), wrapped(_words.translate(text, names), 88, indent)) for found, text in groups
    ]


def words_of(enums, structs, defines):
    """Python's words for the enums, the constants and the lists of the headers."""
    names = {name[:3].upper() + name[3:]: value for name, value in defines}
    for name, body in enums.items():
        names[name] = class_name(name)
        for (member, _), found in zip(members_of(body), fields_of(body, MEMBER)):
            named = name in ("cls_status", "cls_row_status")
            names[found.name] = f"{class_name(name)}.{member}" if named else repr(member.lower())
    for field in (field for fields in structs.values() for field in fields):
        for key, value in _words.LISTS.get(field.ctype, {}).items():
            names[f"{field.name}.{key}"] = value.replace("%", field.name)
    return names


def enum_class(name, body, comment, is_flags, names):
    """A class of an enum, whose docstring has the comments of its members."""
    base = BASES.get(name, "Bits" if is_flags else "Names")
    members = members_of(body)
    groups = [
        ([member], wrapped(_words.translate(field.comment, names), 92, " " * 8))
        for (member, _), field in zip(members, fields_of(body, MEMBER))
    ]
    comment = _words.MANUAL.get(class_name(name), comment)
    doc = docstring(_words.translate(comment, names), groups)
    lines = [f"    {member} = {value}\n" for member, value in members]
    return f"class {class_name(name)}({base}):\n{doc}\n\n{''.join(lines)}\n\n"


def docstring(comment, groups):
    """A comment on a whole, and those of its parts."""
    parts = [f"    {', '.join(found)}\n{text}\n" for found, text in groups]
    return f'    """{wrapped(comment, 92, "    ").strip()}\n\n{"".join(parts)}    """'


def types_module(text, enums, flags, structs, library):
    version = re.search(r'CLS_VERSION_STRING "([^"]+)"', text)[1]
    number = re.search(r"CLS_VERSION_NUMBER (\d+)", text)[1]
    out = [f'''# SPDX-License-Identifier: MIT
"""Generated from the public headers by generate.py."""
from __future__ import annotations

import os
from typing import (TYPE_CHECKING, Any, Callable, Dict, Iterable, Mapping, NamedTuple,
                    Optional, Sequence, Tuple, TypedDict, TypeVar, Union)

from ._enums import Bits, Names, RowBits

if TYPE_CHECKING:
    from ._arrays import DeviceArray

VERSION = "{version}"
VERSION_NUMBER = {number}
LIBRARY = "{library}"
''']
    for name, value in DEFINE.findall(text):
        if name != "CLS_VERSION_NUMBER":
            out.append(f"{name[4:]} = {value}\n")
    out.append("""
E = TypeVar("E")
Choice = Union[E, str, int]
Choices = Union[E, str, int, Iterable[Union[E, str, int]]]
Ids = Any  # a sequence of integers, or a NumPy array of them
Biases = Union[Mapping[int, float], Iterable[Tuple[int, float]]]
Sequences = Sequence[Ids]
Path = Union[str, "os.PathLike[str]"]
Manual = Sequence[Tuple[Tuple[str, ...], str]]  # arguments, and a comment on them


""")
    names = words_of(enums, structs, DEFINE.findall(text))
    comments = {found[2]: plain(found[1]) for found in TYPE_COMMENT.finditer(text)}

    def doc_of(name, skip=()):
        comment = _words.translate(comments[name], names)
        return docstring(comment, manual(structs[name], names, skip, " " * 8))

    for name, body in enums.items():
        out.append(enum_class(name, body, comments.get(name, ""), name in flags, names))
    out.append("Stages = Iterable[Union[Stage, str, int]]\n\n\n")
    out.append(
        typed_dict(
            "Params",
            "The sampling parameters of a request: see Sampler.begin().",
            structs["cls_params"],
            enums,
        )
    )
    out[-1] = out[-1].replace("chain: Choice[Chain]", "chain: Union[Choice[Chain], Stages]")
    out[-1] = out[-1].replace("    seed: int", "    seed: Optional[int]")
    out.append(
        typed_dict(
            "ContextOptions", "The options of a Context.", structs["cls_context_options"], enums
        )
    )
    out.append(
        typed_dict(
            "SamplerOptions",
            "The options of a Sampler.",
            structs["cls_sampler_options"],
            enums,
            ("vocab", "max_rows"),
        )
    )
    lines = [
        "class OutputOptions(TypedDict, total=False):",
        '    """The outputs of Sampler.sample()."""',
        "",
    ]
    for field in structs["cls_outputs"]:
        if field.ctype == "cls_buffer" or field.ctype in structs:
            lines.append(f"    {field.name}: Any")
        elif field.name not in NOT_ARGUMENTS:
            lines.append(f"    {field.name}: {annotation(field, enum_of(field, enums))}")
    out.append("\n".join(lines) + "\n\n\n")
    for field in structs["cls_outputs"]:
        if field.ctype in structs and field.ctype != "cls_buffer":
            out.append(
                outputs_class(
                    class_name(field.ctype),
                    structs[field.ctype],
                    structs,
                    doc_of(field.ctype, ("count", "capacity")),
                )
            )
    out.append(
        outputs_class(
            "Outputs",
            structs["cls_outputs"],
            structs,
            '    """What a step wrote beyond tokens and status: see Sampler.sample()."""',
        )
    )
    out += [record_class(name, structs[name], enums, doc_of(name)) for name in RECORDS]
    records = {name: class_name(name) for name in RECORDS}
    out.append(f"RECORDS = {records!r}\n".replace("'", '"'))
    out.append(f"STRUCTS = {list(structs)!r}\n\n".replace("'", '"'))
    out.append(
        "# The enums of fields: 0 a value, 1 a sum of bits, 2 a sum of 1 << value.\n"
        "FIELD_ENUMS: Dict[str, Dict[str, Tuple[Any, int]]] = {\n"
    )
    for name, fields in structs.items():
        found = {f.name: enum_of(f, enums) for f in fields if enum_of(f, enums)}
        if found:
            inner = ", ".join(f'"{k}": ({e}, {how})' for k, (e, how) in found.items())
            out.append(f'    "{name}": {{{inner}}},\n')
    out.append(
        "}\n\n# The elements and the shapes of the buffers that calls write.\n"
        "BUFFERS: Dict[str, Dict[str, Tuple[str, Tuple[str, ...]]]] = {\n"
    )
    for name, fields in structs.items():
        found = {
            f.name: f.elements
            for f in fields
            if f.ctype == "cls_buffer" and f.elements and not f.elements[2]
        }
        if found:
            out.append(f'    "{name}": {{\n')
            out += [f'        "{k}": ("{e[0]}", {e[1]!r}),\n' for k, e in found.items()]
            out.append("    },\n")
    out.append("}\n\n# The buffers that calls read.\nINPUTS: Dict[str, Tuple[str, ...]] = {\n")
    for name, fields in structs.items():
        read = tuple(f.name for f in fields if f.elements and f.elements[2])
        if read:
            out.append(f'    "{name}": {read!r},\n'.replace("'", '"'))
    out.append("}\n\nFIELD_COUNTS: Dict[str, Dict[str, str]] = {\n")
    for name, fields in structs.items():
        found = {
            f.name: count_of(f, fields)
            for f in fields
            if f.ctype.endswith("*") and count_of(f, fields)
        }
        if found:
            out.append(f'    "{name}": {found!r},\n'.replace("'", '"'))
    out.append("}\n")
    for name in ("params", "context_options", "sampler_options", "outputs"):
        out.append(f"\n{name.upper()}_MANUAL: Manual = [\n")
        skip = ("vocab", "max_rows") if name == "sampler_options" else ()
        found = manual(structs["cls_" + name], names, skip)
        out += [f"    {entry!r},\n" for entry in found] + ["]\n"]
    out.append("\n# Python's words for C's: see _words.py.\nNAMES: Dict[str, str] = {\n")
    out += [f"    {key!r}: {value!r},\n" for key, value in names.items()] + ["}\n"]
    return "".join(out)


def main(include, package, library="libclsample.so"):
    text = read_headers(include)
    enums = dict(ENUM.findall(text))
    flags = {name for name in enums if f"{name} bits" in text}
    structs = {name: fields_of(body) for name, body in STRUCT.findall(text)}
    for fields in structs.values():
        for field in fields:
            found = ELEMENTS.search(field.comment) if field.own else None
            field.elements = found and (
                found[2],
                tuple(part.strip() for part in found[3].split(",")),
                bool(found[1]),
            )
    package = pathlib.Path(package)
    ffi = cffi.FFI()
    ffi.cdef(declarations(text))
    ffi.set_source("clsample._cffi", None)
    with contextlib.redirect_stdout(None):  # it tells the file's name
        ffi.emit_python_code(str(package / "_cffi.py"))
    (package / "_types.py").write_text(types_module(text, enums, flags, structs, library))


if __name__ == "__main__":
    main(*sys.argv[1:])
