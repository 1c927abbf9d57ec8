"""Numbers and names in sentences."""

import pytest

from prosparse.phrases import format_mean, format_ratio, join_items, percent, quote_name

pytestmark = pytest.mark.quick


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0%"),
        (1.0, "100%"),
        (0.1234, "12.3%"),
        (0.99999, "more than 99.9%"),
        (0.00001, "less than 0.1%"),
        (None, "unknown"),
        (float("nan"), "unknown"),
    ],
)
def test_percentages_are_not_rounded_to_the_limits(value, text):
    assert percent(value) == text


def test_percentages_without_decimals():
    assert percent(0.126, 0) == "13%"
    assert percent(0.999, 0) == "more than 99%"
    assert percent(0.001, 0) == "less than 1%"


def test_ratios():
    assert format_ratio(1.25) == "1.2 times"
    assert format_ratio(412_345.0) == "410,000 times"
    assert format_ratio(1e12) == "over a billion times"


def test_means():
    assert [format_mean(value) for value in (0.0, 0.034, 4.25, 1234.5)] == [
        "0",
        "0.034",
        "4.2",
        "1,234",
    ]


def test_names_with_spaces_are_quoted():
    assert quote_name("gene_1-a.2") == "gene_1-a.2"
    assert quote_name("alcohol content") == "“alcohol content”"


def test_lists():
    assert [join_items(["a", "b", "c"][:k]) for k in range(4)] == ["", "a", "a and b", "a, b and c"]
