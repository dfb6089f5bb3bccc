# SPDX-License-Identifier: MIT
"""Python's words for C's in the comments of the headers, which become docstrings. generate.py adds
the names of all enums and constants to its table."""

import re
from typing import Dict, Mapping

# What Python calls otherwise. Fields stand here without their structs.
WORDS: Dict[str, str] = {
    "NULL": "None",
    "`slots`": "`requests`",
    "kept_set.capacity": "kept_set",
    "cls_outputs": "Outputs",
    "cls_outputs.ranks": "Outputs.ranks",
    "cls_shard_create()": "shards, which have no Python interface",
    "cls_device_info.shortlist": "DeviceInfo.shortlist",
    "cls_context_program()": "Context.programs()",
    "cls_sampler_infill()": "Sampler.infill()",
    "cls_slot_begin()": "Sampler.begin()",
    "cls_slot_rollback()": "Request.rollback()",
    "cls_slot_force()": "Request.force()",
    "cls_slot_copy()": "Request.fork()",
    "cls_sample()": "Sampler.sample()",
    "cls_accept()": "Sampler.accept()",
    "cls_verify()": "Sampler.verify()",
    "cls_draft()": "Sampler.draft()",
    "cls_logprobs()": "Sampler.logprobs()",
    "cls_chain_stages()": "chain_stages()",
    "cls_error_message()": "The exception's text",
    "cls_error_opencl()": "the exception's `opencl`",
    "cls_host_draw()": "draw()",
    "cls_grammar_query()": "Grammar.info",
    "cls_watermark_detect()": "watermark_detect()",
}
# A field of a struct, constants, a function or a type.
_WORD = re.compile(
    r"(?:\w+->)+\w+(?:\[\w+\]|\.\w+)*|CLS_\w+(?: \| CLS_\w+)*|cls_\w+(?:\.\w+)?(?:\(\))?|NULL"
    r"|`slots`"
)


def _field(found: str, names: Mapping[str, str]) -> str:
    field = found.split("->")[-1]
    words = {**names, **WORDS}
    return words.get(found) or words.get(field, field)


def translate(text: str, names: Mapping[str, str]) -> str:
    """A comment in Python's words. names: what to add to the table, as it stands."""

    def word(match: "re.Match[str]") -> str:
        *others, last = [_field(part, names) for part in match[0].split(" | ")]
        return f"{', '.join(others)} and {last}" if others else last

    return _WORD.sub(word, text)


