#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Times other samplers on rows like the bench's: FlashInfer, PyTorch and llama.cpp (the package
llama-cpp-python), where they are installed.

    peers.py --batches 1,16,256 [--vocab 128256] [--dtype f32] [--runs N]
             [--clsample COMMAND]   also `clsample bench` of the same cases, in the same run
    peers.py --build        only compiles what FlashInfer compiles at its first calls
    peers.py --kept --clsample COMMAND
             times nothing: compares how many tokens each side of each case keeps of the same rows,
             and fails if they differ. The sides are a definition of the case's chain, clsample on
             the host with the parameters of its bench, and what is installed.

Prints an array of objects: library, version, function, case (the case of clsample bench that does
the same; null: none does), batch, vocab, dtype, runs, and medians in microseconds:

device_us  by CUDA events, while the device is kept busy until the host has launched all kernels
wall_us    from the call until the tokens are on the host
graph_us   the same where the kernels are replayed by a CUDA graph; null: they cannot be

or error in place of the times. Without a GPU, PyTorch runs on the
CPU and has only wall_us; llama.cpp's samplers run on the CPU alone, and only there are they timed.
Temperature .8, top-k 50 and top-p .9 are those of the bench.
"""
import argparse
import concurrent.futures
import ctypes
import importlib.util
import json
import math
import os
import random
import statistics
import struct
import subprocess
import sys
import tempfile
import time
import types

TEMPERATURE, TOP_K, TOP_P, MIN_P, DRAFTS = 0.8, 50, 0.9, 0.05, 4
REPETITION, FREQUENCY, PRESENCE, HISTORY = 1.1, 0.1, 0.1, 2000
SIGMA, SIGMA_TOP_K = 1.0, 100
DTYPES = {"f32": "float32", "f16": "float16", "bf16": "bfloat16"}
LEAD_CYCLES = 2_000_000  # about a millisecond


def make_rows(torch, count, vocab):
    """Rows as bench/rows.c describes them: like those of a language model, where one token has 0.6
    of the mass and the other logits fall with the id, and flat ones."""
    torch.manual_seed(1)
    language = 3.5 * torch.randn(count, vocab) - 0.5 * torch.log(1.0 + torch.arange(vocab))
    top = torch.randint(vocab, (count, 1))
    language.scatter_(1, top, -math.inf)
    language.scatter_(1, top, torch.logsumexp(language, 1, keepdim=True) + math.log(0.6 / 0.4))
    return language, torch.randn(count, vocab)


def import_flashinfer():
    """FlashInfer's package imports all its parts, and with them packages that sampling does not
    need. If one of these is missing, only the sampling part is imported."""
    try:
        import flashinfer
    except ImportError as error:
        found = importlib.util.find_spec("flashinfer") if "flashinfer" not in sys.modules else None
        if found is None or not found.submodule_search_locations:
            raise
        for name in [n for n in sys.modules if n.split(".")[0] == "flashinfer"]:
            del sys.modules[name]
        print(f"peers.py: only FlashInfer's sampling is imported: {error}", file=sys.stderr)
        flashinfer = types.ModuleType("flashinfer")
        flashinfer.__path__ = list(found.submodule_search_locations)
        sys.modules["flashinfer"] = flashinfer
        import flashinfer.sampling
        import flashinfer.version

        flashinfer.__version__ = flashinfer.version.__version__
    return flashinfer


# ------------------------------------------------------------------------- the samplers


class Inputs:
    """The rows of a batch on the device."""

    def __init__(self, torch, device, dtype, language, flat, batch):
        def rows(source, n):
            return source[torch.arange(n) % source.shape[0]].to(device, dtype)

        self.torch = torch
        self.batch = batch
        self.counts = False  # llama.cpp's samplers return how many tokens they keep
        self.language = rows(language, batch)
        self.flat = rows(flat, batch)
        self.rows = rows
        self.source = language
        # About Zipf's law, as in the bench.
        share = torch.rand(batch, HISTORY)
        self.history = (language.shape[1] ** share).long().sub(1).to(device)

    def draw(self, probs):
        return self.torch.multinomial(probs, 1)

    def drafts(self):
        """Targets [batch, drafts + 1, vocab], and drafts of a model that mostly has their
        distributions, as in the bench's cases of verification."""
        torch, n = self.torch, self.batch
        targets = self.rows(self.source, n * (DRAFTS + 1)).reshape(n, DRAFTS + 1, -1)
        chance = random.Random(1)
        probs = torch.softmax(targets.float() / TEMPERATURE, -1)
        like = [
            [r if chance.random() < 0.86 else (r + 1) % n for _ in range(DRAFTS)] for r in range(n)
        ]
        draft_probs = torch.stack(
            [torch.stack([probs[like[r][k], k] for k in range(DRAFTS)]) for r in range(n)]
        )
        ids = torch.multinomial(draft_probs.flatten(0, 1), 1).reshape(n, DRAFTS).int()
        return targets.flatten(0, 1), draft_probs, ids


