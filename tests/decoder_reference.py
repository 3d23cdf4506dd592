"""Decoders by hand in numpy and float64, from the fields of a ``config.json``: a slow oracle.

It shares no code with the zoo, and reads no form: what a type fixes is written here again. Its
weights are the tree of the zoo's parameters.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

Fields = dict[str, Any]
Vector = Any

LAYER_NORMS = ("bloom", "falcon", "gpt_neox", "nemotron")
SANDWICHES = ("gemma2", "gemma3_text", "glm4")
DEEPSEEK = ("deepseek_v2", "deepseek_v3", "kimi_k2")


def reference_loss(fields: Fields, weights: Any, tokens: Any, targets: Any) -> float:
    """The mean cross entropy of all tokens."""
    losses = []
    for sentence, wanted in zip(tokens, targets, strict=True):
        for x, target in zip(_run(fields, weights, sentence), wanted, strict=True):
            last = weights["last"] if "last" in weights else weights["embedding"].T
            logits = _norm(fields, x, weights["norm"]) @ last
            if cap := fields.get("final_logit_softcapping"):
                logits = cap * np.tanh(logits / cap)
            losses.append(np.log(np.exp(logits).sum()) - logits[target])
    return float(np.mean(losses))


def _run(fields: Fields, weights: Any, sentence: Any) -> list[Vector]:
    rows = [weights["embedding"][token] for token in sentence]
    if fields["model_type"].startswith("gemma"):
        rows = [row * math.sqrt(len(row)) for row in rows]
    if "embedding_norm" in weights:
        rows = [_norm(fields, row, weights["embedding_norm"]) for row in rows]
    layers = list(weights.get("dense", []))
    stacked = weights["layers"]
    count = len(next(iter(_leaves(stacked))))
    layers += [_slice(stacked, at) for at in range(count)]
    for number, layer in enumerate(layers):
        rows = _layer(fields, rows, layer, number)
    return rows


def _leaves(tree: Any) -> Any:
    if isinstance(tree, dict):
        for inner in tree.values():
            yield from _leaves(inner)
    else:
        yield tree


def _slice(tree: Any, at: int) -> Any:
    if isinstance(tree, dict):
        return {name: _slice(inner, at) for name, inner in tree.items()}
    return tree[at]


def _norm(fields: Fields, x: Vector, weights: Any) -> Vector:
    kind = fields["model_type"]
    if kind in LAYER_NORMS:
        scale = weights["scale"] + (kind == "nemotron")
        return (x - x.mean()) / np.sqrt(x.var() + 1e-5) * scale + weights["shift"]
    scale = weights + kind.startswith("gemma")
    return x / np.sqrt((x * x).mean() + 1e-5) * scale


def _layer(fields: Fields, rows: list[Vector], w: Any, number: int) -> list[Vector]:
    kind = fields["model_type"]
    if kind in ("falcon", "gpt_neox"):
        normed = [_norm(fields, row, w["attention_norm"]) for row in rows]
        seen = _attention(fields, normed, w, number)
        second = [_norm(fields, row, w["mlp_norm"]) for row in rows]
        made = [_between(fields, row, w["mlp"]) for row in second]
        return [x + a + m for x, a, m in zip(rows, seen, made, strict=True)]
    before, after = kind != "olmo2", kind == "olmo2" or kind in SANDWICHES
    normed = [_norm(fields, row, w["attention_norm"]) if before else row for row in rows]
    seen = _attention(fields, normed, w, number)
    if after:
        seen = [_norm(fields, row, w["attention_after"]) for row in seen]
    rows = [x + a for x, a in zip(rows, seen, strict=True)]
    normed = [_norm(fields, row, w["mlp_norm"]) if before else row for row in rows]
    made = [_between(fields, row, w["mlp"]) for row in normed]
    if after:
        made = [_norm(fields, row, w["mlp_after"]) for row in made]
    return [x + m for x, m in zip(rows, made, strict=True)]


def _share(fields: Fields) -> float:
    usual = {"glm4": 0.5, "nemotron": 0.5, "gpt_neox": 0.25}.get(fields["model_type"], 1.0)
    return float(fields.get("partial_rotary_factor", usual))


def _rotate(x: Vector, at: int, base: float, share: float = 1.0) -> Vector:
    size = int(len(x) * share)
    turned = x.copy()
    for pair in range(size // 2):
        angle = at * base ** (-2 * pair / size)
        a, b = x[pair], x[pair + size // 2]
        turned[pair] = a * math.cos(angle) - b * math.sin(angle)
        turned[pair + size // 2] = b * math.cos(angle) + a * math.sin(angle)
    return turned


def _slope(head: int, heads: int) -> float:
    """Of ALiBi: as its paper's code for numbers that are no power of two."""
    whole = 2 ** int(math.log2(heads))
    if head < whole:
        return 2.0 ** (-8 * (head + 1) / whole)
    return 2.0 ** (-4 * (2 * (head - whole) + 1) / whole)


