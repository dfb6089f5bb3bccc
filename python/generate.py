# SPDX-License-Identifier: MIT
"""Writes the parts of the Python package that repeat the public headers.

    generate.py INCLUDE PACKAGE [LIBRARY]

INCLUDE is the folder of clsample.h. Two modules are written to the folder PACKAGE. LIBRARY is the
name of the library that is opened where the package contains none.

_cffi.py    the declarations, in cffi's compact form, which is the same for every Python version
_types.py   the enums, the names and types of parameters, options and outputs, and their comments

Which parameters have a value for each phase says the library's table, lib/base/param_table.h.

cffi parses the declarations. Comments become docstrings, and nothing else is read from them. A new
parameter therefore needs no line of Python. A new output needs one: BUFFERS has its shape.
"""

import contextlib
import pathlib
import re
import sys

import cffi

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import words  # noqa: E402

OPENCL_TYPES = """
typedef int32_t cl_int;
typedef uint32_t cl_uint;
typedef struct _cl_device_id *cl_device_id;
typedef struct _cl_context *cl_context;
typedef struct _cl_command_queue *cl_command_queue;
typedef struct _cl_mem *cl_mem;
typedef struct _cl_event *cl_event;
"""

# By these the library finds the functions of the loader that pyopencl is linked with.
SYSTEM_CALLS = """
void *dlopen(const char *, int);
void *dlsym(void *, const char *);
"""

COMMENT = re.compile(r"/\*.*?\*/", re.S)
STRUCT = re.compile(r"typedef struct (cls_\w+) \{(.*?)^\} \1;", re.S | re.M)
ENUM = re.compile(r"typedef enum (cls_\w+) \{(.*?)^\} \1;", re.S | re.M)
TYPE_COMMENT = re.compile(r"(/\*(?:(?!\*/).)*\*/)\ntypedef (?:enum|struct) (cls_\w+)", re.S)
DEFINE = re.compile(r"^#define (CLS_\w+) (\d+)u?(?=\s)", re.M)

# The buffers that calls write: elements and shape. None: refused until a later version.
BUFFERS = {
    "cls_step": {"tokens": "int32 rows", "status": "int32 rows"},
    "cls_top_tokens": {"ids": "int32 rows, count", "logprobs": "float32 rows, count"},
    "cls_given_tokens": {"logprobs": "float32 rows, count", "ranks": "int32 rows, count"},
    "cls_candidates": {
        "ids": "int32 rows, count",
        "logits": "float32 rows, count",
        "probs": "float32 rows, count",
        "counts": "int32 rows",
    },
    "cls_kept_set": {
        "ids": "int32 rows, capacity",
        "counts": "int32 rows",
        "offsets": "int32 rows + 1",
    },
    "cls_outputs": {
        "logprobs": "float32 rows",
        "ranks": "int32 rows",
        "probs": "float32 rows, vocab",
        "final_logits": "float32 rows, vocab",
        "entropy": "float32 rows",
        "kept_mass": "float32 rows",
        "latest": "int32 slot_count",
    },
    "cls_verify_call": {
        "tokens": "int32 requests, max_drafts + 1",
        "accepted": "int32 requests",
        "emitted": "int32 requests",
        "drafted": "int32 requests",
        "nodes": "int32 requests, max_drafts",
        "status": "int32 requests",
        "counters": "int32 slot_count, 3",
        "latest": "int32 slot_count",
        "token_status": "int32 requests, max_drafts + 1",
    },
    "cls_draft_call": {"draft_ids": "int32 requests, k", "counts": "int32 requests"},
}
# The buffers of outputs that calls read.
INPUTS = {"cls_given_tokens": ("ids",)}

# A field is of the enum that has its name, or its struct's name before it. These have others. 0 is
# a value, 1 a sum of bits, 2 a sum of 1 << value.
VALUE, BITS, SHIFTS = range(3)
ENUMS = {
    "method": ("cls_verify_method", VALUE),
    "features": ("cls_feature", BITS),
    "status": ("cls_row_status", BITS),
    "dtypes": ("cls_dtype", SHIFTS),
}
FLAGS = [name for name, how in ENUMS.values() if how == BITS]


