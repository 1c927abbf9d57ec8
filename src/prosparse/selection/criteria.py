"""Extended Bayesian information criterion."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import gammaln


def ebic(log_likelihood: Any, n_parameters: Any, n_samples: float, n_candidates: int) -> np.ndarray:
    """Compute extended BIC (Chen & Chen, 2008); larger is better.

    As in BIC, the log-likelihood is reduced by ``log(n_samples) / 2`` for each parameter. It is
    further reduced by the logarithm of the number of models with the same number of parameters
    among ``n_candidates``. The second term corrects for the selection of the parameters by the
    data.
    """
    selected, total = np.asarray(n_parameters, dtype=float), float(n_candidates)
    log_models = gammaln(total + 1.0) - gammaln(selected + 1.0) - gammaln(total - selected + 1.0)
    return np.asarray(log_likelihood) - 0.5 * np.log(n_samples) * selected - log_models
