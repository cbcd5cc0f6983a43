"""Learns logistic regressions in an environment that has numpy and scipy: extract_learn.py FOLDER.

`problem.json` names the regressions. The examples are a sparse matrix: `features` has the numbers of the features of
all examples, and `pointers` the begin of each example. An example has a group and a kind. A feature that is
`crossed` may have one more weight for each kind. Each regression NAME has its own `NAME.labels` (-1 for examples to
leave out), `NAME.kinds` and `NAME.matters`. Writes `NAME.weights`, a row for all kinds and one for each kind,
and `NAME.scores` of all examples.
"""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from scipy.optimize import minimize

Values = Any  # of numpy and scipy, which the environment of the project lacks


def main(folder: Path) -> None:
    """Learn all regressions of a folder."""
    problem = json.loads((folder / "problem.json").read_text())

    def read(name: str, kind: Values) -> Values:
        return np.fromfile(folder / name, kind)

    features, pointers = read("features", np.int32), read("pointers", np.int64)
    shape = len(pointers) - 1, problem["features"]
    matrix = sparse.csr_matrix((np.ones(len(features), np.float32), features, pointers), shape)
    groups = read("groups", np.int32)
    crossed = np.flatnonzero(read("crossed", np.int8))
    for name in problem["regressions"]:
        kinds = read(f"{name}.kinds", np.int8)
        labels, matters = read(f"{name}.labels", np.int8), read(f"{name}.matters", np.float64)
        weights = np.zeros((1 + problem["kinds"], shape[1]))
        known = labels >= 0
        columns = common(matrix[known], groups[known], problem["min_groups"])
        parts, places = [matrix[:, columns]], [(0, columns)]
        allowed = np.intersect1d(columns, crossed)
        for kind in range(problem["kinds"] if len(allowed) else 0):
            within = known & (kinds == kind)
            if within.any():
                chosen = allowed[common(matrix[within][:, allowed], groups[within], problem["min_groups"])]
                only = sparse.diags((kinds == kind).astype(np.float32))
                parts.append((only @ matrix[:, chosen]).tocsr())
                places.append((1 + kind, chosen))
        whole = sparse.hstack(parts).tocsr()
        rows = [row for row, chosen in places for _ in chosen]
        stiffness = np.where(
            np.array(rows) == 0, problem["stiffness"], problem["stiffness"] * problem["kind_stiffness"]
        )
        found = learn(whole[known], labels[known], matters[known] / matters[known].mean(), stiffness)
        for (row, chosen), part in zip(
            places, np.split(found, np.cumsum([len(of) for _, of in places])[:-1]), strict=True
        ):
            weights[row, chosen] = part
        weights.tofile(folder / f"{name}.weights")
        (whole @ found).astype(np.float64).tofile(folder / f"{name}.scores")


def common(matrix: Values, groups: Values, least: int) -> Values:
    """Return the features that occur in enough groups."""
    ones = np.ones(len(groups), np.float32)
    members = sparse.csr_matrix((ones, (groups, np.arange(len(groups)))), (groups.max(initial=0) + 1, len(groups)))
    return np.flatnonzero(np.asarray(((members @ matrix) > 0).sum(0)).ravel() >= least)


def learn(matrix: Values, labels: Values, matters: Values, stiffness: Values) -> Values:
    """Return the weights of a logistic regression. `stiffness` keeps a weight near zero if few examples ask for it."""
    transposed, signs = matrix.T.tocsr(), labels * 2.0 - 1

    def loss(weights: Values) -> tuple[float, Values]:
        margins = signs * (matrix @ weights)
        slopes = -matters * signs / (1 + np.exp(np.clip(margins, -50, 50)))
        cost = (matters * np.logaddexp(0, -margins)).sum() + 0.5 * (stiffness * weights**2).sum()
        return cost, transposed @ slopes + stiffness * weights

    start = np.zeros(matrix.shape[1])
    return minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": 60, "maxcor": 10}).x


if __name__ == "__main__":
    main(Path(sys.argv[1]))
