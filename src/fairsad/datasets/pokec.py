"""Pokec-z and Pokec-n: two samples of a Slovak social network."""

from __future__ import annotations

from fairsad.data.download import RemoteFile, github_urls
from fairsad.datasets.base import Card, Counts
from fairsad.datasets.social import SocialNetwork

REPOSITORY = ("EnyanDai/FairGNN", "13cdca7627d7779a2396299cdc8edd3a790db7cc")
# Another public repository with these files, in case the first one goes; what comes is checked all the same.
COPY = ("ziyizhang9/GRAFair", "73f869122b11b03800765cc74f29027a061476da")


def _published(name: str, size: int, git_blob: str) -> RemoteFile:
    path = f"dataset/pokec/{name}"
    return RemoteFile(
        path=f"pokec/{name}",
        size=size,
        git_blob=git_blob,
        urls=(*github_urls(*REPOSITORY, path, size=size), github_urls(*COPY, path, size=size)[0]),
    )


def _card(letter: str, counts: Counts, paper: Counts, files: tuple[RemoteFile, RemoteFile]) -> Card:
    return Card(
        name=f"pokec-{letter}",
        title=f"{counts.nodes:,} users of a Slovak social network, linked by friendship",
        source=(
            "SNAP soc-Pokec (Takac and Zabovsky, 2012), sampled by province by Dai and Wang (2021), "
            "github.com/EnyanDai/FairGNN"
        ),
        licence="not stated",
        licence_note="No licence was found with the published files.",
        citation=(
            "L. Takac, M. Zabovsky, Data analysis in public social networks, 2012. E. Dai, S. Wang, Say No to the "
            "Discrimination: Learning Fair Graph Neural Networks with Limited Sensitive Attribute Information, "
            "WSDM 2021, doi:10.1145/3437963.3441752."
        ),
        label="I_am_working_in_field",
        label_names=("working field 0", "another working field"),
        label_meaning=(
            "The working field a user names. -1 in the published table is unlabelled and stays so; the fields 1 and "
            "above are class 1. The publisher does not name the fields."
        ),
        sensitive="region",
        sensitive_values=("0", "1"),
        sensitive_meaning="Two regions; the publisher does not say which number is which.",
        features="All columns but user_id and the label.",
        links="A friendship on the network, taken as mutual.",
        scaled=False,
        counts=counts,
        paper=paper,
        caveats=(
            "Users who name no working field have no label: they are part of the graph, and in no part of a split.",
            "Training nodes are drawn from all labelled nodes together, so the classes are not balanced.",
        ),
        files=files,
    )


POKEC_Z = _card(
    "z",
    counts=Counts(nodes=67796, edges=617958, features=277),
    paper=Counts(nodes=67796, edges=617958, features=277),
    files=(
        _published("region_job.csv", 38608131, "c50552a998e224f9ee214fff80c249fb5cf40bf9"),
        _published("region_job_relationship.txt", 11351174, "0b346e3a3d8f42b4eb489984cbc178f3988b0eeb"),
    ),
)
POKEC_N = _card(
    "n",
    counts=Counts(nodes=66569, edges=517047, features=266),
    paper=Counts(nodes=66569, edges=583616, features=266),
    files=(
        _published("region_job_2.csv", 36477998, "7f836f487358af4f0cbbb2b1204e41810a45cc74"),
        _published("region_job_2_relationship.txt", 10280603, "d0a0833805331cffb09a03820e70066990f15c10"),
    ),
)

DATASETS = (
    SocialNetwork(POKEC_Z, train_cap=4000, sensitive_position=3),
    SocialNetwork(POKEC_N, train_cap=3500, sensitive_position=3),
)
