"""Every number in every sentence is worked out again from the fitted arrays.

The sentences are taken apart by patterns, one for each kind of sentence that there is: a sentence
that no pattern knows fails the test, and so does a number that is not what the arrays give.
"""

import re

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine

pytest.importorskip("jinja2", reason="jinja2 is not installed: no report")

from prosparse import EMPCA, FDRPCA, GSPPCA, SCA, SPPCA, Panel, SpinyClassifier, SpinyRegressor
from prosparse.datasets import make_globally_sparse, make_sparse_regression
from prosparse.findings import findings_of
from prosparse.phrases import percent, quoted, times
from prosparse.report.narrative import Doubts, reading
from prosparse.stability import permutation_null, stability_selection

pytestmark = [
    pytest.mark.quick,
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]

SIMULATED = make_globally_sparse(60, 25, n_components=2, n_informative=8, random_state=0).X
# so few rows that variables which are not chosen share half of their variance as well
WIDE = make_globally_sparse(16, 60, n_components=4, n_informative=30, random_state=1).X
TABLES = {
    "wine": load_wine(as_frame=True).data,
    "diabetes": load_diabetes(as_frame=True).data.iloc[:150],
    "simulated": pd.DataFrame(SIMULATED, columns=[f"v{k}" for k in range(25)]),
    "wide": pd.DataFrame(WIDE, columns=[f"gene {k}" for k in range(60)]),
}
METHODS = {
    "fdrpca": FDRPCA(),
    "fdrpca half": FDRPCA(min_communality=0.5),
    "fdrpca some": FDRPCA(2, min_communality=0.2, fdr=0.1),
    "gsppca": GSPPCA(2, scale=True),
    "gsppca asked": GSPPCA(2, n_features_to_select=6, scale=True),
    "sca": SCA(2, max_iter=60),
    "sppca": SPPCA(2, penalty=20.0, max_iter=60),
    "empca": EMPCA(2, n_nonzero=4, scale=True, n_restarts=1, random_state=0),
    "empca one": EMPCA(1, n_nonzero=1, scale=True, n_restarts=1, random_state=0),
    "panel": Panel(5),
    "panel free": Panel(target_recovery=0.5),
}

N = r"([\d,]+(?:\.\d+)?(?:e[-+]\d+)?)"
SHARE = r"((?:more than |less than )?[\d.]+%|not known)"


def value(text):
    return float(text.replace(",", ""))


def rounds_to(text, given):
    """Whether a number was rounded to what is said."""
    digits = len(re.sub(r"[,.]", "", text).lstrip("0")) or 1
    return value(text) == pytest.approx(given, rel=0.6 * 10.0 ** (1 - digits), abs=1e-12)


class Checked:
    """What the sentences must say, of one model on one table."""

    def __init__(self, model, table, chance=None, stability=None):
        self.m, self.found = model, findings_of(model)
        self.table, self.chance, self.stability = table, chance, stability
        self.p, self.q = table.shape[1], int(np.sum(model.support_))
        self.names = [quoted(name) for name in table.columns]

    def loadings(self):
        return np.atleast_2d(getattr(self.m, "components_", getattr(self.m, "selected_coef_", None)))

    def ranked(self, positions):
        return sorted(positions, key=lambda k: self.m.ranking_[k])

    def check(self, sentence):
        for pattern, claim in PATTERNS:
            found = re.fullmatch(pattern, sentence)
            if found:
                claim(self, *found.groups())
                return
        pytest.fail(f"no pattern knows this sentence: {sentence}")


# --- one function for each kind of sentence


def counts(c, chosen, of):
    assert (value(chosen), value(of)) == (c.q, c.p)


def carries(c, chosen, of, components):
    counts(c, chosen, of)
    assert components in (None, str(c.loadings().shape[0]))
    assert components is not None or c.loadings().shape[0] == 1


def shares(c, chosen, of, least, half):
    counts(c, chosen, of)
    assert float(least or 0) == c.m.min_communality
    if half is not None:
        assert value(half) == np.sum(c.m.communality_[c.m.support_] >= 0.5)


def none_chosen(c, of, least, rate):
    assert (value(of), c.q) == (c.p, 0)
    assert float(least or 0) == c.m.min_communality
    assert float(rate) == c.m.fdr