# Comments in place of the headers', where an argument is another in Python.
MANUAL: Dict[str, str] = {
    "Feature": "What a step may need beyond greedy rows and temperatures. A sampler has the"
    " features that its options and Sampler.compile() name, and those that its calls have needed"
    " so far.",
    "subgroups": "The sub-group functions that the kernels use: a Subgroups.",
    "chain": "The order of the truncations: 'default', 'vllm' or 'llama'; or a list of stages,"
    " such as ['top_k', 'temperature'], each at most once. A stage whose parameter is set must"
    " occur.",
    "stages": "The stages of the chain 'custom'. A list as `chain` does the same.",
    "seed": "None: a seed is drawn from the system, and the request's `params` have it. The same"
    " seed, stream and position draw the same random number on every device and in every batch."
    " The generator is Philox4x32-10 (Salmon et al. 2011) with key = seed and counter = (position,"
    " purpose, stream low, stream high). 0 to 2^64 - 1.",
    "stream": "Streams distinguish requests that share a seed. 0 to 2^64 - 1.",
    "allowed_ids": "Only these ids may be drawn, any number of them; they cost as much as a mask."
    " An empty list allows no token, and the rows are RowStatus.EMPTY. None: all are allowed.",
    "only_allowed": "1: as if allowed_ids were given.",
    "max_history": "The number of a request's latest tokens that are stored in order, 4 bytes each."
    " It limits penalty_window and what draft(), DRY, n-grams, bad words and loop stops see, and"
    " cannot be changed later. With 0, requests with DRY or no_repeat_ngram are refused. Up to"
    " 16,384, or a multiple of 64 up to 1,048,576, of which DRY, n-grams and bad words see the"
    " latest 16,384.",
    "dtypes": "Types of logits: names of DType such as ['f32', 'bf16'], or 'all'. 0: for a context"
    " float32, for a sampler the types of its context.",
    "features": "What steps need beyond greedy rows and temperatures: names of Feature such as"
    " ['shortlist', 'mask'], or 'all'. 0: 'shortlist'. What else a call needs is compiled then.",
    "late_compile": "True: a call compiles the features that it needs and the sampler does not"
    " have, before it enqueues anything; this may take seconds, and the context's `progress` is"
    " called. False: such a call is refused, and the message names all of them.",
    "host_mask_size": "The size in bytes of the largest mask on the host, or of the tokens of"
    " accept() on the host. Memory for it is allocated with the sampler: once on the device and 16"
    " times on the host. 0: the first steps with such masks allocate it, and may raise OutOfMemory"
    " or OpenCLError with nothing enqueued.",
    "log": "log(sentence) is called when a device is brought up and programs are compiled: why"
    " groups are smaller than they could be, what was compiled or loaded and how long that took,"
    " why a program is compiled again.",
    "record": "The path of a file to which the calls are written, as a text that clsample run"
    " replays on the host and on any device. It has all tokens of all requests. Files of arrays and"
    " grammars are written beside it; what these files had is replaced.",
    "record_arrays": "With `record`. True: logits, masks, biases and draft distributions are"
    " written to files. False: their hashes stand in the text.",
    "record_size": "With `record`: bytes of memory for what steps in flight read. The text ends"
    " where it is full. 0: 64 MiB, or three steps if that is more.",
    "counts": "What is counted of the tokens, for penalties: 'none' (no penalties), 'presence' (no"
    " frequency penalty) or 'all'.",
    "tier": "The OpenCL features that the kernels may use: 'auto' (what the device has), 'int64' or"
    " 'subgroups'.",
    "post_thinking": "The parameters of the rows outside the thinking, a dict; the others are then"
    " for the thinking. It may have chain, temperature, dynatemp, the truncations (but for"
    " top_p_decay), min_keep, and repetition, frequency and presence penalty, which are not"
    " inherited. thinking_start and thinking_ends are needed. None: none.",
    "penalty_scope": "The tokens that count for the frequency and the presence penalty: 'output',"
    " or 'all' for prompt and output.",
    "logprob_kind": "The distribution of logprobs, ranks, top and given: 'raw', the softmax of the"
    " given logits, or 'final', the distribution that the token is drawn from.",
    "top": "The likeliest tokens of each row: their number, 1 to 128. `ids` and `logprobs` [rows,"
    " count] are its arrays.",
    "given": "Tokens of the caller's choice: their ids [rows, count], up to 1024 a row. `logprobs`"
    " and `ranks` [rows, count] are its arrays.",
    "kept_set": "The ids of each row's kept set, ascending: the most ids of a row, up to vocab."
    " `ids` [rows, capacity] and `counts` [rows] are its arrays. A row whose set has more gets"
    " RowStatus.OVERFLOW. A dict with offsets=True, such as {'capacity': 4096, 'ids': True,"
    " 'offsets': True}, has the sets one behind the other: capacity and `ids` [capacity] are then"
    " of all rows, and row r has ids[offsets[r]:offsets[r + 1]], or none if they do not fit.",
    "binary": "Compiled programs of Context.export(). A program that is missing, damaged, or of"
    " another version, device, driver or shape is compiled from source instead. A device without a"
    " compiler can use only compiled programs.",
    "progress": "progress(program, done, count) is called before each program is compiled or"
    " loaded. `count` is the number of programs that the call compiles or loads, and `done` is the"
    " number of those that came before this one.",
}