def of_pytorch(torch, i):
    x = i.language

    def top_p(sorted_logits, ids):
        probs = torch.softmax(sorted_logits.float(), -1)
        before = torch.cumsum(probs, -1) - probs
        drawn = i.draw(probs.masked_fill(before > TOP_P, 0.0))
        return ids.gather(1, drawn)

    def chain():
        return top_p(*torch.topk(x / TEMPERATURE, min(TOP_K, x.shape[1])))

    def whole(rows):
        return lambda: top_p(*torch.sort(rows, descending=True))

    # As vLLM has it: the counts of all tokens stay on the device.
    ones = torch.ones_like(i.history, dtype=x.dtype)
    counts = torch.zeros_like(x).scatter_add_(1, i.history, ones)

    def penalties():
        penalty = torch.where(counts > 0, REPETITION, 1.0)
        y = torch.where(x > 0, x / penalty, x * penalty)
        y = y - FREQUENCY * counts - PRESENCE * (counts > 0)
        return top_p(*torch.topk(y / TEMPERATURE, min(TOP_K, y.shape[1])))

    def sigma():
        y, ids = torch.topk(i.flat / TEMPERATURE, min(SIGMA_TOP_K, x.shape[1]))
        least = y[:, :1] - SIGMA * (i.flat / TEMPERATURE).std(1, keepdim=True)
        probs = torch.softmax(y.masked_fill(y < least, -math.inf), -1)
        return ids.gather(1, i.draw(probs))

    def plain():
        return i.draw(torch.softmax(x.float() / TEMPERATURE, -1))

    yield "argmax", "greedy", lambda: torch.argmax(x, -1)
    yield "topk", None, lambda: torch.topk(x, min(TOP_K, x.shape[1]))[1]
    yield "topk, softmax, cumsum, multinomial", "topk", chain
    yield "softmax, multinomial", "plain", plain
    yield "sort, softmax, cumsum, multinomial", "topp_peaked", whole(x)
    yield "sort, softmax, cumsum, multinomial", "topp_flat", whole(i.flat)
    yield "penalties, topk, softmax, cumsum, multinomial", "penalties", penalties
    yield "topk, std, softmax, multinomial", "sigma", sigma