def holds(c, components, share, of):
    assert components in (None, str(c.m.n_components_))
    assert share == percent(float(np.sum(c.m.explained_variance_ratio_)))
    assert value(of) == c.p


def holds_scaled(c, components, share, of, by_chance):
    holds(c, components, share, of)
    assert by_chance == percent(c.m.n_components_ / (len(c.table) - 1))


def at_a_rate(c, rate, of_hundred):
    assert float(rate) == c.m.fdr
    assert rounds_to(of_hundred, 100 * c.m.fdr)


def share_most(c, listed):
    order = sorted(np.flatnonzero(c.m.support_), key=lambda k: -c.m.communality_[k])[:5]
    said = [f"{c.names[k]} ({percent(c.m.communality_[k], 0)})" for k in order]
    assert sorted(listed.split(", ")) == sorted(said)


def not_yet_much(c):
    assert np.any(c.m.communality_[c.m.support_] < 0.5)


def asked(c, chosen, what):
    assert value(chosen) == c.q
    wanted = c.m.get_params().get("n_features_to_select") or c.m.get_params().get("n_features")
    assert value(what.split()[0]) == (wanted or c.m.get_params().get("n_nonzero"))


def asserted(holds):
    assert holds


def by_evidence(c, chosen, fewer, more):
    assert value(chosen) == c.q
    path = findings_of(c.m).comparison.criterion
    at = findings_of(c.m).comparison.best
    for said, step in ((fewer, -1), (more, 1)):
        if said is not None:
            assert said == times(min(np.exp(min(path[at] - path[at + step], 100)), 1e300))


def equally(c, count, low, high, factor):
    choice = findings_of(c.m).comparison
    near = choice.x[choice.criterion >= choice.criterion[choice.best] - 3]
    assert (value(low), value(high)) == (near.min(), near.max())
    assert count is None or value(count) == near.size
    assert count is not None or near.size == near.max() - near.min() + 1
    assert rounds_to(factor, np.e**3)


def only_this(c, factor):
    choice = findings_of(c.m).comparison
    assert np.sum(choice.criterion >= choice.criterion[choice.best] - 3) == 1


def at_the_penalty(c, chosen, penalty, variables):
    assert value(chosen) == value(variables) == c.q
    assert rounds_to(penalty, c.m.penalty_)


def by_prior(c, chosen):
    assert value(chosen) == c.q


def recovers(c, chosen, share):
    assert value(chosen) == c.q
    attained = float(c.m.relative_r2_path_[c.q - 1])
    assert share == (percent(attained) if attained < 1.0 else None)


def most_relevant(c, listed):
    order = c.ranked(np.flatnonzero(c.m.support_))[:5]
    assert listed == ", ".join(c.names[k] for k in order)


def first_components(c, shown, of):
    assert (int(shown), int(of)) == (3, c.loadings().shape[0])


def members(c, text):
    """Positions of names in a list such as "a, b and c, against d"."""
    places = []
    for name in sorted(c.names, key=len, reverse=True):
        pattern = rf"(?:^|(?<=[, ])){re.escape(name)}(?=$|,| and |\.)"
        if re.search(pattern, text):
            places.append(c.names.index(name))
            text = re.sub(pattern, "§", text, count=1)
    assert re.fullmatch(r"(§|, | and |, against )*", text), text
    return places


def sides(c, k, text):
    first, _, against = text.partition(", against ")
    w = c.loadings()[k]
    signs = [np.sign(w[members(c, part)]) for part in (first, against) if part]
    assert all(np.all(one == one[0]) for one in signs)
    assert len(signs) == 1 or signs[0][0] == -signs[1][0]
    return [place for part in (first, against) if part for place in members(c, part)]


def mostly(c, k, text, together):
    w = c.loadings()[int(k) - 1]
    places = sides(c, int(k) - 1, text)
    assert np.sum(w[places] ** 2) > 0.5 * np.sum(w**2)
    assert sorted(places) == sorted(np.argsort(-np.abs(w), kind="stable")[: len(places)])
    assert not together or len(places) > 1