class Field:
    """A field of a struct: its C type without const, its enum as (class, how) or None, its comment,
    and whether the comment is its own, not one that it shares with the field before it."""

    def __init__(self, structure, name, ctype, comment, own, enums):
        self.name, self.comment, self.own, self.enum = name, comment, own, None
        self.ctype = "function" if ctype.kind == "function" else ctype.cname
        if self.ctype in ("int32_t", "uint32_t"):
            found = [n for n in (f"cls_{name}", f"{structure}_{name}") if n in enums]
            enum, how = ENUMS.get(name) or (found and (found[0], VALUE)) or (None, None)
            self.enum = enum and (class_name(enum), how)


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


def comments_of(body, item="[^;/]+;"):
    """The comments of the fields between the braces of a struct, or of the members of an enum, and
    whether each is its own. A comment stands behind its field on the line, or before the fields
    that it is about; a blank line ends these."""
    comments, latest, comment, fresh = {}, [], "", False
    for space, remark, declaration in re.findall(rf"(\s*)(?:(/\*.*?\*/)|({item}))", body, re.S):
        if space.count("\n") > 1:
            comment, fresh = "", False
        if remark and "\n" not in space:
            comments.update((name, (plain(remark), True)) for name in latest)
        elif remark:
            comment, fresh = (comment + " " if fresh else "") + plain(remark), True
        else:
            name = r"\(\*(\w+)" if "(*" in declaration else r"(\w+)(?: = .*|[,;[])"
            latest = re.findall(name, declaration)
            comments.update((name, (comment, fresh)) for name in latest)
            fresh = False
    return comments


def class_name(name):
    return "".join(word.capitalize() for word in name.split("_")[1:]).replace("Dtype", "DType")


def members_of(enum):
    """The members of an enum: their names in C, those in Python, and their values."""
    members = sorted(enum.relements.items(), key=lambda member: abs(member[1]))
    words = [name.split("_") for name, _ in members]
    common = 0
    while all(len(w) > common + 1 and w[common] == words[0][common] for w in words):
        common += 1
    return [(name, "_".join(w[common:]), value) for w, (name, value) in zip(words, members)]


def declarations(headers):
    """The headers as cffi reads them: without comments, preprocessor and annotations."""
    text = COMMENT.sub("", headers)
    text = re.sub(r"^#(?:.*\\\n)*.*$", "", text, flags=re.M)
    text = re.sub(r'^extern "C" \{|^\}$|^\s*static inline void name##.*$', "", text, flags=re.M)
    text = re.sub(r"\b(CLS_API|CLS_WARN_UNUSED|CLS_RETURNS_NONNULL)\b", "", text)
    text = re.sub(r"^CLS_INIT_FUNCTION\(.*\)$", "", text, flags=re.M)
    for name, value in DEFINE.findall(headers):  # cffi knows no names in an array's length
        text = re.sub(rf"\b{name}\b", value, text)
    return OPENCL_TYPES + text + SYSTEM_CALLS


ANNOTATIONS = {
    "float": "float",
    "double": "float",
    "cls_ids": "Ids",
    "cls_biases": "Biases",
    "cls_sequences": "Sequences",
    "char *": "Path",
    "void *": "bytes",
    "cls_grammar *": "Grammar",
    "cls_params *": "Params",
    "function": "Callable[..., None]",
}
RECORDS = (
    "cls_device_info",
    "cls_program_info",
    "cls_memory",
    "cls_grammar_info",
)
RECORD_TYPES = {"float": "float", "double": "float", "char *": "str"}
NOT_ARGUMENTS = {
    "struct_size",
    "reserved",
    "progress_user",
    "find_opencl",
    "find_opencl_user",
    "build_log",
    "build_log_size",
    "build_log_stays",
    "binary_size",
    "log_user",
    "record_user",
    "record_name",
}


# The classes of enums that are neither Names nor Bits.
BASES = {"cls_row_status": "RowBits"}


# Fields that are arguments of another name, and their types in Python.
ARGUMENTS = {
    "late_compile": ("late_compile", "bool"),
    "record": ("record", "str"),
    "record_arrays": ("record_arrays", "bool"),
}


def annotation(field):
    if field.enum:
        return f"{'Choices' if field.enum[1] else 'Choice'}[{field.enum[0]}]"
    if field.ctype.startswith("uint8_t["):
        return "Stages"
    return ANNOTATIONS.get(field.ctype, "int")


def typed_dict(name, title, fields, skip=()):
    lines = [f"class {name}(TypedDict, total=False):", f'    """{title}"""', ""]
    for field in fields:
        if field.name not in NOT_ARGUMENTS | set(skip):
            found = ARGUMENTS.get(field.name) or (field.name, annotation(field))
            lines.append("    {}: {}".format(*found))
    return "\n".join(lines) + "\n\n\n"


