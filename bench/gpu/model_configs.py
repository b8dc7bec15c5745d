"""Transformers' models at real widths, with random weights and few layers."""

import torch

# Facts of known models: width, inner width, heads, key-value heads.
LLAMA = dict(hidden_size=4096, intermediate_size=14336, num_attention_heads=32,
             num_key_value_heads=8)
DECODERS = {
    "llama": ("LlamaConfig", LLAMA),
    "mistral": ("MistralConfig", LLAMA | dict(sliding_window=None)),
    "gemma2": ("Gemma2Config", dict(hidden_size=3584, intermediate_size=14336,
                                    num_attention_heads=16, num_key_value_heads=8, head_dim=256)),
    "qwen3": ("Qwen3Config", dict(hidden_size=4096, intermediate_size=12288,
                                  num_attention_heads=32, num_key_value_heads=8, head_dim=128)),
    "opt": ("OPTConfig", dict(hidden_size=4096, ffn_dim=16384, num_attention_heads=32,
                              word_embed_proj_dim=4096, max_position_embeddings=2304)),
    "gpt2": ("GPT2Config", dict(n_embd=1600, n_head=25, n_positions=2304)),
    "neox": ("GPTNeoXConfig", dict(hidden_size=6144, intermediate_size=24576,
                                   num_attention_heads=64)),
    "phi3": ("Phi3Config", dict(hidden_size=3072, intermediate_size=8192, num_attention_heads=32,
                                num_key_value_heads=32, pad_token_id=0)),
    "falcon": ("FalconConfig", dict(hidden_size=4544, num_attention_heads=71)),
    "nemotron": ("NemotronConfig", dict(hidden_size=6144, intermediate_size=24576,
                                        num_attention_heads=48, num_key_value_heads=8)),
}
OTHERS = ("t5", "bert", "vit", "whisper")
NAMES = (*DECODERS, *OTHERS)
TINY = dict(hidden_size=64, intermediate_size=96, ffn_dim=96, num_attention_heads=4,
            num_key_value_heads=2, head_dim=16, word_embed_proj_dim=64, n_embd=64, n_head=4)
VOCABULARY = 32000


def make(name, layers, tiny, device, dtype):
    """(the model, a function of batch and tokens that makes its keyword arguments)."""
    import transformers

    made = {**{key: decoder for key in DECODERS}, "t5": t5, "bert": bert, "vit": vit,
            "whisper": whisper}[name]
    torch.manual_seed(0)
    with torch.device(device):
        kind, config, inputs = made(transformers, name, layers, tiny)
        model = kind(config).to(dtype).eval()
    return model, lambda batch, tokens: {
        key: value.to(device, dtype) if value.is_floating_point() else value.to(device)
        for key, value in inputs(batch, tokens).items()}


def numbers(batch, tokens, below):
    return torch.randint(3, below, (batch, tokens), generator=torch.Generator().manual_seed(1),
                         device="cpu")


def words(vocabulary):
    return lambda batch, tokens: {"input_ids": numbers(batch, tokens, vocabulary)}


def decoder(transformers, name, layers, tiny):
    config, facts = DECODERS[name]
    if tiny:
        facts = {key: TINY.get(key, value) for key, value in facts.items()}
    vocabulary = 128 if tiny else VOCABULARY
    layer_key = "n_layer" if name == "gpt2" else "num_hidden_layers"
    made = getattr(transformers, config)(vocab_size=vocabulary, use_cache=False,
                                         **{layer_key: layers}, **facts)
    kind = transformers.AutoModelForCausalLM
    return kind.from_config, made, words(vocabulary)


def t5(transformers, name, layers, tiny):
    facts = dict(d_model=64, d_kv=16, d_ff=96, num_heads=4) if tiny else dict(
        d_model=2048, d_kv=64, d_ff=5120, num_heads=32)
    vocabulary = 128 if tiny else VOCABULARY
    config = transformers.T5Config(vocab_size=vocabulary, num_layers=layers, use_cache=False,
                                   feed_forward_proj="gated-gelu", **facts)
    return transformers.T5EncoderModel, config, words(vocabulary)


def bert(transformers, name, layers, tiny):
    facts = dict(hidden_size=64, intermediate_size=96, num_attention_heads=4) if tiny else dict(
        hidden_size=1024, intermediate_size=4096, num_attention_heads=16)
    vocabulary = 128 if tiny else VOCABULARY
    config = transformers.BertConfig(vocab_size=vocabulary, num_hidden_layers=layers,
                                     max_position_embeddings=2304, **facts)
    return transformers.BertModel, config, words(vocabulary)


def vit(transformers, name, layers, tiny):
    facts = dict(hidden_size=64, intermediate_size=96, num_attention_heads=4) if tiny else dict(
        hidden_size=1024, intermediate_size=4096, num_attention_heads=16)
    config = transformers.ViTConfig(num_hidden_layers=layers, image_size=224, patch_size=16,
                                    **facts)
    return transformers.ViTModel, config, lambda batch, tokens: {
        "pixel_values": torch.rand(batch, 3, 224, 224, device="cpu")}


def whisper(transformers, name, layers, tiny):
    facts = dict(d_model=64, encoder_ffn_dim=96, decoder_ffn_dim=96, encoder_attention_heads=4,
                 decoder_attention_heads=4) if tiny else dict(
        d_model=1280, encoder_ffn_dim=5120, decoder_ffn_dim=5120, encoder_attention_heads=20,
        decoder_attention_heads=20)
    vocabulary = 128 if tiny else VOCABULARY
    config = transformers.WhisperConfig(vocab_size=vocabulary, encoder_layers=layers,
                                        decoder_layers=layers, num_mel_bins=80, pad_token_id=0,
                                        bos_token_id=1, eos_token_id=2,
                                        decoder_start_token_id=1, max_target_positions=2304,
                                        use_cache=False, **facts)
    return transformers.WhisperModel, config, lambda batch, tokens: {
        "input_features": torch.rand(batch, 80, 3000, device="cpu"),
        "decoder_input_ids": numbers(batch, tokens, vocabulary)}


def has_tokens(name):
    """Whether the number of tokens changes the model's inputs."""
    return name != "vit"
