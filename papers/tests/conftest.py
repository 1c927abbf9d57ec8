"""scikit-learn 1.6 can import its own checks.

Where array-api-compat is installed, its test module refuses to be imported unless SCIPY_ARRAY_API
is set; 1.7 no longer does. It is set for that one import: SciPy, which reads it when it is first
imported, was imported before and works as it does for users.
"""

import pytest
import scipy.stats  # noqa: F401

with pytest.MonkeyPatch.context() as patch:
    patch.setenv("SCIPY_ARRAY_API", "1")
    import sklearn.utils.estimator_checks  # noqa: F401
