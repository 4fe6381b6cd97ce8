"""``fairsad predict``: use a saved model on a graph."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fairsad.cli.output import console


def predict(
    model: Annotated[Path, typer.Argument(help="Folder of a trained model.", show_default=False)],
    graph: Annotated[
        str, typer.Argument(help="What to predict on; a card may be without label and sensitive columns.")
    ],
    out: Annotated[Path, typer.Option("--out", help="Where to write: .csv or .parquet.", show_default=False)],
) -> None:
    """Predict every node of a graph: its id, the predicted label, the probability of each label.

    Example: `fairsad predict runs/german german --out predictions.csv`
    """
    import numpy as np
    import pandas as pd

    from fairsad.errors import DataError
    from fairsad.files import whole_file
    from fairsad.methods.base import Method
    from fairsad.sources import load_graph

    if out.suffix not in (".csv", ".parquet"):
        raise DataError(f"--out {out} has the ending {out.suffix!r}; expected .csv or .parquet.")
    fitted = Method.load(model)
    # A table is encoded as the training table was, and may then be without label and sensitive columns.
    encoding = fitted.facts_.encoding if graph.endswith(".toml") else None
    data = load_graph(graph) if encoding is None else load_graph(graph, encoding=encoding)
    probabilities = fitted.predict_proba(data)
    labels = np.asarray(fitted.facts_.label_names, dtype=object)
    ids = np.arange(data.num_nodes) if data.node_ids is None else data.node_ids
    frame = pd.DataFrame({"id": ids, "prediction": labels[fitted.predict(data)]})
    for number, label in enumerate(labels):
        frame[f"probability_{label}"] = probabilities[:, number]
    with whole_file(out) as partial:
        if out.suffix == ".csv":
            frame.to_csv(partial, index=False)
        else:
            frame.to_parquet(partial, index=False)
    console.print(f"{len(frame)} predictions written to {out}", highlight=False)