def of_flashinfer(flashinfer, i):
    s = flashinfer.sampling
    x, flat = i.language, i.flat

    def probs(logits, temperature):
        return s.softmax(logits, temperature=temperature)

    def top_p(logits):
        return s.top_p_sampling_from_probs(probs(logits, 1.0), TOP_P)

    yield (
        "top_k_top_p_sampling_from_logits",
        "topk",
        lambda: s.top_k_top_p_sampling_from_logits(x / TEMPERATURE, TOP_K, TOP_P),
    )
    yield (
        "softmax, top_k_top_p_sampling_from_probs",
        "topk",
        lambda: s.top_k_top_p_sampling_from_probs(probs(x, TEMPERATURE), TOP_K, TOP_P),
    )
    # A package of the newer versions, for compute capability 9.0 and later.
    if hasattr(flashinfer, "__path__") and importlib.util.find_spec("flashinfer.cake_sampling"):
        import flashinfer.cake_sampling as cake

        yield (
            "softmax, cake_sampling.top_k_top_p_sampling_from_probs",
            "topk",
            lambda: cake.top_k_top_p_sampling_from_probs(probs(x, TEMPERATURE), TOP_K, TOP_P),
        )
    yield "sampling_from_logits", "plain", lambda: s.sampling_from_logits(x / TEMPERATURE)
    yield (
        "softmax, min_p_sampling_from_probs",
        None,
        lambda: s.min_p_sampling_from_probs(probs(x, TEMPERATURE), MIN_P),
    )
    yield "softmax, top_p_sampling_from_probs", "topp_peaked", lambda: top_p(x)
    yield "softmax, top_p_sampling_from_probs", "topp_flat", lambda: top_p(flat)
    targets, draft_probs, ids = i.drafts()

    def verify():
        target = probs(targets, TEMPERATURE).reshape(i.batch, DRAFTS + 1, -1)
        return s.chain_speculative_sampling(draft_probs, ids, target)[0]

    yield "softmax, chain_speculative_sampling", "verify", verify


def of_llama(llama, torch, i):
    """llama.cpp's samplers, from a row of logits through the array of candidates to a token of the
    distribution of the bench's case. The rows are divided between threads."""
    import numpy

    threads = min(os.cpu_count(), i.batch)
    pool = concurrent.futures.ThreadPoolExecutor(threads)
    vocab = i.language.shape[1]
    ids = numpy.arange(vocab, dtype=numpy.int32)

    class Chain:
        def __init__(self, stages, history=()):
            self.data = numpy.zeros(vocab, [("id", "i4"), ("logit", "f4"), ("p", "f4")])
            self.chain = llama.llama_sampler_chain_init(llama.llama_sampler_chain_default_params())
            for stage in stages(llama):
                llama.llama_sampler_chain_add(self.chain, stage)
            for token in history:
                llama.llama_sampler_accept(self.chain, int(token))

        def draw(self, rows):
            return [self.token(row) if not i.counts else self.count(row) for row in rows]

        def count(self, row):
            self.token(row)  # which leaves tokens of probability 0 behind top-n-sigma
            return int((self.data["p"][: self.size] > 0).sum())

        def token(self, row):
            self.data["id"], self.data["logit"] = ids, row
            pointer = self.data.ctypes.data_as(ctypes.POINTER(llama.llama_token_data))
            array = llama.llama_token_data_array(pointer, vocab, -1, False)
            llama.llama_sampler_apply(self.chain, ctypes.byref(array))
            self.size = array.size
            return int(self.data["id"][array.selected])

    def sampler(stages, rows, history=()):
        chains = [Chain(stages, history) for _ in range(threads)]
        parts = [rows.numpy()[n::threads] for n in range(threads)]

        def call():
            drawn = pool.map(lambda pair: pair[0].draw(pair[1]), zip(chains, parts))
            tokens = [0] * len(rows)
            for n, part in enumerate(drawn):
                tokens[n::threads] = part
            return torch.tensor(tokens)

        return call

    def top_p(s):
        return [s.llama_sampler_init_top_p(TOP_P, 1), s.llama_sampler_init_dist(1)]

    def with_temperature(s, *before):
        return [*before, s.llama_sampler_init_temp(TEMPERATURE)]

    def top_k(s):
        return [*with_temperature(s, s.llama_sampler_init_top_k(TOP_K)), *top_p(s)]

    def plain(s):
        return [*with_temperature(s), s.llama_sampler_init_dist(1)]

    def penalties(s):
        make, amounts = s.llama_sampler_init_penalties, [HISTORY, REPETITION, FREQUENCY, PRESENCE]
        if len(make.argtypes) > len(amounts):  # newer ones take the vocabulary
            amounts.insert(0, vocab)
        return [make(*amounts), *top_k(s)]

    def sigma(s):
        stages = s.llama_sampler_init_top_n_sigma(SIGMA), s.llama_sampler_init_top_k(SIGMA_TOP_K)
        return [*with_temperature(s, *stages), s.llama_sampler_init_dist(1)]

    yield "greedy", "greedy", sampler(lambda s: [s.llama_sampler_init_greedy()], i.language)
    yield "top_k, temp, top_p, dist", "topk", sampler(top_k, i.language)
    yield "temp, dist", "plain", sampler(plain, i.language)
    yield "top_p, dist", "topp_peaked", sampler(top_p, i.language)
    yield "top_p, dist", "topp_flat", sampler(top_p, i.flat)
    history = i.history[0].tolist()
    yield (
        "penalties, top_k, temp, top_p, dist",
        "penalties",
        sampler(penalties, i.language, history),
    )
    yield "top_n_sigma, top_k, temp, dist", "sigma", sampler(sigma, i.flat)


