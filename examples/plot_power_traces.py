"""
Find leaking time points in power traces
========================================

The power consumption of a device during encryption depends on the data that it processes. Only
some time points of a trace vary together, and these are relevant to side-channel analysis.

If the folder ``PROSPARSE_DATA`` contains the data, the example uses 350 traces of an AES encryption
(every fifth of 5,000 time points). Otherwise, it simulates a periodic carrier with three bursts
whose power depends on two hidden values.
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
    print("350 recorded traces of an AES encryption, 1,000 time points")
else:
    rng = np.random.default_rng(0)
    time = np.arange(1000)
    shape = np.sin(2 * np.pi * time / 8) * (1 + 0.3 * np.sin(2 * np.pi * time / 160))
    bursts = [np.exp(-0.5 * ((time - center) / 6.0) ** 2) for center in (220, 480, 760)]
    hidden = rng.standard_normal((350, 2))
    loadings = np.array([bursts[0] + bursts[1], bursts[2] - bursts[1]])
    traces = shape + 0.6 * hidden @ loadings + 0.15 * rng.standard_normal((350, 1000))
    session = np.repeat([1, 2], 175)
    print("350 simulated traces, 1,000 time points, two hidden values, three bursts")

# The measurement drifts between sessions, so the test compares traces within sessions.
model = FDRPCA(min_communality=0.5).fit(traces, groups=session)
print(f"{model.n_selected_} of {traces.shape[1]} time points selected")

# %%
# The plots show ten traces (top), the communality of each time point with the selected ones in
# colour (middle), and the loadings of the first two components (bottom).

figure, axes = plt.subplots(3, 1, figsize=(9, 6), sharex=True, layout="constrained")
axes[0].plot(traces[:10].T, linewidth=0.4, color="0.4")
axes[0].set_ylabel("power")
time = np.arange(traces.shape[1])
axes[1].vlines(time, 0, model.communality_, color="#9ab0c4", linewidth=0.8)
selected = np.flatnonzero(model.support_)
axes[1].vlines(selected, 0, model.communality_[selected], color="#c2410c", linewidth=0.8)
axes[1].axhline(model.null_communality_, color="0.3", linestyle="--", linewidth=1)
axes[1].set_ylabel("communality")
for number, component in enumerate(model.components_[:2], start=1):
    axes[2].plot(time, component, linewidth=0.8, label=f"component {number}")
axes[2].legend(frameon=False)
axes[2].set(xlabel="time point", ylabel="loading")
plt.show()
