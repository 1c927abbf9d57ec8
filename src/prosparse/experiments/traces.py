"""E10, after Fig. 2 of Archambeau & Bach (2008): which samples of a power trace leak the key?

350 traces of 5,000 samples of an AES encryption. PCA gives every sample a weight; SCA-2 with the
Laplace prior gives most of them none. What is kept is judged by a correlation attack: at which
samples does the power follow the Hamming weight of the first S-box output, and how many of the
16 key bytes does the attack find from the kept samples alone?
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ..models.sca import SCA

Array = np.ndarray
N_DIRECTIONS = 3


def sbox() -> Array:
    """The AES S-box: the inverse in GF(2^8), then an affine map."""
    box = np.zeros(256, dtype=np.uint8)
    p = q = 1
    while True:
        p ^= ((p << 1) & 0xFF) ^ (0x1B if p & 0x80 else 0)  # times 3
        for shift in (1, 2, 4):  # divided by 3
            q ^= (q << shift) & 0xFF
        q ^= 0x09 if q & 0x80 else 0
        rotations = [((q << r) | (q >> (8 - r))) & 0xFF for r in range(5)]
        box[p] = np.bitwise_xor.reduce(rotations) ^ 0x63
        if p == 1:
            break
    box[0] = 0x63
    return box


def attack(X: Array, plaintext: Array) -> Array:
    """|correlation| of every sample with every hypothesis: (16 bytes, 256 keys, samples)."""
    weight = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).sum(axis=1)
    predicted = weight[sbox()[plaintext[:, :, None] ^ np.arange(256, dtype=np.uint8)]].astype(float)
    H = predicted.reshape(len(X), -1)
    H = (H - H.mean(axis=0)) / H.std(axis=0)
    Z = (X - X.mean(axis=0)) / np.maximum(X.std(axis=0), 1e-12)
    return np.abs(H.T @ Z).reshape(16, 256, -1) / len(X)


def bytes_found(correlation: Array, key: Array, samples: Array) -> int:
    """How many key bytes have the largest correlation among the given samples."""
    if not samples.any():
        return 0
    return int(np.sum(correlation[:, :, samples].max(axis=2).argmax(axis=1) == key))


def centred_by_session(X: Array, session: Array) -> Array:
    """The set-up drifts between sessions; that is not what leaks."""
    means = np.stack([X[session == s].mean(axis=0) for s in np.unique(session)])
    return X - means[np.searchsorted(np.unique(session), session)]


def laplace(X: Array, strictness: float) -> SCA:
    """SCA-2 with a/DQ = 1. The penalty sqrt(2 b) is ``strictness`` standard deviations of the
    score of a weight that is zero, sqrt(n / noise variance)."""
    n, p = X.shape
    values = np.linalg.svd(X - X.mean(axis=0), compute_uv=False) ** 2
    noise = values[N_DIRECTIONS:].sum() / (n * p)
    a, rate = float(p * N_DIRECTIONS), strictness * np.sqrt(n / noise)
    return SCA(N_DIRECTIONS, prior="hyperbolic", a=a, b=0.5 * rate**2, tol=1e-8).fit(X)


def run_traces(data: Path, output: Path) -> None:
    """Print and draw E10."""
    file = np.load(data / "cw_aes_tutorialB5_350x5000.npz")
    X = centred_by_session(file["X"] / float(file["scale"]), file["session"])
    key = file["key"]
    correlation = attack(X, file["plaintext"])
    at_key = correlation[np.arange(16), key].max(axis=0)
    leaks = at_key > 5.0 / np.sqrt(len(X))  # five standard errors
    everything = np.ones(X.shape[1], dtype=bool)
    print(f"E10: {X.shape[0]} traces of {X.shape[1]} samples; {leaks.sum()} samples leak")
    found = bytes_found(correlation, key, everything)
    print(f"(correlation beyond five standard errors); {found} of 16 key bytes found from all")
    V = np.linalg.svd(X, full_matrices=False)[2][:N_DIRECTIONS]
    titles = ("kept", "leaking", "of chance", "strongest leaks", "bytes")
    print(" " * 24 + "".join(f"{t:>{w}s}" for t, w in zip(titles, (7, 9, 11, 17, 7), strict=True)))
    strongest = np.argsort(at_key)[::-1][:50]
    shown = None
    for strictness in (3.0, 5.0, 10.0, 20.0):
        model = laplace(X, strictness)
        kept = model.support_
        _line(f"SCA-2 Laplace, {strictness:g}", kept, leaks, strongest, correlation, key)
        order = np.argsort(-np.abs(V).max(axis=0))
        cut = np.isin(np.arange(X.shape[1]), order[: kept.sum()])
        _line("  PCA cut to as many", cut, leaks, strongest, correlation, key)
        if strictness == 10.0:
            shown = model
    if shown is not None:
        draw(X, V, shown.components_, at_key, output / "E10_power_traces.png")


def _line(
    name: str, kept: Array, leaks: Array, strongest: Array, correlation: Array, key: Array
) -> None:
    share = leaks[kept].mean() if kept.any() else np.nan
    found = bytes_found(correlation, key, kept)
    cells = f"{kept.sum():7d}{share:9.2f}{share / leaks.mean():11.2f}{kept[strongest].mean():17.2f}"
    print(f"{name:24s}{cells}{found:7d}")


def draw(X: Array, V: Array, components: Array, at_key: Array, path: Path) -> None:
    """Traces, the first directions by PCA and by SCA-2, and where the key leaks."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(4, 1, figsize=(10, 9), sharex=True, layout="constrained")
    axes[0].plot(X[:20].T, lw=0.2, color="0.4")
    axes[0].set_ylabel("power\n(centred)")
    rows = [("PCA", V), ("SCA-2, Laplace", components)]
    for axis, (title, directions) in zip(axes[1:3], rows, strict=True):
        for j, direction in enumerate(directions):
            norm = np.linalg.norm(direction)
            axis.plot(
                direction / norm if norm > 0 else direction, lw=0.6, label=f"direction {j + 1}"
            )
        axis.set_ylabel(f"{title}\nweights")
        axis.legend(loc="lower left", fontsize=8, ncols=3)
    axes[3].plot(at_key, lw=0.5, color="tab:red")
    axes[3].axhline(5.0 / np.sqrt(len(X)), lw=0.6, ls="--", color="0.3")
    axes[3].set_ylabel("largest correlation\nwith the key")
    axes[3].set_xlabel("sample")
    figure.savefig(path, dpi=130)
    plt.close(figure)
    print(f"drawn: {path}")
