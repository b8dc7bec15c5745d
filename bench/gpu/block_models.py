"""Transformer blocks at real widths with random weights: Hugging Face's modules where transformers
is installed and its module accepts the arguments used here, else plain modules of the same
structure."""

import torch
import torch.nn.functional as F
from torch import nn

# width, inner width of the MLP, heads, key-value heads, width of a head.
WIDTHS = {
    "llama": (4096, 14336, 32, 8, 128),     # Llama 3 8B
    "qwen": (4096, 12288, 32, 8, 128),      # Qwen 3 8B
    "gpt_oss": (2880, 2880, 64, 8, 64),     # GPT-OSS 20B, one expert
    "bert": (1024, 4096, 16, 16, 64),       # BERT large
}
TINY = {name: (64, 96, 4, 2 if name != "bert" else 4, 16) for name in WIDTHS}


def rotate(x, cos, sin):
    half = x.shape[-1] // 2
    return x * cos + torch.cat((-x[..., half:], x[..., :half]), dim=-1) * sin


class Attention(nn.Module):
    """Grouped-query attention with rotary embedding, causal, and the residual."""

    def __init__(self, width, inner, heads, kv_heads, head, norm_heads=False, bias=False):
        super().__init__()
        self.heads, self.kv_heads, self.head = heads, kv_heads, head
        self.q = nn.Linear(width, heads * head, bias=bias)
        self.k, self.v = (nn.Linear(width, kv_heads * head, bias=bias) for _ in range(2))
        self.o = nn.Linear(heads * head, width, bias=bias)
        self.norm = nn.RMSNorm(width)
        self.head_norms = nn.ModuleList(nn.RMSNorm(head) for _ in range(2)) if norm_heads else None

    def forward(self, x, cos, sin):
        b, s, _ = x.shape
        h = self.norm(x)
        q = self.q(h).view(b, s, self.heads, self.head)
        k = self.k(h).view(b, s, self.kv_heads, self.head)
        v = self.v(h).view(b, s, self.kv_heads, self.head).transpose(1, 2)
        if self.head_norms is not None:
            q, k = self.head_norms[0](q), self.head_norms[1](k)
        q, k = rotate(q.transpose(1, 2), cos, sin), rotate(k.transpose(1, 2), cos, sin)
        o = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return x + self.o(o.transpose(1, 2).reshape(b, s, -1))


class GatedMlp(nn.Module):
    """SwiGLU with its norm and residual."""

    def __init__(self, width, inner, *_):
        super().__init__()
        self.norm = nn.RMSNorm(width)
        self.gate, self.up = (nn.Linear(width, inner, bias=False) for _ in range(2))
        self.down = nn.Linear(inner, width, bias=False)

    def forward(self, x):
        h = self.norm(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class ClampedExpert(nn.Module):
    """One expert of GPT-OSS: clamped SwiGLU of interleaved columns."""

    def __init__(self, width, inner, *_):
        super().__init__()
        self.gate_up, self.down = nn.Linear(width, 2 * inner), nn.Linear(inner, width)

    def forward(self, x):
        both = self.gate_up(x)
        gate, up = both[..., ::2].clamp(max=7.0), both[..., 1::2].clamp(min=-7.0, max=7.0)
        return self.down(gate * torch.sigmoid(1.702 * gate) * (up + 1))


class PreNorm(nn.Module):
    """A layer with its norm and its residual, as a decoder has it."""

    def __init__(self, norm, layer):
        super().__init__()
        self.norm, self.layer = norm, layer

    def forward(self, x, *more):
        return x + self.layer(self.norm(x), *more)


class OneExpert(nn.Module):
    """transformers' GPT-OSS experts where there is one, without the routing."""

    def __init__(self, experts):
        super().__init__()
        self.experts = experts

    def forward(self, x):
        experts = self.experts
        gate_up = x @ experts.gate_up_proj[0] + experts.gate_up_proj_bias[0]
        return experts._apply_gate(gate_up) @ experts.down_proj[0] + experts.down_proj_bias[0]


class BertLayer(nn.Module):
    """Attention and feed-forward, each normalised after its residual."""

    def __init__(self, width, inner, heads, *_):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.o = (nn.Linear(width, width) for _ in range(4))
        self.wide, self.narrow = nn.Linear(width, inner), nn.Linear(inner, width)
        self.norms = nn.ModuleList(nn.LayerNorm(width, eps=1e-12) for _ in range(2))

    def forward(self, x):
        b, s, _ = x.shape
        q, k, v = (p(x).view(b, s, self.heads, -1).transpose(1, 2) for p in (self.q, self.k,
                                                                             self.v))
        o = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, s, -1)
        x = self.norms[0](x + self.o(o))
        return self.norms[1](x + self.narrow(F.gelu(self.wide(x))))


def hugging_face_mlp(family, widths):
    """transformers' own MLP; raises where there is none that fits."""
    width, inner = widths[:2]
    if family == "gpt_oss":
        from transformers.models.gpt_oss.modeling_gpt_oss import (
            GptOssConfig, GptOssExperts, GptOssRMSNorm as Norm)
        mlp = OneExpert(GptOssExperts(GptOssConfig(hidden_size=width, intermediate_size=inner,
                                                   num_local_experts=1, num_experts_per_tok=1)))
    elif family == "llama":
        from transformers.models.llama.modeling_llama import (
            LlamaConfig, LlamaMLP, LlamaRMSNorm as Norm)
        mlp = LlamaMLP(LlamaConfig(hidden_size=width, intermediate_size=inner))
    else:
        from transformers.models.qwen3.modeling_qwen3 import (
            Qwen3Config, Qwen3MLP, Qwen3RMSNorm as Norm)
        mlp = Qwen3MLP(Qwen3Config(hidden_size=width, intermediate_size=inner))
    return PreNorm(Norm(width), mlp)