# ------------------------------------------------------------------------- the times


def wall(call, host, torch, runs, cuda):
    times = []
    for _ in range(runs):
        begin = time.perf_counter()
        out = call()
        host.copy_(out.reshape(-1)[: host.numel()], non_blocking=True)
        if cuda:
            torch.cuda.synchronize()
        times.append((time.perf_counter() - begin) * 1e6)
    return statistics.median(times)


def on_device(call, torch, runs):
    times = []
    for _ in range(min(runs, 101)):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda._sleep(LEAD_CYCLES)
        begin.record()
        call()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end) * 1e3)
    return statistics.median(times)


def of_graph(call, host, torch, runs):
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = call()

    def replay():
        graph.replay()
        return out

    return wall(replay, host, torch, runs, True)


def measure(call, torch, runs, cuda):
    out = call()
    n = out.numel()
    host = torch.empty(n, dtype=out.dtype, pin_memory=cuda)
    for _ in range(3):
        call()
    times = {"device_us": None, "wall_us": wall(call, host, torch, runs, cuda), "graph_us": None}
    if cuda:
        times["device_us"] = on_device(call, torch, runs)
        try:
            times["graph_us"] = of_graph(call, host, torch, runs)
        except RuntimeError as error:
            print(f"peers.py: no graph: {str(error).splitlines()[0]}", file=sys.stderr)
            torch.cuda.synchronize()
    return times


def fail(error):
    text = str(error).strip().splitlines()
    return {"error": f"{type(error).__name__}: {text[0] if text else ''}"[:300]}


def libraries(torch, cuda):
    """Name, version, and a function that yields what to time; or an error."""
    yield "PyTorch", torch.__version__, lambda i: of_pytorch(torch, i), None
    if not cuda:
        try:
            import llama_cpp as llama
        except ImportError as error:
            yield "llama.cpp", None, None, fail(error)
        else:
            yield "llama.cpp", llama.__version__, lambda i: of_llama(llama, torch, i), None
    try:
        if not cuda:
            raise ImportError("PyTorch sees no CUDA device")
        flashinfer = import_flashinfer()
    except Exception as error:  # whatever a package does while it is imported
        yield "FlashInfer", None, None, fail(error)
        return
    yield "FlashInfer", flashinfer.__version__, lambda i: of_flashinfer(flashinfer, i), None


def of_clsample(command, about):
    """The wall times of `clsample bench`, and of its floor: a read of the same logits."""
    cases = ["greedy", "topk", "plain", "topp_peaked", "topp_flat", "penalties", "sigma"]
    arguments = [f"--{name}={about[name]}" for name in ("batch", "vocab", "dtype")]
    arguments += [f"--case={case}" for case in cases]
    version = subprocess.check_output([command, "--version"], text=True).split()[1]
    output = subprocess.check_output([command, "bench", "--json", *arguments])
    for found in json.loads(output):
        entry = {"library": "clsample", "version": version, "case": found["case"], **about}
        yield {**entry, "function": "cls_sample", "wall_us": found["step_us"]}
        yield {**entry, "function": "floor", "wall_us": found["floor_us"]}