def outputs_class(name, structure, doc, structs):
    """A class with an attribute for each buffer that a call writes."""
    lines = [f"class {name}(Arrays):", doc, ""]
    shapes, inputs = BUFFERS[structure], INPUTS.get(structure, ())
    for field in structs[structure]:
        if field.ctype == "cls_buffer" and shapes.get(field.name):
            lines.append(f"    {field.name}: Optional[Array] = None")
        elif field.ctype in BUFFERS:
            lines.append(f"    {field.name}: Optional[{class_name(field.ctype)}] = None")
        elif field.ctype == "cls_buffer" and field.name not in (*shapes, *inputs):
            raise SystemExit(f"generate.py: {structure}.{field.name} needs a shape in BUFFERS")
    return "\n".join(lines) + "\n\n\n"


def record_class(name, fields, doc):
    """A named tuple of a struct that the library fills."""
    lines = [f"class {class_name(name)}(NamedTuple):", doc, ""]
    for field in fields:
        kind = RECORD_TYPES.get(field.ctype, "Tuple[int, ...]" if "[" in field.ctype else "int")
        if field.enum and field.enum[1] != SHIFTS:
            kind = field.enum[0]
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
    for field in fields:
        name = ARGUMENTS.get(field.name, (field.name,))[0]
        if name in NOT_ARGUMENTS | set(skip):
            continue
        comment = words.MANUAL.get(name, field.comment)
        if groups and groups[-1][1] == comment and not field.own:
            groups[-1][0].append(name)
        else:
            groups.append(([name], comment))
    return [
        (tuple(found), wrapped(words.translate(text, names), 88, indent)) for found, text in groups
    ]


def words_of(enums, defines):
    """Python's words for the enums and the constants of the headers."""
    names = {name[:3].upper() + name[3:]: value for name, value in defines}
    for name, enum in enums.items():
        names[name] = class_name(name)
        for member, word, _ in members_of(enum):
            named = name in ("cls_status", "cls_row_status")
            names[member] = f"{class_name(name)}.{word}" if named else repr(word.lower())
    return names


def enum_class(name, enum, comments, comment, names):
    """A class of an enum, whose docstring has the comments of its members."""
    base = BASES.get(name, "Bits" if name in FLAGS else "Names")
    members = members_of(enum)
    groups = [
        ([word], wrapped(words.translate(comments.get(member, ("",))[0], names), 92, " " * 8))
        for member, word, _ in members
    ]
    comment = words.MANUAL.get(class_name(name), comment)
    doc = docstring(words.translate(comment, names), groups)
    lines = [f"    {word} = {value}\n" for _, word, value in members]
    return f"class {class_name(name)}({base}):\n{doc}\n\n{''.join(lines)}\n\n"


def docstring(comment, groups):
    """A comment on a whole, and those of its parts."""
    parts = [f"    {', '.join(found)}\n{text}\n" for found, text in groups]
    return f'    """{wrapped(comment, 92, "    ").strip()}\n\n{"".join(parts)}    """'


