# SPDX-License-Identifier: MIT
"""clsample.transformers against Transformers itself, on a tiny model with random weights: greedy
texts are those of model.generate(), penalties and bans included; sampled ones are those of the
host's reference and of a sampler's requests. Skipped where torch or transformers is missing."""

import subprocess
import sys

import numpy as np
import pytest

import clsample
from conftest import HOST, SOURCE, token_of

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import clsample.transformers as ours  # noqa: E402

sys.path.insert(0, str(SOURCE / "examples" / "python"))
import generate as example  # noqa: E402

torch.set_num_threads(1)  # its threads and the device's would wait for each other
VOCAB, PAD, END, NEW = example.VOCAB, example.PAD, example.END, 24
SAMPLING = dict(temperature=0.9, top_k=50, top_p=0.9, min_p=0.01, repetition_penalty=1.2)


@pytest.fixture(scope="module")
def model():
    return example.tiny_model()


@pytest.fixture
def inputs():
    """Three prompts of 7, 4 and 1 tokens, padded on the left."""
    random = np.random.default_rng(3)
    ids = torch.from_numpy(random.integers(3, VOCAB, (3, 7)))
    mask = torch.ones_like(ids)
    for row, padding in enumerate((0, 3, 6)):
        ids[row, :padding], mask[row, :padding] = PAD, 0
    return dict(input_ids=ids, attention_mask=mask)


def custom(model, inputs, context, **more):
    return model.generate(
        **{"max_new_tokens": NEW, **inputs, **more}, custom_generate=ours.generate, context=context
    )


def processed(model, inputs, params, context, **more):
    with_mask = dict(attention_mask=inputs["attention_mask"], context=context)
    processor = ours.LogitsProcessor(params, **with_mask)
    found = model.generate(
        **{"max_new_tokens": NEW, **inputs, **more},
        logits_processor=[processor],
        stopping_criteria=[processor.stopping],
    )
    processor.close()
    return found, processor


def logits_of(model, text):
    with torch.no_grad():
        return model(input_ids=torch.tensor([text])).logits[0, -1].float().numpy()


def by_hand(model, prompt, params, count, draw):
    """The text of a loop of one row. draw(logits, output): the token."""
    output = []
    while len(output) < count and (not output or output[-1] not in params.get("stop_ids", ())):
        output.append(draw(logits_of(model, prompt + output), output))
    return output


def prompts_of(inputs):
    pairs = zip(inputs["input_ids"], inputs["attention_mask"])
    return [ids[mask.bool()].tolist() for ids, mask in pairs]


def outputs_of(text, inputs):
    return [row[inputs["input_ids"].shape[1] :].tolist() for row in text]


GREEDY = [
    {},
    {"repetition_penalty": 1.5},
    {"no_repeat_ngram_size": 2},
    {"bad_words_ids": [[20], [30, 31], [END]]},
    {"suppress_tokens": [*range(3, 100)]},
    {"min_new_tokens": 10, "eos_token_id": [*range(100, 200)]},
    {"sequence_bias": [[[40], 9.0], [[41, 42], -9.0]]},
    {"repetition_penalty": 1.3, "no_repeat_ngram_size": 3, "eos_token_id": [*range(3, 30)]},
]


@pytest.mark.parametrize("config", GREEDY, ids=lambda config: "-".join(config) or "plain")
def test_greedy_is_theirs(model, inputs, context, config):
    theirs = model.generate(**inputs, max_new_tokens=NEW, do_sample=False, **config)
    assert torch.equal(custom(model, inputs, context, do_sample=False, **config), theirs)
    # The bans and penalties have an effect, so that they are compared.
    plain = model.generate(**inputs, max_new_tokens=NEW, do_sample=False)
    assert not config or not torch.equal(theirs, plain)


@pytest.mark.parametrize("do_sample", [False, True])
def test_penalties_of_the_processor(model, inputs, context, do_sample):
    """Forced tokens survive do_sample, and penalties count prompt and output, without padding."""
    theirs = model.generate(
        **inputs, max_new_tokens=NEW, do_sample=False, repetition_penalty=1.5, eos_token_id=None
    )
    found, _ = processed(
        model,
        inputs,
        {"temperature": 0, "repetition_penalty": 1.5},
        context,
        do_sample=do_sample,
        eos_token_id=None,
    )
    assert torch.equal(found, theirs)