def run_batch(options, torch, cuda, rows, batch):
    device = "cuda" if cuda else "cpu"
    dtype = getattr(torch, DTYPES[options.dtype])
    inputs = Inputs(torch, device, dtype, *rows, batch)
    about = {"batch": batch, "vocab": rows[0].shape[1], "dtype": options.dtype}
    if options.clsample is not None:
        yield from of_clsample(options.clsample, about)
    for library, version, functions, error in libraries(torch, cuda):
        name = {"library": library, "version": version}
        if library != "PyTorch" and error is None and options.dtype != "f32":
            continue  # their sampling functions compute in float32
        if error is not None:
            yield {**name, "function": None, "case": None, **about, **error}
            continue
        try:
            for function, case, call in functions(inputs):
                entry = {**name, "function": function, "case": case, **about, "runs": options.runs}
                try:
                    entry.update(measure(call, torch, options.runs, cuda))
                except Exception as failure:  # one function's; the others are measured
                    entry.update(fail(failure))
                yield entry
        except Exception as failure:
            yield {**name, "function": None, "case": None, **about, **fail(failure)}


# ------------------------------------------------------------------------- what is kept

TOP_K_TOP_P = [("temperature", TEMPERATURE), ("top_k", TOP_K), ("top_p", TOP_P)]
CHAINS = {  # in order
    "topk": TOP_K_TOP_P,
    "plain": [("temperature", TEMPERATURE)],
    "topp_peaked": [("top_p", TOP_P)],
    "topp_flat": [("top_p", TOP_P)],
    "penalties": [("penalties", None), *TOP_K_TOP_P],
    "sigma": [("sigma", SIGMA), ("top_k", SIGMA_TOP_K), ("temperature", TEMPERATURE)],
}
FLAT = ("topp_flat", "sigma")  # the cases of flat rows


def kept_by_definition(chain, row, history):
    """How many tokens of a row a chain keeps."""
    logits = list(row)
    for stage, value in chain:
        if stage == "penalties":
            for token in set(history):
                penalty = 1 / REPETITION if logits[token] > 0 else REPETITION
                logits[token] *= penalty
                logits[token] -= FREQUENCY * history.count(token) + PRESENCE
        elif stage == "temperature":
            logits = [z / value for z in logits]
        elif stage == "sigma":
            least = max(logits) - value * statistics.pstdev(logits)
            logits = [z for z in logits if z >= least]
        elif stage == "top_k":
            logits = sorted(logits, reverse=True)[:value]
        elif stage == "top_p":
            logits.sort(reverse=True)
            weights = [math.exp(z - logits[0]) for z in logits]
            whole, before, n = sum(weights), 0.0, 0
            while n < len(weights) and before < value * whole:
                before += weights[n]
                n += 1
            del logits[n:]
    return len(logits)


def write_npy(path, kind, rows):
    shape = f"({len(rows)}, {len(rows[0])})"
    head = f"{{'descr': '<{kind}4', 'fortran_order': False, 'shape': {shape}}}"
    head += " " * (-(len(head) + 11) % 64) + "\n"
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode())
        for row in rows:
            file.write(struct.pack(f"<{len(row)}{kind}", *row))


def parameters_of_bench(command):
    """The options of clsample sample for each case of the bench."""
    bench = [command, "bench", "--json", "--batch=1", "--vocab=64", "--runs=1", "--history=2"]
    cases = [f"--case={case}" for case in CHAINS]
    found = json.loads(subprocess.check_output([*bench, *cases]))
    pairs = {one["case"]: [pair.split("=") for pair in one["parameters"].split()] for one in found}
    return {
        case: [f"--{name.replace('_', '-')}={value}" for name, value in pairs[case]]
        for case in CHAINS
    }


