"""NBA: basketball players, what they earn, and who is linked to whom."""

from __future__ import annotations

from fairsad.data.download import RemoteFile, github_urls
from fairsad.datasets.base import Card, Counts
from fairsad.datasets.social import SocialNetwork

REPOSITORY = ("EnyanDai/FairGNN", "13cdca7627d7779a2396299cdc8edd3a790db7cc")

CARD = Card(
    name="nba",
    title="403 basketball players of the NBA, linked by their relations on Twitter",
    source=(
        "Player statistics from Kaggle (Social Power NBA, season 2016-17) and links from Twitter, put together by Dai "
        "and Wang (2021), github.com/EnyanDai/FairGNN"
    ),
    licence="not stated",
    licence_note="No licence was found with the published files.",
    citation=(
        "E. Dai, S. Wang, Say No to the Discrimination: Learning Fair Graph Neural Networks with Limited Sensitive "
        "Attribute Information, WSDM 2021, doi:10.1145/3437963.3441752."
    ),
    label="SALARY",
    label_names=("salary up to the median", "salary above the median"),
    label_meaning="-1 in the published table is unlabelled and stays so.",
    sensitive="country",
    sensitive_values=("0", "1"),
    sensitive_meaning=(
        "US or overseas player; the publisher does not say which number is which. The 107 of 403 players with 1 are "
        "about the share of players from overseas in that season."
    ),
    features="All columns but user_id and the label.",
    links="A relation on Twitter, taken as mutual.",
    scaled=True,
    counts=Counts(nodes=403, edges=10621, features=96, classes=(154, 159), groups=(296, 107)),
    caveats=(
        "The FairGNN experiments choose a model on the nodes they test on. Here validation and test are apart, as for "
        "Pokec: 100 training nodes at most, and a quarter of the labelled nodes each to validate and to test.",
        "About 80 test nodes: expect wide intervals.",
    ),
    files=(
        RemoteFile(
            path="nba/nba.csv",
            size=128489,
            sha256="fe295195cff01f20b785fe9de1e24062123cb146bdae080ce8b3ea8315d45b80",
            urls=github_urls(*REPOSITORY, "dataset/NBA/nba.csv", size=128489),
        ),
        RemoteFile(
            path="nba/nba_relationship.txt",
            size=325785,
            sha256="14c73245e5d6b6457cce7504e2bb0ded6b81155e25bf0e7d23793df7c01b4873",
            urls=github_urls(*REPOSITORY, "dataset/NBA/nba_relationship.txt", size=325785),
        ),
    ),
)

DATASETS = (SocialNetwork(CARD, train_cap=100, sensitive_position=35),)
