"""Models by their ``config.json``, as Hugging Face publishes them: the sizes and what is computed.

>>> from synth.step.configs import read_config
>>> text = '''{"model_type": "qwen3", "hidden_size": 64, "intermediate_size": 128, "head_dim": 32,
...   "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
...   "vocab_size": 256}'''
>>> model = read_config(text, "tiny/config.json")
>>> model.name, model.sizes.head, model.sizes.form.head_norm
('tiny', 32, 'head')
"""

from synth.step.configs.reading import is_config as is_config
from synth.step.configs.reading import read_config as read_config