def kept_by_clsample(command, arguments, rows, history):
    """By clsample on the host."""
    with tempfile.TemporaryDirectory() as folder:
        logits, prompt = os.path.join(folder, "logits.npy"), os.path.join(folder, "prompt.npy")
        write_npy(logits, "f", rows)
        write_npy(prompt, "i", [history] * len(rows))
        sample = [command, "sample", "--device=host", "--json", f"--logits={logits}"]
        sample += [f"--prompt={prompt}", f"--kept-set={len(rows[0])}", *arguments]
        drawn = json.loads(subprocess.check_output(sample))
    return [row["kept_count"] for row in drawn]


def kept_by_libraries(found, language, flat, history):
    """By the libraries that are installed, on the CPU: yields a library, a case and its numbers."""
    try:
        import torch
    except ImportError:
        return
    sources = [torch.tensor(rows) for rows in (language, flat)]
    inputs = Inputs(torch, "cpu", torch.float32, *sources, len(language))
    inputs.history = torch.tensor([history] * len(language))
    inputs.counts = True
    inputs.draw = lambda probs: found.append((probs > 0).sum(-1).tolist()) or probs.argmax(-1, True)
    for library, _, functions, error in libraries(torch, False):
        for function, case, call in functions(inputs) if error is None else ():
            if case in CHAINS:
                numbers = call()
                yield library, case, found.pop() if found else numbers.tolist()


def compare_kept(command):
    """Prints what each side of each case keeps, and returns 1 if they differ in a case."""
    chance, vocab, count = random.Random(3), 3000, 4
    flat = [[chance.gauss(0, 1) for _ in range(vocab)] for _ in range(count)]
    language = [
        [3.5 * chance.gauss(0, 1) - 0.5 * math.log(1 + t) for t in range(vocab)]
        for _ in range(count)
    ]
    history = [int(vocab ** chance.random()) - 1 for _ in range(HISTORY)]
    sides = {case: {} for case in CHAINS}
    arguments = parameters_of_bench(command)
    for case, chain in CHAINS.items():
        rows = flat if case in FLAT else language
        sides[case]["definition"] = [kept_by_definition(chain, row, history) for row in rows]
        sides[case]["clsample"] = kept_by_clsample(command, arguments[case], rows, history)
    for library, case, numbers in kept_by_libraries([], language, flat, history):
        sides[case][library] = numbers
    print(json.dumps(sides, indent=1))
    differ = [case for case, by in sides.items() if len(set(map(tuple, by.values()))) != 1]
    for case in differ:
        print(f"peers.py: {case}: the sides keep different numbers of tokens", file=sys.stderr)
    return 1 if differ else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--vocab", type=int, default=128256)
    parser.add_argument("--batches", default="1")
    parser.add_argument("--dtype", choices=DTYPES, default="f32")
    parser.add_argument("--runs", type=int, default=201)
    parser.add_argument("--build", action="store_true")
    parser.add_argument("--clsample")
    parser.add_argument("--kept", action="store_true")
    options = parser.parse_args()
    if options.kept and options.clsample is None:
        parser.error("--kept needs --clsample")
    if options.kept:
        return compare_kept(options.clsample)
    try:
        import torch
    except ImportError as error:
        about = {"function": None, "case": None, "batch": None, "vocab": None, "dtype": None}
        print(json.dumps([{"library": "PyTorch", "version": None, **about, **fail(error)}]))
        return 0
    cuda = torch.cuda.is_available()
    if options.build and not cuda:
        return 0
    if options.build:
        options.runs = 1
    batches = list(map(int, options.batches.split(",")))
    # Larger batches repeat these, but not after a multiple of the rows of a verification.
    rows = make_rows(torch, min(max(batches), 64) + 2, options.vocab)
    found = []
    for batch in batches:
        found += run_batch(options, torch, cuda, rows, batch)
        if cuda:
            torch.cuda.empty_cache()
    print(json.dumps(found, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
