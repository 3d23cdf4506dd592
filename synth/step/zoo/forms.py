"""What a decoder computes beside its sizes: norms, activations, positions, attention, routers.

The default of every field is that of Llama 3. Sources: the models' papers and the published
configurations (``config.json``) with the classes of Hugging Face's transformers 4 that read them.
This module does not import JAX.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Norm = Literal["rms", "rms-plus-one", "layer", "layer-plus-one"]
"""``layer`` has a shift; ``plus-one``: the stored scale is the difference from 1."""

NormPlaces = Literal["before", "after", "both"]
"""Around each half of a layer: before it, after it (OLMo 2), or both (Gemma, GLM-4)."""

Activation = Literal["silu", "gelu", "gelu-tanh", "relu", "relu2", "clipped-swiglu"]
"""``gelu`` is exact, ``relu2`` the square of ReLU; ``clipped-swiglu`` is that of gpt-oss."""


@dataclass(frozen=True)
class Latent:
    """Multi-head latent attention (DeepSeek-V2 2024, arXiv 2405.04434): ranks, widths of a head.

    Keys and values are projected from ``key_rank`` numbers of a token, queries from ``query_rank``
    (0: from the token itself). ``plain_width`` elements of a head have no position, and the
    ``rotary_width`` others of a key are the same in all heads.
    """

    query_rank: int
    key_rank: int
    plain_width: int
    rotary_width: int
    value_width: int

    @property
    def head_width(self) -> int:
        """Elements of a query and of a key."""
        return self.plain_width + self.rotary_width


@dataclass(frozen=True)
class Router:
    """How a mixture of experts weighs and chooses the experts of a token.

    ``scores``: the softmax of the chosen experts' logits, of all logits, or the sigmoid of each.
    ``normalised``: the chosen scores are divided by their sum. ``scale``: factor of the scores.
    ``correction``: a bias of the scores for the choice alone (DeepSeek-V3). ``bias``: of the
    logits. ``groups``: experts are chosen from the best ``chosen_groups`` of so many groups; a
    group counts as the sum of its ``group_best`` best scores.
    """

    scores: Literal["chosen-softmax", "softmax", "sigmoid"] = "chosen-softmax"
    normalised: bool = False
    scale: float = 1.0
    correction: bool = False
    bias: bool = False
    groups: int = 1
    chosen_groups: int = 1
    group_best: int = 1


@dataclass(frozen=True)
class Form:
    """What a decoder computes beside its sizes; the defaults are Llama 3.

    * ``head_norm``: queries and keys are normalised, each head (Qwen 3) or all heads as one
      (OLMo 2);
    * ``parallel``: attention and MLP read the same input and are added, behind one norm or two;
    * ``rotary_share``: the share of a head's elements that is rotated;
    * ``full_every``: with a window, every so many-th layer attends to all tokens; 0: none does;
      ``local_rope_base``: the rotary base of the others, if it is another one;
    * ``score_scale``: factor of the scores instead of the root of a head's width; ``score_cap`` and
      ``logit_cap``: ``c tanh(x / c)`` of scores and of logits (Gemma 2); 0: none;
    * ``sinks``: a learned logit of each head that takes part in the softmax (gpt-oss);
    * ``output_bias``: of attention's last matrix; ``scaled_embedding``: times the root of the width
      (Gemma); ``last_bias``: of the last matrix.
    """

    norm: Norm = "rms"
    norm_places: NormPlaces = "before"
    norm_epsilon: float = 1e-5
    head_norm: Literal["", "head", "all"] = ""
    activation: Activation = "silu"
    gated: bool = True
    attention_bias: bool = False
    output_bias: bool = False
    mlp_bias: bool = False
    last_bias: bool = False
    tied: bool = False
    parallel: Literal["", "one-norm", "two-norms"] = ""
    positions: Literal["rotary", "alibi"] = "rotary"
    rotary_share: float = 1.0
    full_every: int = 0
    local_rope_base: float = 0.0
    score_scale: float = 0.0
    score_cap: float = 0.0
    logit_cap: float = 0.0
    sinks: bool = False
    embedding_norm: bool = False
    scaled_embedding: bool = False
    latent: Latent | None = None
    router: Router = Router()


LLAMA = Form()

FEATURES = {
    "norm": "other norms than RMS",
    "norm_places": "norms behind the halves of a layer",
    "head_norm": "norms of queries and keys",
    "activation": "another activation than SwiGLU",
    "gated": "an MLP without a gate",
    "attention_bias": "biases of attention",
    "output_bias": "biases of attention",
    "mlp_bias": "biases of the MLP",
    "last_bias": "a bias of the last matrix",
    "tied": "tied embeddings",
    "parallel": "attention beside the MLP",
    "positions": "ALiBi",
    "rotary_share": "rotary positions of a part of a head",
    "full_every": "windows in some layers",
    "local_rope_base": "two rotary bases",
    "score_scale": "another scale of scores",
    "score_cap": "capped scores",
    "logit_cap": "capped logits",
    "sinks": "attention sinks",
    "embedding_norm": "a norm of the embedding",
    "scaled_embedding": "a scaled embedding",
    "latent": "multi-head latent attention",
    "router": "another router than Mixtral's",
}
"""What a form other than Llama 3's has, by field. ``norm_epsilon`` is the same computation."""
