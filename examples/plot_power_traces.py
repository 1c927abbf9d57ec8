"""
Power traces: where does a device leak?
=======================================

The power that a device draws while it encrypts depends on what it computes. Each trace has
thousands of samples in time; only at some of them do the traces differ together. Finding these is
a choice of variables, and the samples chosen are where an analyst looks first.

With ``PROSPARSE_DATA`` these are 350 traces of an AES encryption (5,000 samples, every fifth of
which is taken). Without, a simulated look-alike: a clocked carrier with three short bursts, in
which the power follows two hidden values.
"""

import os
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from prosparse import FDRPCA

file = Path(os.environ.get("PROSPARSE_DATA", ".")) / "cw_aes_tutorialB5_350x5000.npz"
if file.is_file():
    with np.load(file, allow_pickle=False) as recorded:
        traces = recorded["X"][:, ::5] / float(recorded["scale"])
        session = recorded["session"]
    print("350 recorded traces of an AES encryption, every fifth sample")
else:
    rng = np.random.default_rng(0)
    time = np.arange(1000)
    shape = np.sin(2 * np.pi * time / 8) * (1 + 0.3 * np.sin(2 * np.pi * time / 160))
    bursts = [np.exp(-0.5 * ((time - place) / 6.0) ** 2) for place in (220, 480, 760)]
    hidden = rng.standard_normal((350, 2))
    follows = np.array([bursts[0] + bursts[1], bursts[2] - bursts[1]])
    traces = shape + 0.6 * hidden @ follows + 0.15 * rng.standard_normal((350, 1000))
    session = np.repeat([1, 2], 175)
    print("350 simulated traces of 1,000 samples, two hidden values in three bursts")

# The set-up drifts between sessions: traces are compared within each. A sample in time that shares
# half of its variance with others is worth a look.
model = FDRPCA(min_communality=0.5).fit(traces, groups=session)
print(f"{model.n_selected_} of {traces.shape[1]} samples chosen")

# %%
# Above, a few traces; in the middle, the communality of every sample, the chosen ones in colour;
# below, the first two components, which are zero elsewhere.

figure, axes = plt.subplots(3, 1, figsize=(9, 6), sharex=True, layout="constrained")
axes[0].plot(traces[:10].T, linewidth=0.4, color="0.4")
axes[0].set_ylabel("power")
time = np.arange(traces.shape[1])
axes[1].vlines(time, 0, model.communality_, color="#9ab0c4", linewidth=0.8)
chosen = np.flatnonzero(model.support_)
axes[1].vlines(chosen, 0, model.communality_[chosen], color="#c2410c", linewidth=0.8)
axes[1].axhline(model.null_communality_, color="0.3", linestyle="--", linewidth=1)
axes[1].set_ylabel("communality")
for number, component in enumerate(model.components_[:2], start=1):
    axes[2].plot(time, component, linewidth=0.8, label=f"component {number}")
axes[2].legend(frameon=False)
axes[2].set(xlabel="sample in time", ylabel="loading")
plt.show()
