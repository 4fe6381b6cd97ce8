"""Credit: holders of credit cards in Taiwan, and whether they paid their next bill."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fairsad.data.download import RemoteFile, github_urls
from fairsad.datasets.base import Card, Counts, Dataset, Table

if TYPE_CHECKING:
    from fairsad.data.splits import Split

THRESHOLD = 0.7
NODES = RemoteFile(
    path="credit/credit.csv",
    size=1152844,
    sha256="5d7a93f25a09dd1648c78b5e0c6a883ca832ee88259d89dfe1062e8c848bfe5d",
    urls=github_urls(
        "chirag-agarwall/nifty",
        "6c270c5ec736c5138d455609112cf6dfcc63dcca",
        "dataset/credit/credit.csv",
        size=1152844,
    ),
)

CARD = Card(
    name="credit",
    title="30,000 holders of credit cards in Taiwan, linked where they spend and pay alike",
    source=(
        "Default of Credit Card Clients, UCI Machine Learning Repository, doi:10.24432/C55S3H; recoded and made a "
        "graph by Agarwal et al. (2021), github.com/chirag-agarwall/nifty"
    ),
    licence="CC BY 4.0",
    licence_note="That is the source's; the publishing repository is under the MIT licence.",
    citation=(
        "I-C. Yeh, C. Lien, The comparisons of data mining techniques for the predictive accuracy of probability of "
        "default of credit card clients, Expert Systems with Applications 36(2), 2009. C. Agarwal, H. Lakkaraju, "
        "M. Zitnik, Towards a Unified Framework for Fair and Stable Graph Representation Learning, UAI 2021."
    ),
    label="NoDefaultNextMonth",
    label_names=("default", "no default"),
    label_meaning="Whether next month's bill was paid. The favourable outcome is class 1.",
    sensitive="Age",
    sensitive_values=("25 or older", "under 25"),
    sensitive_meaning=(
        "The papers say 'age' only. Group 1 has 2,685 people, as many as are 21 to 24 years old in the source table."
    ),
    features="All columns but the label and Single (nearly the opposite of Married).",
    links="Similarity above 0.7 of the nearest neighbour's, over the 13 features as they are.",
    scaled=True,
    counts=Counts(nodes=30000, edges=137377, features=13, classes=(6636, 23364), groups=(27315, 2685)),
    paper=Counts(nodes=30000, edges=1436858, features=13),
    caveats=(
        "The paper's 1,436,858 edges are not in the published edge file, which holds 200,526 directed rows.",
        "Of the nodes, 77.9 % are of class 1: predicting 'no default' for everyone has accuracy 77.9 and F1 "
        "87.6 on the test part, with no gap at all.",
    ),
    files=(NODES,),
)


class Credit(Dataset):
    """The published node table; the links are rebuilt from it and kept."""

    def read(self, files: Mapping[str, Path]) -> Table:
        """Read the table and link its rows."""
        import pandas as pd

        from fairsad.datasets.derived import rebuilt_edges

        nodes = pd.read_csv(files[NODES.path])
        features = nodes.drop(columns=["NoDefaultNextMonth", "Single"])
        return Table(
            features=features,
            y=nodes["NoDefaultNextMonth"].to_numpy(dtype=np.int64),
            sensitive=nodes["Age"].to_numpy(dtype=np.int64),
            edges=rebuilt_edges(
                "credit", features.to_numpy(dtype=np.float64), THRESHOLD, source_sha256=str(NODES.sha256)
            ),
        )

    def split(self, table: Table, seed: int) -> Split:
        """Half of each class, but 3,000 of each at most, trains; a quarter validates; a quarter tests."""
        from fairsad.data.splits import split_by_class

        return split_by_class(table.y, seed=seed, train_cap_per_class=3000)


DATASETS = (Credit(CARD),)