def _scaled(fields: Fields, x: Vector, scale: Vector) -> Vector:
    scale = scale + fields["model_type"].startswith("gemma")
    return x / np.sqrt((x * x).mean() + 1e-5) * scale


def _project(fields: Fields, x: Vector, w: Any, at: int, base: float) -> tuple[Any, Any, Any]:
    """Queries by key head and group, keys and values by key head, of one token."""
    if fields["model_type"] in DEEPSEEK:
        return _project_latent(fields, x, w, at, base)
    made = {}
    for name in ("query", "key", "value"):
        made[name] = np.tensordot(x, w[name], 1) + w.get(f"{name}_bias", 0.0)
        if f"{name}_norm" in w:  # OLMo 2: all heads as one vector
            flat = made[name]
            made[name] = flat / np.sqrt((flat * flat).mean() + 1e-5) * w[f"{name}_norm"]
    query, key, value = made["query"], made["key"], made["value"]
    if "query_scale" in w:
        query = np.array([[_scaled(fields, e, w["query_scale"]) for e in g] for g in query])
        key = np.array([_scaled(fields, e, w["key_scale"]) for e in key])
    if fields["model_type"] != "bloom":
        query = np.array([[_rotate(e, at, base, _share(fields)) for e in g] for g in query])
        key = np.array([_rotate(e, at, base, _share(fields)) for e in key])
    return query, key, value


def _project_latent(
    fields: Fields, x: Vector, w: Any, at: int, base: float
) -> tuple[Any, Any, Any]:
    plain, rank = fields["qk_nope_head_dim"], fields["kv_lora_rank"]
    source = x
    if "query_down" in w:
        source = _norm(fields, x @ w["query_down"], w["query_down_norm"])
    query = np.tensordot(source, w["query"], 1)
    query = np.array([[[*e[:plain], *_rotate(e[plain:], at, base)] for e in g] for g in query])
    down = x @ w["key_down"]
    shared = _rotate(down[rank:], at, base)
    kept = _norm(fields, down[:rank], w["key_down_norm"])
    key = np.array([[*e, *shared] for e in np.tensordot(kept, w["key"], 1)])
    return query, key, np.tensordot(kept, w["value"], 1)


def _window(fields: Fields, number: int) -> int | None:
    """Tokens that a token of a layer sees; None for all before it."""
    kind, window = fields["model_type"], fields.get("sliding_window")
    if kind in ("gemma2", "gemma3_text", "gpt_oss"):
        return window if number % 2 == 0 else None
    return window


def _attention(fields: Fields, rows: list[Vector], w: Any, number: int) -> list[Vector]:
    window = _window(fields, number)
    base = fields.get("rope_theta", fields.get("rotary_emb_base", 1e4))
    if fields["model_type"] == "gemma3_text" and number % 2 == 0:
        base = fields["rope_local_base_freq"]
    projected = [_project(fields, row, w, at, base) for at, row in enumerate(rows)]
    results = []
    for at in range(len(rows)):
        first = 0 if window is None else max(0, at - window + 1)
        query = projected[at][0]
        made = np.zeros_like(rows[at]) + w.get("out_bias", 0.0)
        keys, groups = query.shape[:2]
        for head in range(keys):
            for group in range(groups):
                scores = np.array(
                    [
                        _score(fields, query[head, group], projected[other][1][head])
                        for other in range(first, at + 1)
                    ]
                )
                if fields["model_type"] == "bloom":
                    distances = np.arange(first, at + 1) - at
                    scores = scores + _slope(head, keys) * distances
                powers = np.exp(scores)
                total = powers.sum()
                if "sinks" in w:
                    total += np.exp(w["sinks"][head, group])
                values = [projected[other][2][head] for other in range(first, at + 1)]
                made += (powers / total) @ np.array(values) @ w["out"][head, group]
        results.append(made)
    return results