def test_padding_is_no_prompt(model, inputs, context):
    """Penalties do not see what stands in the padding, here the likeliest tokens."""
    prompt = prompts_of(inputs)[1]
    inputs["input_ids"][1, :3] = torch.from_numpy(np.argsort(logits_of(model, prompt))[-3:].copy())
    alone = dict(input_ids=torch.tensor([prompt]), attention_mask=torch.ones(1, len(prompt)))
    params = {"temperature": 0, "repetition_penalty": 5}
    wanted, _ = processed(model, alone, params, context, eos_token_id=None)
    found, _ = processed(model, inputs, params, context, eos_token_id=None)
    assert outputs_of(found, inputs)[1] == outputs_of(wanted, alone)[0]


def test_sampled_in_every_way(model, inputs, context):
    """custom_generate, the processor, the host's reference and a sampler draw the same tokens."""
    ends = [END, *range(3, 12)]
    params = dict(seed=11, stop_ids=ends, min_tokens=3, **SAMPLING)
    one = custom(
        model,
        inputs,
        context,
        do_sample=True,
        eos_token_id=ends,
        min_new_tokens=3,
        seed=11,
        return_dict_in_generate=True,
        **SAMPLING,
    )
    two, _ = processed(model, inputs, params, context, eos_token_id=ends, do_sample=True, top_k=0)
    assert torch.equal(one.sequences, two)
    outputs = outputs_of(two, inputs)
    with context.sampler(VOCAB, features=["shortlist", "penalties", "history"]) as sampler:
        for row, (prompt, output) in enumerate(zip(prompts_of(inputs), outputs)):
            own = dict(params, stream=row)

            def reference(logits, so_far):
                return token_of(logits, prompt=prompt, output=so_far, **own)

            host = by_hand(model, prompt, own, NEW, reference)
            with sampler.begin(prompt, **own) as request:
                slot = by_hand(
                    model,
                    prompt,
                    own,
                    NEW,
                    lambda logits, so_far: int(sampler.sample(logits, [request]).tokens.get()[0]),
                )
            assert host == slot == output[: len(host)]
            assert set(output[len(host) :]) <= {PAD}
            ended = host[-1] in ends
            assert one.finish_reasons[row] == ("stop" if ended else "length")
    assert sorted(set(one.finish_reasons)) == ["length", "stop"], "choose prompts that show both"
    assert outputs[0] != outputs[1] != outputs[2]


def test_parameters_per_row(model, inputs, context):
    rows = [dict(seed=3, temperature=0), dict(seed=3, top_k=5), dict(seed=4, mirostat=2)]
    found, processor = processed(model, inputs, rows, context, eos_token_id=None)
    more = dict(do_sample=True, top_k=0, eos_token_id=None)
    assert torch.equal(custom(model, inputs, context, params=rows, **more), found)
    assert [one["seed"] for one in processor.params] == [3, 3, 4]
    prompt, output = prompts_of(inputs)[2], outputs_of(found, inputs)[2]
    with HOST.sampler(VOCAB) as sampler, sampler.begin(prompt, **rows[2]) as request:
        for count, token in enumerate(output):
            step = sampler.sample(logits_of(model, prompt + output[:count]), request)
            assert step.tokens == [token]


def test_seeds(model, inputs, context):
    """A seed that is not given is drawn, reported, and gives the same tokens again."""
    more = dict(do_sample=True, eos_token_id=None, return_dict_in_generate=True)
    one, other = (custom(model, inputs, context, **more) for _ in range(2))
    assert not torch.equal(one.sequences, other.sequences)
    assert [(p["seed"], p["stream"]) for p in one.params] == [
        (one.params[0]["seed"], row) for row in range(3)
    ]
    assert ours.LogitsProcessor({"seed": None}).params[0]["seed"] > 0
    again = custom(model, inputs, context, seed=one.params[0]["seed"], **more)
    assert torch.equal(again.sequences, one.sequences)


def test_no_top_k(model, inputs, context):
    """None is off in a call, as 0 is; what the call does not name is Transformers' 50."""
    wanted = {None: 0, 0: 0, 7: 7}
    for given, top_k in wanted.items():
        found = custom(model, inputs, context, top_k=given, do_sample=True,
                       return_dict_in_generate=True)
        assert found.params[0]["top_k"] == top_k


def test_several_answers(model, inputs, context):
    """num_return_sequences: rows of one prompt differ, and have no other row's padding."""
    more = dict(do_sample=True, eos_token_id=None, seed=5)
    found = custom(model, inputs, context, num_return_sequences=2, repetition_penalty=1.1, **more)
    assert found.shape[0] == 6
    prompt, row = prompts_of(inputs)[1], outputs_of(found, inputs)[3]
    params = dict(top_k=50, repetition_penalty=1.1, seed=5, stream=3)
    for count, token in enumerate(row):
        logits = logits_of(model, prompt + row[:count])
        assert token_of(logits, prompt=prompt, output=row[:count], **params) == (
            token
        )


