"""The fields of a ``config.json``: taken one by one, so that none is ignored without a word."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from hierarchies import InputError, suggest_nearest

LARGEST = 10**9
"""The largest size of a dimension."""

LONGEST = 300
"""Characters of an error, which may show a value of any length."""

INERT = frozenset(
    (
        "_attn_implementation",
        "_attn_implementation_internal",
        "_attn_implementation_autoset",
        "_commit_hash",
        "_name_or_path",
        "architectures",
        "attention_softmax_in_fp32",
        "auto_map",
        "aux_loss_alpha",
        "begin_suppress_tokens",
        "bias_dropout_fusion",
        "bos_token_id",
        "cache_implementation",
        "chunk_size_feed_forward",
        "cls_token_id",
        "decoder_start_token_id",
        "dtype",
        "eos_token_id",
        "ep_size",
        "experts_per_token",
        "finetuning_task",
        "gradient_checkpointing",
        "id2label",
        "initial_context_length",
        "initializer_range",
        "keep_in_fp32_modules",
        "label2id",
        "mask_token_id",
        "masked_softmax_fusion",
        "max_window_layers",
        "model_type",
        "n_ctx",
        "name_or_path",
        "offset_alibi",
        "output_attentions",
        "output_hidden_states",
        "output_router_logits",
        "pad_token_id",
        "pretraining_tp",
        "problem_type",
        "rescale_prenorm_residual",
        "residual_in_fp32",
        "return_dict",
        "rope_interleave",
        "router_aux_loss_coef",
        "router_jitter_noise",
        "sep_token_id",
        "seq_aux",
        "skip_bias_add",
        "skip_bias_add_qkv",
        "slow_but_exact",
        "summary_activation",
        "summary_first_dropout",
        "summary_proj_to_labels",
        "summary_type",
        "summary_use_proj",
        "task_specific_params",
        "tokenizer_class",
        "torch_dtype",
        "torchscript",
        "transformers_version",
        "unk_token_id",
        "use_bfloat16",
        "use_cache",
        "use_mamba_kernels",
    )
)
"""Fields that change no operation of training: tokens, types of stored weights, caches, starts.

``rope_interleave`` reorders rows of weights; ``max_window_layers`` counts only beside a window that
is on; the losses of routers are small beside a step.
"""

DROPOUTS = ("dropout", "_pdrop", "dropout_prob", "drop_rate")
"""Endings of the names of dropout; steps are traced without."""

T = TypeVar("T")


@dataclass
class ConfigFields:
    """The fields of one model, and which of them were taken. ``where`` is the name of the file."""

    values: Mapping[str, Any]
    where: str
    taken: set[str] = field(default_factory=set)
    omitted: list[str] = field(default_factory=list)

    @property
    def kind(self) -> str:
        return str(self.values["model_type"])

    def find(self, *names: str) -> tuple[str, Any]:
        """Returns the first of several names of a field that is given, and its value.

        A field that is null is not given: then the value is None.
        """
        self.taken.update(names)
        for name in names:
            if self.values.get(name) is not None:
                return name, self.values[name]
        return names[0], None

    def size(self, *names: str, default: int | None = None, least: int = 1) -> int:
        """Returns a whole number. Raises InputError if it is missing without a default."""
        name, value = self.find(*names)
        if value is None:
            if default is None:
                raise self.error(f"no field {name!r}", f"a {self.kind} has one, as {name}: 4096")
            return default
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= LARGEST:
            raise self.error(
                f"{name} is {value!r}", f"a whole number from {least} to {LARGEST:.0e}"
            )
        return value

    def number(self, *names: str, default: float, above: float = -1.0) -> float:
        """Returns a number, not below 0, and above a bound."""
        name, value = self.find(*names)
        if value is None:
            return default
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not (0 <= value < 1e30 and value > above):
            least = "above 0" if above >= 0 else "not below 0"
            raise self.error(f"{name} is {value!r}", f"a number, {least}")
        return float(value)

    def switch(self, *names: str, default: bool) -> bool:
        name, value = self.find(*names)
        if not isinstance(value, bool | None):
            raise self.error(f"{name} is {value!r}", "true or false")
        return default if value is None else value

    def word(self, *names: str, known: Mapping[str, T], default: str) -> T:
        """Returns what a word means. Raises InputError with the nearest known word."""
        name, value = self.find(*names)
        value = default if value is None else value
        if not isinstance(value, str) or value not in known:
            raise self.error(f"{name} {value!r} is not known", suggest_nearest(str(value), known))
        return known[value]

    def expect(self, name: str, *allowed: Any, what: str) -> None:
        """Raises InputError unless a field is absent, null, or has one of some values."""
        _, value = self.find(name)
        if value is not None and value not in allowed:
            raise self.error(
                f"{name} is {value!r}: {what} is not supported yet", f"leave out {name}"
            )

    def list_of(self, name: str, known: Collection[str], count: int) -> list[str]:
        """Returns a word for each layer; an empty list if the field is missing."""
        _, value = self.find(name)
        if value is None:
            return []
        if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
            raise self.error(f"{name} is {value!r}"[:120], "a list of words, one for each layer")
        if len(value) != count:
            raise self.error(f"{name} has {len(value)} words", f"one for each of {count} layers")
        for word in value:
            if word not in known:
                hint = f"known are: {', '.join(known)}"
                raise self.error(f"{name} {word!r} is not supported yet", hint)
        return value

    def omit(self, *names: str, what: str) -> None:
        """Notes fields that a traced step leaves out, if they are given and not false."""
        for name in names:
            if self.find(name)[1]:
                self.omitted.append(f"{name} ({what})")

    def finish(self) -> tuple[str, ...]:
        """Returns what is left out. Raises InputError for a field that nothing has taken.

        Null and false switch something off, so any field may have them.
        """
        for name, value in self.values.items():
            if name in self.taken or name in INERT or value is None or value is False:
                continue
            if name.endswith(DROPOUTS) and name.isidentifier():
                self.omit_dropout(name, self.number(name, default=0.0))
                continue
            near = suggest_nearest(name, sorted(self.taken)).partition("known are")[0]
            hint = near or "leave it out if it does not change what is computed"
            raise self.error(f"field {name!r} of a {self.kind} is not understood", hint)
        return tuple(self.omitted)

    def omit_dropout(self, name: str, share: float) -> None:
        if share:
            self.omitted.append(f"{name} {share}")

    def error(self, problem: str, hint: str = "") -> InputError:
        return InputError(problem[:LONGEST], where=self.where, hint=hint)
