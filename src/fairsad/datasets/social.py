"""The format that Pokec and NBA are published in: a table of users, and pairs of user ids."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fairsad.datasets.base import Card, Dataset, IntArray, Table
from fairsad.errors import DataError

if TYPE_CHECKING:
    from fairsad.data.splits import Split

logger = logging.getLogger(__name__)


class SocialNetwork(Dataset):
    """Users with a partly known label, and who is linked to whom.

    Args:
        card: With two files: the users (csv with ``user_id``), and their links (two ids a row, tab between them).
        train_cap: Training nodes at most.
        sensitive_position: Column of x that the sensitive attribute must end up in.
    """

    def __init__(self, card: Card, *, train_cap: int, sensitive_position: int) -> None:
        super().__init__(card)
        self.train_cap = train_cap
        self.sensitive_position = sensitive_position

    def read(self, files: Mapping[str, Path]) -> Table:
        """Read users and links; label -1 stays unlabelled, and above 1 becomes 1."""
        import pandas as pd

        card = self.card
        users_path, links_path = (files[file.path] for file in card.files)
        users = pd.read_csv(users_path)
        features = users.drop(columns=["user_id", card.label])
        position = list(features.columns).index(card.sensitive)
        if position != self.sensitive_position:
            raise DataError(
                f"{users_path}: {card.sensitive!r} is column {position} of the features, expected "
                f"{self.sensitive_position}. The columns were moved; fetch the published file again."
            )
        ids = users["user_id"].to_numpy(dtype=np.int64)
        return Table(
            features=features,
            y=np.clip(users[card.label].to_numpy(dtype=np.int64), -1, 1),
            sensitive=users[card.sensitive].to_numpy(dtype=np.int64),
            edges=self._links(links_path, ids),
            node_ids=ids,
        )

    def _links(self, path: Path, ids: IntArray) -> IntArray:
        import pandas as pd

        pairs = pd.read_csv(path, sep="\t", header=None, dtype=np.int64).to_numpy()
        numbers = pd.Index(ids).get_indexer(pd.Index(pairs.ravel())).reshape(pairs.shape)
        edges: IntArray = numbers[numbers.min(axis=1) >= 0].astype(np.int64)
        if len(edges) < len(pairs):
            dropped = len(pairs) - len(edges)
            logger.info("%s: %d of %d links name an unknown user and are dropped", path, dropped, len(pairs))
        return edges.T

    def split(self, table: Table, seed: int) -> Split:
        """Half of the labelled nodes, but ``train_cap`` at most, trains; a quarter validates; a quarter tests."""
        from fairsad.data.splits import split_labelled

        return split_labelled(table.y, seed=seed, train_cap=self.train_cap, test_known=table.sensitive >= 0)
