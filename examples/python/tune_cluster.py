"""Tunes a model's products on a Ray cluster, for any number of rows that may come.

Start it on a node of the cluster, or with RAY_ADDRESS=ray://HOST:10001. What is known is skipped,
so that it may be stopped and started again. On the machines where the model runs:
attacca.import_choices("mlp.choices").
"""
import os

import attacca

MLP = """graph mlp(x: bf16[M, 1024], gate: bf16[2816, 1024], up: bf16[2816, 1024],
          down: bf16[1024, 2816], residual: bf16[M, 1024]) {
  h = silu(x @ transpose(gate)) * (x @ transpose(up))
  return y = h @ transpose(down) + residual
}"""

found = attacca.tune(MLP, M=[1, 16, 256], cluster=os.environ.get("RAY_ADDRESS", "auto"),
                     report="mlp.html", export="mlp.choices", progress=False)
for tuned in found:
    known = sum(decision.seconds > 0 for decision in tuned.decisions)
    print(f"M={tuned.sizes['M']}: {known} of {len(tuned.decisions)} regions have a choice")

# prints:
# M=1: 2 of 2 regions have a choice
# M=16: 2 of 2 regions have a choice
# M=256: 2 of 2 regions have a choice