def alone(c, k, name):
    assert list(np.flatnonzero(c.loadings()[int(k) - 1])) == [c.names.index(name)]


def spread(c, k, loadings, text, share):
    w = c.loadings()[int(k) - 1]
    places = sides(c, int(k) - 1, text)
    assert value(loadings) == np.count_nonzero(w)
    held = float(np.sum(w[places] ** 2) / np.sum(w**2))
    assert share == percent(held)
    assert held <= 0.5


def told_share(c, share, attainable):
    assert share == percent(max(float(c.m.heldout_r2_path_[c.q - 1]), 0.0))
    assert attainable == percent(max(float(c.m.attainable_r2_), 0.0))


def proxied_variables(c, text):
    said = []
    for k in c.m.order_[:5]:
        others = np.sum((c.m.proxy_ == k) & ~c.m.support_)
        said.append(f"{c.names[k]} for {others}")
    assert text == ", ".join(said)


def chosen_by_chance(c, tables, method, mean, low, high):
    assert int(tables) == c.chance.counts.size
    assert method == type(c.m).__name__
    assert rounds_to(mean, np.mean(c.chance.counts))
    if low is not None:
        assert (value(low), value(high)) == (c.chance.counts.min(), c.chance.counts.max())


def none_by_chance(c, tables, method):
    assert int(tables) == c.chance.counts.size
    assert not c.chance.counts.any()


def held_by_chance(c, given, by_chance):
    assert given == percent(c.chance.held)
    assert by_chance == percent(max(float(np.nanmean(c.chance.chance_held)), 0.0))


def headline_of_chance(c, chosen, of, by_chance):
    counts(c, chosen, of)
    assert rounds_to(by_chance, np.mean(c.chance.counts))
    assert np.any(c.chance.counts)


def nothing_stands_out(c, of):
    assert value(of) == c.p
    assert c.chance is None or c.chance.nothing_more


def not_a_finding(c, chosen):
    assert value(chosen) == c.q


