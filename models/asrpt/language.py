"""Layers of the language models in [ASRPT, Table I], from their published shapes.

A block is an attention and a feed-forward network. For a sequence of s tokens of width h, a matrix of n numbers takes
2 n s operations; attention's scores and their use take 4 s^2 h. Attention to later tokens, which a causal mask throws
away, is counted, since it is computed.
"""

from __future__ import annotations

from hetopt.models.asrpt.layers import Layer


def bert_large(tokens: int = 384) -> tuple[Layer, ...]:
    """BERT-large with the layer that marks answers: Devlin et al. (2018), sections 3 and 4.2.

    24 blocks of width 1024, 30,522 word pieces, 512 positions, 2 segments. 334M parameters; "340M" with the pooler and
    the output layers of pre-training. 384 tokens are those of the authors' program for SQuAD.
    """
    width = 1024
    embedding = Layer("embedding", (30_522 + 512 + 2 + 2) * width, 0, tokens * width)
    blocks = [_block(f"block{i + 1}", width, 4 * width, tokens) for i in range(24)]
    return (embedding, *blocks, Layer("answer", 2 * (width + 1), 2 * 2 * width * tokens, 2 * tokens))


def xlnet_large(tokens: int = 384) -> tuple[Layer, ...]:
    """XLNet-large with a layer that marks answers: Yang et al. (2019), section 2 and appendix A.4.

    24 blocks of width 1024, 32,000 word pieces: 360M parameters. Positions are relative: each block has a fifth matrix
    for the 2 s distances between tokens, two biases per head, and a bias and two vectors for segments.
    """
    width, inner = 1024, 4096
    matrices, feed = 5 * width**2, 2 * width * inner
    parameters = matrices + 3 * width + 2 * width + feed + inner + width + 2 * 2 * width
    # queries, keys, values and result for s tokens, the fifth for 2 s; content and position scores, and their use
    operations = 2 * (4 * width**2 + 2 * width**2 + feed) * tokens + 2 * (tokens + 2 * tokens + tokens) * tokens * width
    embedding = Layer("embedding", 32_000 * width + width, 0, tokens * width)
    blocks = [Layer(f"block{i + 1}", parameters, operations, tokens * width) for i in range(24)]
    return (embedding, *blocks, Layer("answer", 2 * (width + 1), 2 * 2 * width * tokens, 2 * tokens))


def t5_11b(tokens: int = 512) -> tuple[Layer, ...]:
    """T5-11B: Raffel et al. (2020), section 3.6; 11.31B parameters.

    24 blocks in the encoder and as many in the decoder, width 1024, 128 heads of 128, inner width 65,536, no biases,
    32,128 word pieces, whose embedding is shared with the output. Encoder and decoder see ``tokens`` each. Within the
    decoder, the encoder's result is handed on with the decoder's own, for all its blocks attend to it.
    """
    width, attention, inner, words = 1024, 128 * 128, 65_536, 32_128
    heads, feed = 4 * width * attention, 2 * width * inner
    attend = 2 * heads * tokens + 4 * tokens**2 * attention
    distances, sent = 32 * 128, tokens * width  # distances: 32 biases per head, in the first block of each half
    layers = [Layer("embedding", words * width, 0, sent)]
    for i in range(24):
        extra = (distances if i == 0 else 0) + (width if i == 23 else 0)
        parameters = heads + feed + 2 * width + extra
        layers.append(Layer(f"encoder{i + 1}", parameters, attend + 2 * feed * tokens, sent))
    for i in range(24):
        extra = (distances if i == 0 else 0) + (width if i == 23 else 0)
        copy = words * width if i == 0 else 0  # the decoder's words are looked up in the same table
        parameters = 2 * heads + feed + 3 * width + extra
        operations = 2 * attend + 2 * feed * tokens
        layers.append(Layer(f"decoder{i + 1}", parameters, operations, (1 if i == 23 else 2) * sent, copy))
    return (*layers, Layer("output", 0, 2 * words * width * tokens, words * tokens, words * width))


def gpt(blocks: int, width: int, tokens: int = 512) -> tuple[Layer, ...]:
    """GPT-3 with so many blocks: Brown et al. (2020), Table 2.1.

    (32, 4096) is 6.7B, (40, 5120) 13B, (96, 12288) 175B. 50,257 word pieces, whose embedding is shared with the output,
    and 2048 positions. The paper prints a width of 5140 for 13B; 40 heads of 128 are 5120, and so are its 12,850M
    parameters in Table D.1.
    """
    words = 50_257
    embedding = Layer("embedding", (words + 2048) * width, 0, tokens * width)
    layers = [_block(f"block{i + 1}", width, 4 * width, tokens) for i in range(blocks)]
    output = Layer("output", 2 * width, 2 * words * width * tokens, words * tokens, words * width)
    return (embedding, *layers, output)


def _block(name: str, width: int, inner: int, tokens: int) -> Layer:
    """A transformer block: four matrices of attention, two of the feed-forward network, biases, two normalisations."""
    weights = 4 * width**2 + 2 * width * inner
    extra = 4 * width + inner + width + 2 * 2 * width
    return Layer(name, weights + extra, 2 * weights * tokens + 4 * tokens**2 * width, tokens * width)