def _score(fields: Fields, query: Vector, key: Vector) -> float:
    score = query @ key / math.sqrt(fields.get("query_pre_attn_scalar", len(query)))
    if cap := fields.get("attn_logit_softcapping"):
        score = cap * math.tanh(score / cap)
    return float(score)


def _activate(fields: Fields, x: Vector) -> Vector:
    kind = fields["model_type"]
    if kind == "nemotron":
        return np.maximum(x, 0) ** 2
    if kind in ("falcon", "gpt_neox"):
        return x * 0.5 * (1 + np.array([math.erf(e / math.sqrt(2)) for e in x]))
    if kind == "bloom" or kind.startswith("gemma"):
        return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    return x / (1 + np.exp(-x))


def _mlp(fields: Fields, x: Vector, w: Any, at: Any = ...) -> Vector:
    """An MLP, or that of expert ``at``."""
    up = x @ w["up"][at] + w["up_bias"][at] if "up_bias" in w else x @ w["up"][at]
    if "gate" not in w:
        hidden = _activate(fields, up)
    else:
        gate = x @ w["gate"][at] + w["gate_bias"][at] if "gate_bias" in w else x @ w["gate"][at]
        if fields["model_type"] == "gpt_oss":
            gate, up = np.minimum(gate, 7), np.clip(up, -7, 7)
            hidden = (up + 1) * gate / (1 + np.exp(-1.702 * gate))
        else:
            hidden = _activate(fields, gate) * up
    result = hidden @ w["down"][at]
    return result + w["down_bias"][at] if "down_bias" in w else result


def _between(fields: Fields, x: Vector, w: Any) -> Vector:
    if "router" not in w:
        return _mlp(fields, x, w)
    result = np.zeros_like(x)
    for expert, share in _chosen(fields, x @ w["router"] + w.get("router_bias", 0.0), w):
        result += share * _mlp(fields, x, w, expert)
    return result + _mlp(fields, x, w["shared"]) if "shared" in w else result


def _chosen(fields: Fields, logits: Vector, w: Any) -> list[tuple[int, float]]:
    kind, top = fields["model_type"], fields["num_experts_per_tok"]
    softmax = np.exp(logits) / np.exp(logits).sum()
    if kind in ("mixtral", "gpt_oss"):
        best = sorted(range(len(logits)), key=lambda expert: -logits[expert])[:top]
        total = sum(np.exp(logits[expert]) for expert in best)
        return [(expert, np.exp(logits[expert]) / total) for expert in best]
    if kind == "qwen3_moe":
        best = sorted(range(len(logits)), key=lambda expert: -softmax[expert])[:top]
        return [(expert, softmax[expert]) for expert in best]
    third = kind != "deepseek_v2"
    scores = 1 / (1 + np.exp(-logits)) if third else softmax
    ranked = scores + w["correction"] if third else scores
    size = len(logits) // fields["n_group"]
    groups = [range(at * size, (at + 1) * size) for at in range(fields["n_group"])]
    count = 2 if third else 1
    groups.sort(key=lambda group: -sum(sorted(ranked[e] for e in group)[-count:]))
    inside = [expert for group in groups[: fields["topk_group"]] for expert in group]
    best = sorted(inside, key=lambda expert: -ranked[expert])[:top]
    total = sum(scores[expert] for expert in best) if third else 1.0
    factor = fields["routed_scaling_factor"]
    return [(expert, scores[expert] / total * factor) for expert in best]
