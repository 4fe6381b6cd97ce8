"""Bail: people released from prison, and whether they returned."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fairsad.data.download import RemoteFile, github_urls
from fairsad.datasets.base import Card, Counts, Dataset, Table

if TYPE_CHECKING:
    from fairsad.data.splits import Split

THRESHOLD = 0.6
NODES = RemoteFile(
    path="bail/bail.csv",
    size=820405,
    sha256="11a7c62be2b7aed7cb069624789755d5f57acc8b69580564e2401b084e2d5faf",
    urls=github_urls(
        "chirag-agarwall/nifty",
        "6c270c5ec736c5138d455609112cf6dfcc63dcca",
        "dataset/bail/bail.csv",
        size=820405,
    ),
)

CARD = Card(
    name="bail",
    title="18,876 people released from prison, linked where they are alike",
    source=(
        "Published as a graph by Agarwal et al. (2021), github.com/chirag-agarwall/nifty, as bail defendants of US "
        "states in 1990-2009 (after Jordan and Freiburger, 2015). What the file holds are the columns, and in FOLLOW "
        "exactly the two cohorts of 9,327 and 9,549 releases, of Schmidt and Witte's study of North Carolina prisons, "
        "1978 and 1980 (ICPSR 8987)"
    ),
    licence="not stated",
    licence_note="The publishing repository is under the MIT licence and states none for the data in it.",
    citation=(
        "P. Schmidt, A. D. Witte, Predicting Recidivism in North Carolina, 1978 and 1980, ICPSR 8987. "
        "K. L. Jordan, T. L. Freiburger, The Effect of Race/Ethnicity on Sentencing, Journal of Ethnicity in Criminal "
        "Justice 13(3), 2015. C. Agarwal, H. Lakkaraju, M. Zitnik, Towards a Unified Framework for Fair and Stable "
        "Graph Representation Learning, UAI 2021."
    ),
    label="RECID",
    label_names=("no recidivism", "recidivism"),
    label_meaning="Whether a return to prison is recorded. The favourable outcome is class 0.",
    sensitive="WHITE",
    sensitive_values=("not white", "white"),
    sensitive_meaning="As the column says; the published files do not define it further.",
    features="All columns but the label.",
    links="Similarity above 0.6 of the nearest neighbour's, over the 18 features as they are.",
    scaled=True,
    counts=Counts(nodes=18876, edges=311870, features=18, classes=(11772, 7104), groups=(9317, 9559)),
    paper=Counts(nodes=18876, edges=321308, features=18),
    caveats=(
        "The features hold the answer: TIME, the months until the return, is above 0 for 7,081 of the 7,104 people of "
        "class 1 and for 91 of the 11,772 of class 0. The rule 'TIME > 0' alone is right for 99.4 % of all nodes, and "
        "the links are made from TIME too.",
        "PRIORS is -9 for 1,347 people, a code for a missing value that is used as a number.",
    ),
    files=(NODES,),
)


class Bail(Dataset):
    """The published node table; the links are rebuilt from it and kept."""

    def read(self, files: Mapping[str, Path]) -> Table:
        """Read the table and link its rows."""
        import pandas as pd

        from fairsad.datasets.derived import rebuilt_edges

        nodes = pd.read_csv(files[NODES.path])
        features = nodes.drop(columns="RECID")
        return Table(
            features=features,
            y=nodes["RECID"].to_numpy(dtype=np.int64),
            sensitive=nodes["WHITE"].to_numpy(dtype=np.int64),
            edges=rebuilt_edges(
                "bail", features.to_numpy(dtype=np.float64), THRESHOLD, source_sha256=str(NODES.sha256)
            ),
        )

    def split(self, table: Table, seed: int) -> Split:
        """Half of each class, but 50 of each at most, trains; a quarter validates; a quarter tests."""
        from fairsad.data.splits import split_by_class

        return split_by_class(table.y, seed=seed, train_cap_per_class=50)


DATASETS = (Bail(CARD),)