def test_other_processors_and_criteria(model, inputs, context):
    """Processors that clsample does not replace run on the logits, and criteria end rows."""
    only = [50, 51, 52]
    found = custom(
        model,
        inputs,
        context,
        do_sample=True,
        seed=1,
        prefix_allowed_tokens_fn=lambda row, text: only,
        begin_suppress_tokens=[51, 52],
    )
    for row in outputs_of(found, inputs):
        assert row[0] == 50 and set(row) == set(only)

    class Third(transformers.StoppingCriteria):
        def __call__(self, input_ids, scores, **unused):
            return torch.full(input_ids.shape[:1], input_ids.shape[1] == 7 + 3)

    found = custom(model, inputs, context, stopping_criteria=[Third()], eos_token_id=None)
    assert found.shape[1] == 7 + 3


def test_a_grammar(model, inputs, context):
    """The rows follow it, in both ways, and stop with it."""
    only = clsample.Grammar(
        [{token: 1 for token in range(50, 60)}, {61: 2}, {62: 0}], final_states=[2], end_ids=[END],
        vocab=VOCAB,
    )
    rows = [custom(model, inputs, context, params=dict(grammar=only, seed=4), do_sample=True)]
    rows.append(processed(model, inputs, dict(grammar=only, seed=4, top_k=50), context)[0])
    assert torch.equal(*rows)
    for row in outputs_of(rows[0], inputs):
        while row[-1] == PAD:
            row.pop()
        assert len(row) > 1 and only.advance(row) != clsample.GRAMMAR_DEAD


def test_bans_of_the_source_stay(model, inputs, context):
    """What `params` adds to lists of the generation_config lifts none of its bans."""
    config = dict(
        suppress_tokens=[*range(3, 100)], bad_words_ids=[[150]], eos_token_id=[*range(200, 230)]
    )
    theirs = model.generate(
        **inputs,
        max_new_tokens=NEW,
        **{**config, "suppress_tokens": [*range(3, 110)], "bad_words_ids": [[150], [160]]},
    )
    params = dict(
        logit_bias={**dict.fromkeys(range(100, 110), -np.inf), 50: 1.0},
        bad_words=[[160]],
        stop_ids=[END],
    )
    assert torch.equal(custom(model, inputs, context, params=params, **config), theirs)


def test_a_bad_word_may_begin_in_the_prompt(model, inputs, context):
    plain = outputs_of(model.generate(**inputs, max_new_tokens=1), inputs)
    config = dict(
        bad_words_ids=[[prompt[-1], row[0]] for prompt, row in zip(prompts_of(inputs), plain)]
    )
    theirs = model.generate(**inputs, max_new_tokens=NEW, **config)
    assert outputs_of(theirs, inputs)[0][0] != plain[0][0]
    assert torch.equal(custom(model, inputs, context, **config), theirs)


@pytest.mark.parametrize(
    "make",
    [
        lambda p: p.SuppressTokensLogitsProcessor([*range(3, 120)]),
        lambda p: p.NoRepeatNGramLogitsProcessor(1),
        lambda p: p.NoBadWordsLogitsProcessor([[token] for token in range(3, 120)]),
        lambda p: p.MinNewTokensLengthLogitsProcessor(7, 12, [*range(140, 150)]),
        lambda p: p.RepetitionPenaltyLogitsProcessor(3.0),
    ],
)
def test_processors_of_the_caller(model, inputs, context, make):
    """They run, also where the generation_config has another value for one of their type."""
    for config in ({}, {"suppress_tokens": [9], "no_repeat_ngram_size": 2, "min_new_tokens": 2}):
        more = dict(config, eos_token_id=[*range(140, 150)])
        own = [make(transformers.generation.logits_process)]
        theirs = model.generate(**inputs, max_new_tokens=NEW, logits_processor=own, **more)
        assert torch.equal(custom(model, inputs, context, logits_processor=own, **more), theirs)
        plain = model.generate(**inputs, max_new_tokens=NEW, **more)
        assert not torch.equal(theirs, plain)


def test_ngrams_of_a_long_text(model, inputs, context, monkeypatch):
    """Those that are no longer in clsample's history are banned as well."""
    config = dict(no_repeat_ngram_size=1, eos_token_id=None)
    theirs = model.generate(**inputs, max_new_tokens=NEW, **config)
    monkeypatch.setattr(ours, "MAX_HISTORY", 16)
    assert torch.equal(custom(model, inputs, context, **config), theirs)