def on_halves(c, method, mean, of, low, high, halves, rows, whole):
    s = c.stability
    assert method == type(c.m).__name__
    assert rounds_to(mean, np.mean(s.counts))
    assert (value(low), value(high)) == (s.counts.min(), s.counts.max())
    assert (value(of), value(whole)) == (c.p, c.q)
    assert (int(halves), int(rows)) == (s.counts.size, len(c.table) // 2)


def stable(c, count, threshold, both, of):
    s = c.stability
    often = s.times / s.counts.size >= float(threshold) / 100 - 1e-9
    assert value(count) == often.sum()
    assert value(both) == np.sum(often & c.m.support_)
    assert value(of) == c.q


def false_ones(c, count, bound, low):
    s = c.stability
    q, p, B, tau = np.mean(s.counts), c.p, s.counts.size / 2, s.threshold
    theta = min(q / p, 0.5)
    tau = np.ceil(2 * B * tau) / (2 * B)  # a variable is chosen on whole halves
    factor = min(4 * (1 - tau + 1 / (2 * B)) / (1 + 1 / B), 1 / (2 * tau - 1))
    assert rounds_to(bound, factor * theta * min(q, theta * p))
    assert value(count) == s.stable.sum()
    if low is not None:
        assert rounds_to(low, theta)


def false_unknown(c, count, bound):
    false_ones(c, count, bound, None)
    assert value(bound) >= 0.99 * value(count)


def predicts(c, chosen, of):
    counts(c, chosen, of)


def explained(c, given, by_chance):
    held_by_chance(c, given, by_chance)


def carried(c, k, count, prefix, share):
    w = c.loadings()[int(k) - 1]
    places = [j for j, name in enumerate(c.table.columns) if str(name).startswith(prefix)]
    assert value(count) == len(places)
    assert share == percent(float(np.sum(w[places] ** 2) / np.sum(w**2)))


PATTERNS = [
    (rf"{N} of {N} variables? vary with others beyond chance"
     rf"(?: and share at least {N} of their variance)?"
     rf"(?:\. {N} of them share at least half of their variance)?\.", shares),
    (rf"{N} of {N} variables varies with others beyond chance"
     r"(?: and shares at least ([\d.]+) of its variance)?()?\.",
     lambda c, a, b, least, _: shares(c, a, b, least, None)),
    (rf"None of the {N} variables is chosen: no variable shares significant variance with other "
     rf"variables \(false discovery rate at most {N}\)"
     rf"(?: and has a communality of at least {N})?\.",
     lambda c, p, rate, least: none_chosen(c, p, least, rate)),
    (r"The table may have no common structure, or too few rows to show it\.", lambda c: None),
    (rf"(?:One component holds|Their (\d+) components hold) {SHARE} of the variance of all {N} "
     rf"variables, each scaled to unit variance\. The null "
     rf"expectation of the communality is {SHARE}\.", holds_scaled),
    (rf"Variables are chosen at a false discovery rate of {N}: on average, at most {N} of a "
     r"hundred chosen ones are there by chance\.", at_a_rate),
    (r"Those that share most: (.+)\.", share_most),
    (r"Beyond chance is not yet much: .*", not_yet_much),
    (rf"{N} of {N} variables? (?:carry|carries) the (?:common structure, in (\d+) components|"
     r"structure of one component)\.", carries),
    (rf"The {N} of {N} variables that carry most of the (?:common structure, in (\d+) components|"
     r"structure of one component), as asked\.", carries),
    (rf"The {N} of {N} variables that tell most of all others, as asked\.", counts),
    (rf"{N} of {N} variables tell {SHARE} of what all of them tell of the others\.",
     lambda c, a, b, share: (counts(c, a, b), recovers(c, a, share))),
    (rf"{N} of {N} variables tell as much of the others as all of them do\.",
     lambda c, a, b: (counts(c, a, b), recovers(c, a, None))),
    (rf"Why {N}: they explain as much held-out variance of the others as all variables "
     r"together\.()", lambda c, a, _: recovers(c, a, None)),
    (rf"{N} of {N} variables (?:predict|predicts) the response\.", predicts),
    (rf"(?:This component holds|Together these components hold)() {SHARE} of the variance of all "
     rf"{N} variables(?:; the rest is noise, or structure that they leave out)?\.",
     lambda c, _, share, of: holds(c, None, share, of)),
    (rf"Why {N}: (.+) were requested\.", asked),
    (rf"Why {N}: this number has the highest (?:marginal likelihood \(evidence\)|posterior "
     r"probability)(?: \((?:1 fewer would be ([^)]*? times) less "
     r"probable)?(?:, )?(?:1 more would be ([^)]*? times) less probable)?\))?\.", by_evidence),
    (rf"Why {N}: this set has the highest expected F-score, ([\d.]+)\.",
     lambda c, chosen, score: (asserted(value(chosen) == c.q),
                               asserted(score == f"{c.m.expected_f_score_:.2f}"))),
    (rf"Any number of variables from {N} to {N} has evidence within a factor of {N} of the best\.",
     lambda c, low, high, f: equally(c, None, low, high, f)),
    (rf"{N} of the numbers of variables from {N} to {N} have evidence within a factor of {N} of "
     r"the best\.", equally),
    (rf"No other number of variables has evidence within a factor of {N} of the best\.", only_this),
    (rf"Why {N}: at penalty {N}, as requested, {N} variables? (?:has|have) nonzero loadings\.",
     at_the_penalty),
    (rf"Why {N}: the loadings of all other variables are exactly zero under the sparse "
     r"prior\.", by_prior),
    (rf"Why {N}: they explain {SHARE} of the held-out variance that all variables together "
     r"explain\.", recovers),
    (r"(?:The most relevant|Most relevant first): (.+)\.", most_relevant),
    (r"These are the first (\d+) of (\d+) components\.", first_components),
    (r"Component (\d+) is mostly (.+?)(, which rise and fall together)?\.", mostly),
    (r"Component (\d+) is (.+) alone\.", alone),
    (rf"Component (\d+) is spread over many: the largest of its {N} loadings are those of (.+), "
     rf"together {SHARE} of it \(in squares\)\.", spread),
    (rf"Component (\d+) is carried by the {N} variables whose names begin with “(.+)”(?:, .+)?: "
     rf"they hold {SHARE} of it \(in squares\)\.", carried),
    (rf"In rows that were held out, they tell {SHARE} of the variance of all variables, themselves "
     rf"included; of a variable, all others together tell {SHARE}\.", told_share),
    (r"So many others each of the first stands for: (.+)\.", proxied_variables),
    (rf"Of (\d+) tables with .+, which share nothing, (\w+) chooses {N} variables on average"
     rf"(?:, {N} to {N})?\.", chosen_by_chance),
    (r"Of (\d+) tables with .+, which share nothing, (\w+) chooses no variable\.", none_by_chance),
    (rf"The components hold {SHARE} of the variance of all variables; by chance they would hold "
     rf"{SHARE}\.", held_by_chance),
    (rf"In rows that were held out, all other variables together tell {SHARE} of a variable; by "
     rf"chance it would be {SHARE}\.",
     held_by_chance),
    (rf"The model explains {SHARE} of the variance of the response in these rows; fitted to the "
     rf"response in random order, it explains {SHARE} on average, whether or not it selects "
     r"variables\.", explained),
    (rf"The model classifies {SHARE} of these rows correctly; fitted to the classes in random "
     rf"order, it classifies {SHARE} on average, whether or not it selects variables\.",
     explained),
    (rf"{N} of {N} variables chosen; {N} would be by chance\.", headline_of_chance),
    (rf"No common structure of the {N} variables stands out from noise\.", nothing_stands_out),
    (rf"None of the {N} variables predicts the response better than chance would\.",
     nothing_stands_out),
    (rf"{N} of them (?:is|are) listed as chosen.*do not read this as a finding\..*", not_a_finding),
    (rf"On half of the rows, (\w+) chooses {N} of {N} variables on average \({N} to {N} over {N} "
     rf"halves of {N} rows\); on all rows it chose {N}\.", on_halves),
    (rf"{N} (?:is|are) stable: chosen on at least {N}% of the halves; {N} of the {N} chosen on all "
     r"rows are among them\.", stable),
    (rf"Of the {N}, at most {N} are expected to be false: variables that the method chooses on "
     rf"half of the rows with a probability of {N} or less, no more often than one drawn at "
     r"random .*",
     false_ones),
    (rf"How many of the {N} are false is not known: Shah and Samworth's bound, {N} expected at "
     r"most, is no smaller than their number\.", false_unknown),
]  # fmt: skip


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("method", METHODS)
def test_every_number_is_what_the_arrays_give(method, table):
    frame = TABLES[table]
    model = METHODS[method].fit(frame)
    checked = Checked(model, frame)
    said = reading(checked.found)
    assert said
    for sentence in said:
        checked.check(sentence)


@pytest.mark.parametrize("method", ["fdrpca", "gsppca", "sca", "empca", "panel free"])
def test_every_number_of_chance_and_halves(method):
    frame = TABLES["wine"]
    model = METHODS[method].fit(frame)
    doubts = Doubts(
        permutation_null(model, frame, 2, random_state=0),
        stability_selection(model, frame, 4, random_state=0),
    )
    checked = Checked(model, frame, *doubts)
    said = reading(checked.found, doubts=doubts)
    if doubts.chance.telling and not doubts.chance.nothing_more:
        assert "would be by chance" in said[0]
    for sentence in said:
        checked.check(sentence)


def test_every_number_of_a_regression():
    data = make_sparse_regression(80, 15, random_state=0)
    frame = pd.DataFrame(data.X, columns=[f"v{k}" for k in range(15)])
    model = SpinyRegressor().fit(frame, data.y)
    doubts = Doubts(
        permutation_null(model, frame, 3, y=data.y, random_state=0),
        stability_selection(model, frame, 6, y=data.y, random_state=0),
    )
    checked = Checked(model, frame, *doubts)
    for sentence in reading(checked.found, doubts=doubts):
        checked.check(sentence)


def test_every_number_of_classes():
    """The mean is over all shuffled tables, also over those of which nothing is selected."""
    rng = np.random.default_rng(5)
    frame = pd.DataFrame(rng.normal(size=(40, 30)), columns=[f"v{k}" for k in range(30)])
    y = (2 * frame["v0"].to_numpy() + rng.normal(size=40) > 1.5).astype(int)
    model = SpinyClassifier().fit(frame, y)
    doubts = Doubts(permutation_null(model, frame, 10, y=y, random_state=0))
    none = doubts.chance.counts == 0
    assert 0 < none.sum() < 10
    assert np.all(doubts.chance.chance_held[none] >= max(y.mean(), 1 - y.mean()))
    checked = Checked(model, frame, *doubts)
    said = doubts.chance.summary()
    for sentence in said:
        checked.check(sentence)
    assert "whether or not it selects variables" in said[1]


def tables_of_noise_and_not():
    """Ten tables of measurements, and the same with every column shuffled on its own."""
    rng = np.random.default_rng(0)
    cancer = load_breast_cancer().data
    real = {
        "wine": load_wine().data,
        "wine, first half": load_wine().data[::2],
        "diabetes": load_diabetes().data[:200],
        "diabetes, rest": load_diabetes().data[200:],
        "cancer, means": cancer[:150, :10],
        "cancer, errors": cancer[150:300, 10:20],
        "cancer, worst": cancer[300:450, 20:],
        "simulated": SIMULATED,
        "wide": make_globally_sparse(30, 60, n_components=4, n_informative=30, random_state=1).X,
        "blood": load_diabetes().data[::3, 4:],
    }
    for name, table in real.items():
        yield name, table, rng.permuted(table, axis=0)


NOTHING = ("None of the", "No common structure")


@pytest.mark.parametrize("kind", ["fdrpca", "gsppca"])
def test_headlines_of_ten_tables_and_of_ten_shuffled_ones(kind):
    for name, table, noise in tables_of_noise_and_not():
        for X, nothing in ((table, False), (noise, True)):
            model = FDRPCA() if kind == "fdrpca" else GSPPCA(2, scale=True)
            model.fit(X)
            # of four, which vary by chance, the limit is beyond what the simulated table holds
            chance = permutation_null(model, X, 12, random_state=1) if kind == "gsppca" else None
            said = reading(findings_of(model), doubts=Doubts(chance))[0]
            assert said.startswith(NOTHING) == nothing, (name, nothing, said, chance)


def test_every_number_of_the_terminal(tmp_path, monkeypatch):
    """The short table of the command says what the page does, of the same arrays."""
    typer_testing = pytest.importorskip("typer.testing")
    pytest.importorskip("pyarrow")
    from prosparse import load
    from prosparse.app.cli import app
    from prosparse.persistence import load_with_about
    from prosparse.stability import PermutationNull, Stability

    monkeypatch.chdir(tmp_path)
    frame = TABLES["wine"].sample(frac=1.0, random_state=0)
    frame.to_csv("wine.csv", index=False)
    arguments = ["select", "wine.csv", "--method", "gsppca", "--scale", "--stability", "4"]
    result = typer_testing.CliRunner().invoke(app, arguments, env={"COLUMNS": "2000"})
    assert result.exit_code == 0, result.output
    lines = [line.strip() for line in result.stdout.splitlines()]
    rows = dict(re.split(r"\s{2,}", line, maxsplit=1) for line in lines)
    model = load("wine-prosparse/model.prosparse")
    about = load_with_about("wine-prosparse/model.prosparse")[1]["about"]
    chance = PermutationNull.from_json(about["permutation_null"])
    stability = Stability.from_json(about["stability"], list(frame.columns))
    checked = Checked(model, frame, chance, stability)
    assert rows["table"] == "wine.csv, 178 rows, 13 variables"
    assert rows["method"] == f"GSPPCA, {model.n_components_} components"
    assert rows["selected"] == (
        f"{model.n_selected_} of 13; {chance.by_chance} would be by chance"
    )
    assert rows["explained variance"] == percent(float(np.sum(model.explained_variance_ratio_)))
    checked.check(f"Why {model.n_selected_}: {rows['reason']}.")
    checked.check(rows["similar sizes"])
    for key in ("null datasets", "stability"):
        for sentence in re.split(r"(?<=\.) (?=[A-Z\d])", rows[key]):
            checked.check(sentence)
    order = checked.ranked(np.flatnonzero(model.support_))
    assert rows["most relevant"] == ", ".join(quoted(frame.columns[k]) for k in order[:8])
