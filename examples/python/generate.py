# SPDX-License-Identifier: MIT
"""Hugging Face Transformers generates with clsample's tokens, in both ways that it offers. The
model is tiny and random, so that nothing is downloaded; a real one takes its place without another
change. It needs torch and transformers.

    python3 generate.py
"""

import torch
import transformers

import clsample.transformers

VOCAB, PAD, END = 500, 0, 2
SAMPLING = dict(temperature=0.8, top_k=40, top_p=0.95, repetition_penalty=1.1)


def tiny_model():
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=VOCAB,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        initializer_range=0.6,  # rows with some likely tokens, as those of trained models
        bos_token_id=1,
        eos_token_id=END,
        pad_token_id=PAD,
    )
    return transformers.LlamaForCausalLM(config).eval()


def main():
    model = tiny_model()
    # Two prompts; the second one has padding, which is no part of it.
    inputs = dict(
        input_ids=torch.tensor([[11, 12, 13, 14], [PAD, PAD, 21, 22]]),
        attention_mask=torch.tensor([[1, 1, 1, 1], [0, 0, 1, 1]]),
    )

    # 1. A function in place of Transformers' own sampling. The parameters are those of
    #    model.generate() and of the model's generation_config; a seed is new.
    one = model.generate(
        **inputs,
        do_sample=True,
        max_new_tokens=12,
        return_dict_in_generate=True,
        custom_generate=clsample.transformers.generate,
        seed=7,
        **SAMPLING,
    )
    for row, reason in zip(one.sequences.tolist(), one.finish_reasons):
        print("custom_generate:", *row[4:], f"({reason})")

    # 2. A processor within Transformers' own loop, with any parameters of clsample.
    processor = clsample.transformers.LogitsProcessor(
        dict(seed=7, stop_ids=[END], **SAMPLING), attention_mask=inputs["attention_mask"]
    )
    two = model.generate(
        **inputs,
        do_sample=False,
        max_new_tokens=12,
        logits_processor=[processor],
        stopping_criteria=[processor.stopping],
    )
    processor.close()
    print("the same tokens:", torch.equal(one.sequences, two))


if __name__ == "__main__":
    main()
