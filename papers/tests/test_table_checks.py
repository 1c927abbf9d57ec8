"""E34: planted defects are found in a table on which nothing was tuned."""

import numpy as np
import pytest

from papers.table_checks import DEFECTS, alarms, find, is_found, random_table


@pytest.mark.parametrize("plant", DEFECTS, ids=lambda plant: plant.__name__)
def test_defect_is_found(plant):
    rng = np.random.default_rng([34, 5000])
    X = random_table(rng)
    planted = plant(X, rng)
    assert is_found(planted, find(planted.table))


def test_clean_table_has_no_alarms():
    assert alarms(find(random_table(np.random.default_rng([34, 5000])))) == []


def test_finding_about_another_row_does_not_count():
    rng = np.random.default_rng([34, 5000])
    planted = DEFECTS[9](random_table(rng), rng)
    other = planted._replace(rows=((planted.rows[0] + 1) % 10,))
    assert not is_found(other, find(planted.table))