def types_module(text, enums, structs, comments, library, by_phase):
    version = re.search(r'CLS_VERSION_STRING "([^"]+)"', text)[1]
    number = re.search(r"CLS_VERSION_NUMBER (\d+)", text)[1]
    out = [f'''# SPDX-License-Identifier: MIT
"""Generated from the public headers by generate.py."""
from __future__ import annotations

import os
from typing import (TYPE_CHECKING, Any, Callable, Dict, Iterable, Mapping, NamedTuple,
                    Optional, Sequence, Tuple, TypedDict, TypeVar, Union)

from ._enums import Arrays, Bits, Names, RowBits

if TYPE_CHECKING:
    from ._arrays import Array
    from ._grammar import Grammar

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
    names = words_of(enums, DEFINE.findall(text))
    titles = {found[2]: plain(found[1]) for found in TYPE_COMMENT.finditer(text)}

    def doc_of(name, skip=()):
        title = words.translate(titles[name], names)
        return docstring(title, manual(structs[name], names, skip, " " * 8))

    for name, enum in enums.items():
        out.append(enum_class(name, enum, comments[name], titles.get(name, ""), names))
    out.append("Stages = Iterable[Union[Stage, str, int]]\n\n\n")
    title = "The sampling parameters of a request: see Sampler.begin()."
    out.append(typed_dict("Params", title, structs["cls_params"]))
    out[-1] = out[-1].replace("chain: Choice[Chain]", "chain: Union[Choice[Chain], Stages]")
    out[-1] = out[-1].replace("    seed: int", "    seed: Optional[int]")
    title = "The options of a Context."
    out.append(typed_dict("ContextOptions", title, structs["cls_context_options"]))
    title = "The options of a Sampler."
    skip = ("vocab", "max_rows")
    out.append(typed_dict("SamplerOptions", title, structs["cls_sampler_options"], skip))
    title = '    """The outputs of Sampler.sample() and Sampler.verify()."""'
    lines = ["class OutputOptions(TypedDict, total=False):", title, ""]
    for field in structs["cls_outputs"]:
        if field.ctype == "cls_buffer" or field.ctype in structs:
            lines.append(f"    {field.name}: Any")
        elif field.name not in NOT_ARGUMENTS:
            lines.append(f"    {field.name}: {annotation(field)}")
    out.append("\n".join(lines) + "\n\n\n")
    for field in structs["cls_outputs"]:
        if field.ctype in BUFFERS:
            name = field.ctype
            doc = doc_of(name, ("count", "capacity"))
            out.append(outputs_class(class_name(name), name, doc, structs))
    title = '    """What a call wrote beyond tokens and status: see Sampler.sample()."""'
    out.append(outputs_class("Outputs", "cls_outputs", title, structs))
    out += [record_class(name, structs[name], doc_of(name)) for name in RECORDS]
    out.append(f"STRUCTS = {list(structs)}\n\n")
    out.append(
        "# The enums of fields: 0 a value, 1 a sum of bits, 2 a sum of 1 << value.\n"
        "FIELD_ENUMS: Dict[str, Dict[str, Tuple[Any, int]]] = {\n"
    )
    for name, fields in structs.items():
        found = [f'"{f.name}": ({f.enum[0]}, {f.enum[1]})' for f in fields if f.enum]
        out.append(f'    "{name}": {{{", ".join(found)}}},\n')
    out.append("}\n\n")
    buffers = {
        name: {field: split_shape(shape) for field, shape in shapes.items() if shape}
        for name, shapes in BUFFERS.items()
    }
    out.append(
        "# The elements and the shapes of the buffers that calls write.\n"
        f"BUFFERS: Dict[str, Dict[str, Tuple[str, Tuple[str, ...]]]] = {buffers}\n\n"
        f"# The buffers that calls read.\nINPUTS: Dict[str, Tuple[str, ...]] = {INPUTS}\n"
    )
    out.append(
        "\n# The parameters that post_thinking has values of.\n"
        f"BY_PHASE: Sequence[str] = {by_phase}\n"
    )
    for name in ("params", "context_options", "sampler_options", "outputs"):
        out.append(f"\n{name.upper()}_MANUAL: Manual = [\n")
        skip = ("vocab", "max_rows") if name == "sampler_options" else ()
        found = manual(structs["cls_" + name], names, skip)
        out += [f"    {entry!r},\n" for entry in found] + ["]\n"]
    return "".join(out)


def split_shape(text):
    elements, shape = text.split(" ", 1)
    return elements, tuple(shape.split(", "))


def main(include, package, library="libclsample.so"):
    text = read_headers(include)
    package = pathlib.Path(package)
    ffi = cffi.FFI()
    ffi.cdef(declarations(text))
    ffi.set_source("clsample._cffi", None)
    with contextlib.redirect_stdout(None):  # it tells the file's name
        ffi.emit_python_code(str(package / "_cffi.py"))
    types = {name: ffi.typeof(name) for name in ffi.list_types()[0] if name.startswith("cls_")}
    enums = {name: ctype for name, ctype in types.items() if ctype.kind == "enum"}
    comments = {name: comments_of(body) for name, body in STRUCT.findall(text)}
    member = r"CLS_\w+ = -?\d+,?"
    comments.update((name, comments_of(body, member)) for name, body in ENUM.findall(text))
    structs = {
        name: [
            Field(name, field, place.type, *comments.get(name, {}).get(field, ("", False)), enums)
            for field, place in ctype.fields
        ]
        for name, ctype in types.items()
        if ctype.kind == "struct" and ctype.fields
    }
    table = (pathlib.Path(__file__).parents[1] / "lib/base/param_table.h").read_text()
    by_phase = re.findall(r"X\(p, \d+, [A-Z0-9]+, (\w+), \w+, EACH,", table)
    (package / "_types.py").write_text(
        types_module(text, enums, structs, comments, library, by_phase)
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