@pytest.mark.parametrize("params", [dict(watermark_key=5), dict(thinking_start=[3, 4])])
def test_what_needs_a_history(model, inputs, context, params):
    only = clsample.Grammar([{token: 0 for token in range(3, 60)}], vocab=VOCAB)
    found, _ = processed(model, inputs, dict(params, grammar=only, seed=4), context)
    assert {token for row in outputs_of(found, inputs) for token in row} <= {*range(3, 60)}


def test_stops_of_clsample(model, inputs, context):
    """max_tokens ends the rows, with the reason, in both ways."""
    more = dict(return_dict_in_generate=True, eos_token_id=None)
    found = custom(model, inputs, context, params=dict(max_tokens=5), **more)
    assert found.finish_reasons == ["length"] * 3 and found.sequences.shape[1] == 7 + 5
    always = dict(loop_repeats=3, loop_max=1, allowed_ids=[50])
    found = custom(model, inputs, context, params=always, **more)
    assert found.finish_reasons == ["repetition"] * 3 and found.sequences.shape[1] == 7 + 3
    found, _ = processed(model, inputs, dict(max_tokens=5), context, eos_token_id=None)
    assert found.shape[1] == 7 + 5
    processor = ours.LogitsProcessor(dict(max_tokens=5), context=context)
    with pytest.raises(ValueError, match=r"row 0 has stopped.*stopping_criteria=\[processor.stop"):
        model.generate(
            **inputs, max_new_tokens=NEW, logits_processor=[processor], eos_token_id=None
        )


def test_streamer(model, inputs, context):
    class Streamer:
        def __init__(self):
            self.put_ids, self.ended = [], False

        def put(self, ids):
            self.put_ids += ids.flatten().tolist()

        def end(self):
            self.ended = True

    streamer = Streamer()
    one = {name: value[:1] for name, value in inputs.items()}
    found = custom(model, one, context, stream_to=streamer)
    assert streamer.put_ids == found[0].tolist() and streamer.ended


def test_refusals(model, inputs, context):
    for more, words in (
        (dict(num_beams=2), "num_beams = 2 is not converted: beams are not served"),
        (dict(do_sample=True, epsilon_cutoff=0.1), "epsilon_cutoff = 0.1"),
        (dict(return_dict_in_generate=True, output_scores=True), "output_scores: the scores stay"),
        (dict(params=[{}] * 2), "params has 2 entries; the text has 3 rows"),
        (dict(params=dict(top_p=2)), "top_p is 2"),
    ):
        with pytest.raises(ValueError, match=words):
            custom(model, inputs, context, **more)
    with pytest.raises(TypeError, match="name one in each entry of params"):
        custom(model, inputs, context, params=[{}] * 3, seed=1)
    with pytest.raises(TypeError, match="did you mean 'temperature'"):
        ours.LogitsProcessor(dict(temprature=1))
    processor = ours.LogitsProcessor(
        attention_mask=inputs["attention_mask"][:, 1:], context=context
    )
    with pytest.raises(ValueError, match="attention_mask has the shape"):
        model.generate(**inputs, max_new_tokens=NEW, logits_processor=[processor])
    processor = ours.LogitsProcessor(context=context)
    model.generate(**inputs, max_new_tokens=NEW, logits_processor=[processor])
    with pytest.raises(ValueError, match="serves one generate"):
        model.generate(**inputs, max_new_tokens=NEW, logits_processor=[processor])
    processor = ours.LogitsProcessor(dict(temperature=0), context=context)
    scores = torch.zeros(2, VOCAB)
    processor(torch.tensor([[5], [6]]), scores)
    with pytest.raises(ValueError, match="serves one generate.*without beams"):
        processor(torch.tensor([[6, 0], [5, 0]]), scores)
    processor = ours.LogitsProcessor(context=context)
    with pytest.raises(RuntimeError, match="row 0 has no token: .*EMPTY"):
        processor(torch.tensor([[5]]), torch.full((1, VOCAB), -float("inf")))


def test_types_of_logits(context):
    """Half-precision logits are converted, and the scores have their type."""
    for dtype in (torch.float16, torch.bfloat16):
        processor = ours.LogitsProcessor(dict(temperature=0), context=context)
        scores = torch.arange(VOCAB).to(dtype)[None].flip(1)
        found = processor(torch.tensor([[5]]), scores)
        assert found.dtype == dtype and found.argmax() == 0
        assert (found == -float("inf")).sum() == VOCAB - 1


def test_import_is_lazy():
    code = "import sys, clsample; assert not {'torch', 'transformers'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_example(capsys):
    example.main()
    out = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in out] == ["custom_generate"] * 2 + ["the same tokens"]
    assert out[-1] == "the same tokens: True"