def hugging_face_bert(widths):
    from transformers.models.bert.modeling_bert import BertConfig, BertLayer as Layer

    class Wrapped(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = Layer(BertConfig(hidden_size=widths[0], intermediate_size=widths[1],
                                          num_attention_heads=widths[2], attn_implementation="sdpa",
                                          hidden_dropout_prob=0.0,
                                          attention_probs_dropout_prob=0.0))

        def forward(self, x):
            y = self.layer(x)
            return y[0] if isinstance(y, tuple) else y

    return Wrapped()


def hugging_face_attention(family, widths):
    width, _, heads, kv_heads, head = widths
    if family == "llama":
        from transformers.models.llama import modeling_llama as models
        Config, Layer, Norm = models.LlamaConfig, models.LlamaAttention, models.LlamaRMSNorm
    elif family == "qwen":
        from transformers.models.qwen3 import modeling_qwen3 as models
        Config, Layer, Norm = models.Qwen3Config, models.Qwen3Attention, models.Qwen3RMSNorm
    else:
        from transformers.models.gpt_oss import modeling_gpt_oss as models
        Config, Layer, Norm = models.GptOssConfig, models.GptOssAttention, models.GptOssRMSNorm
    config = Config(hidden_size=width, num_attention_heads=heads, num_key_value_heads=kv_heads,
                    head_dim=head)
    sinks = family == "gpt_oss"  # only its eager attention has sinks, and that needs a mask
    config._attn_implementation = "eager" if sinks else "sdpa"

    class Wrapped(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = Layer(config, layer_idx=0)
            if sinks:
                self.layer.sinks.data.normal_()

        def forward(self, x, cos, sin):
            mask = None
            if sinks:
                cos, sin = cos[..., :head // 2], sin[..., :head // 2]
                tokens = x.shape[1]
                mask = torch.full((tokens, tokens), float("-inf"), dtype=x.dtype,
                                  device=x.device).triu(1)
            return self.layer(x, position_embeddings=(cos, sin), attention_mask=mask)[0]

    return PreNorm(Norm(width), Wrapped())


PLAIN = {
    "llama_mlp": lambda w: GatedMlp(*w), "qwen_mlp": lambda w: GatedMlp(*w),
    "gpt_oss_mlp": lambda w: PreNorm(nn.RMSNorm(w[0]), ClampedExpert(*w)),
    "bert": lambda w: BertLayer(*w),
    "llama_attention": lambda w: Attention(*w),
    "qwen_attention": lambda w: Attention(*w, norm_heads=True),
    "gpt_oss_attention": lambda w: Attention(*w, bias=True),
}
HUGGING_FACE = {
    "llama_mlp": lambda w: hugging_face_mlp("llama", w),
    "qwen_mlp": lambda w: hugging_face_mlp("qwen", w),
    "gpt_oss_mlp": lambda w: hugging_face_mlp("gpt_oss", w), "bert": hugging_face_bert,
    "llama_attention": lambda w: hugging_face_attention("llama", w),
    "qwen_attention": lambda w: hugging_face_attention("qwen", w),
    "gpt_oss_attention": lambda w: hugging_face_attention("gpt_oss", w),
}
NAMES = list(PLAIN)


def inputs(name, widths, tokens, device, dtype):
    """What the block takes: hidden states, and for attention the rotary tables."""
    width, _, _, _, head = widths
    x = torch.randn(1, tokens, width, device=device, dtype=dtype)
    if not name.endswith("attention"):
        return (x,)
    position = torch.arange(tokens, device=device, dtype=torch.float32)
    frequency = 10000.0 ** (-torch.arange(0, head, 2, device=device, dtype=torch.float32) / head)
    angle = torch.outer(position, frequency).repeat(1, 2)[None]
    return x, angle.cos().to(dtype), angle.sin().to(dtype)


def make(name, tiny, device, dtype, plain=False):
    """(the block, its widths, "transformers" or "plain"), with random weights of 1/sqrt(K)."""
    family = name.rsplit("_", 1)[0] if name != "bert" else "bert"
    widths = (TINY if tiny else WIDTHS)[family]
    torch.manual_seed(0)
    block, source = None, "plain"
    if not plain and name in HUGGING_FACE:
        try:
            block, source = HUGGING_FACE[name](widths), "transformers"
            block = prepared(block, device, dtype)
            with torch.no_grad():  # other versions have other signatures
                block(*inputs(name, widths, 8, device, dtype))
        except Exception:  # noqa: BLE001  any reason that another version of transformers finds
            block, source = None, "plain"
    if block is None:
        block = prepared(PLAIN[name](widths), device, dtype)
    return block, widths, source


def prepared(block, device, dtype):
    for parameter in block.parameters():
        with torch.no_grad():
            if parameter.dim() > 1:
                parameter.normal_(0, parameter.shape[-1] ** -0.5)
    return block.to(device=device, dtype=dtype).eval().requires_grad_(False)
