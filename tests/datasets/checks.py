"""What the tests of the datasets share: reading published links, counting a split, and a small Pokec."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from fairsad.data.download import RemoteFile
from fairsad.datasets.base import Counts
from fairsad.datasets.pokec import POKEC_Z
from fairsad.datasets.social import SocialNetwork
from fairsad.graph import FairGraph

Links = set[tuple[int, int]]


def undirected(pairs: Iterable[tuple[int, int]]) -> Links:
    """Each link once, from the smaller to the larger number, without self-loops."""
    return {(i, j) if i < j else (j, i) for i, j in pairs if i != j}


def links_of(graph: FairGraph) -> Links:
    """The undirected links of a graph."""
    return undirected(zip(*graph.edge_index.tolist(), strict=True))


def published_links(path: Path) -> Links:
    """The undirected links of a published edge file, which has numbers such as 3.597000000000000000e+03."""
    with path.open() as lines:
        return undirected((int(float(i)), int(float(j))) for i, j in map(str.split, lines))


def split_counts(graph: FairGraph) -> dict[str, tuple[list[int], list[int]]]:
    """For each part: nodes of each group, and those of class 1 among them."""
    counts = {}
    for part in ("train", "val", "test"):
        mask = graph.mask(part)
        rows = list(zip(graph.sensitive[mask, 0].tolist(), graph.y[mask].tolist(), strict=True))
        groups = [[y for s, y in rows if s == group] for group in (0, 1)]
        counts[part] = ([len(group) for group in groups], [sum(group) for group in groups])
    return counts


@dataclass(frozen=True)
class SmallPokec:
    """A dataset of a few users in exactly the published format, and what is in its files."""

    dataset: SocialNetwork
    users: list[dict[str, str]]
    pairs: list[tuple[int, int]]


COLUMNS = [
    "user_id",
    "public",
    "completion_percentage",
    "gender",
    "region",
    "AGE",
    "I_am_working_in_field",
    "anglicky",
    "nemecky",
]


def write_small_pokec(folder: Path, *, count: int = 60, train_cap: int = 12) -> SmallPokec:
    """Write ``pokec/region_job.csv`` and its links below a folder, as they are published."""
    chance = np.random.default_rng(3)
    ids = chance.permutation(np.arange(1, 10 * count))[:count]
    users = []
    for number, user in enumerate(ids):
        values = [user, *chance.integers(0, [2, 90, 2, 2]), chance.integers(15, 60), number % 6 - 1]
        values += chance.integers(0, 2, size=2).tolist()
        users.append(dict(zip(COLUMNS, map(str, values), strict=True)))
        users[-1]["gender"] += ".0"
        users[-1]["AGE"] += ".0"
    pairs = [(int(i), int(j)) for i, j in chance.choice(ids, size=(3 * count, 2))]
    pairs += [(j, i) for i, j in pairs[:20]]
    pairs += [(int(ids[0]), 10**9), (10**9, int(ids[1]))]  # links to somebody who is not in the table

    texts = {
        "pokec/region_job.csv": "\n".join([",".join(COLUMNS), *(",".join(user.values()) for user in users)]) + "\n",
        "pokec/region_job_relationship.txt": "".join(f"{i}\t{j}\n" for i, j in pairs),
    }
    files = []
    for path, text in texts.items():
        content = text.encode()
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
        blob = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
        files.append(RemoteFile(path, len(content), (f"http://nowhere.invalid/{path}",), git_blob=blob))

    known = {int(user) for user in ids}
    different = undirected(pair for pair in pairs if known >= set(pair))
    counts = Counts(nodes=count, edges=len(different), features=len(COLUMNS) - 2)
    card = replace(POKEC_Z, counts=counts, files=tuple(files))
    return SmallPokec(SocialNetwork(card, train_cap=train_cap, sensitive_position=3), users, pairs)
