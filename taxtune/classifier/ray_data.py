"""Millions of images through Ray Data: a finished run's classifier, mapped over a data set by actors that hold it."""

from __future__ import annotations

from os import PathLike
from typing import TYPE_CHECKING, Any

from taxtune.classifier.classifier import Classifier
from taxtune.classifier.loading import load_classifier
from taxtune.errors import DataError
from taxtune.execution.ray_actors import load_ray

if TYPE_CHECKING:
    import pyarrow
    import ray.data

__all__ = ["classify_dataset"]

_COLUMNS = ("image", "answer", "placement", "rank", "confidence", "off_tree", "not_subject", "failure")


def classify_dataset(
    dataset: ray.data.Dataset,
    run: str | PathLike[str] | Classifier,
    *,
    image: str = "image",
    batch_size: int = 128,
    workers: int | None = None,
) -> ray.data.Dataset:
    """Adds the labels that a run gives to the images of a data set; Ray computes them when it is read or written.

        files = ray.data.read_binary_files("s3://photos/", include_paths=True)
        taxtune.classify_dataset(files, "runs/birds", image="bytes").write_parquet("s3://labels/")

    Rows come in no particular order.

    Args:
        dataset: The data set, one row per image.
        run: The folder of a finished run, on this machine, or what `load_classifier` made of it. A model in a folder
            must be in the same place on every node.
        image: The column with the images: paths that every node can read, or the bytes of image files.
        batch_size: Images per call of a worker.
        workers: How many; by default one for each GPU, and where there is none one for each node.

    Returns:
        The other columns of the data set, and: image (the path, or the SHA-256 of the content), answer, placement (its
        path), rank, confidence, off_tree, not_subject, and failure: why an image has no answer.

    Raises:
        MissingExtraError: If Ray is not installed.
        DataError: If the data set has no such column, or one of the new columns already.
        TaxtuneError: If the run cannot be loaded.
    """
    load_ray()
    import ray
    import ray.data

    columns = dataset.columns() or []
    if image not in columns:
        raise DataError(f"The data set has no column {image!r}.", remedy=f"Its columns: {', '.join(columns)}.")
    taken = next((name for name in columns if name in _COLUMNS and name != image), None)
    if taken is not None:
        raise DataError(f"The data set has a column {taken!r} already.", remedy="Rename or drop it.")
    classifier = run
    if not isinstance(classifier, Classifier):
        classifier = load_classifier(classifier, settings={"execution.engine": "here"})
    gpus = ray.cluster_resources().get("GPU", 0.0)
    nodes = sum(bool(node["Alive"]) for node in ray.nodes())
    size = workers or int(gpus) or nodes
    # One copy for all, where the tree is large.
    return dataset.map_batches(
        _Labels,
        fn_constructor_args=(ray.put(classifier), image),
        compute=ray.data.ActorPoolStrategy(size=size),
        num_gpus=int(gpus > 0),
        batch_size=batch_size,
        batch_format="pyarrow",
    )


class _Labels:
    """An actor that holds a classifier, given by its reference in the object store."""

    def __init__(self, classifier: Any, image: str) -> None:
        import ray

        self._classifier: Classifier = ray.get(classifier)
        self._image = image

    def __call__(self, batch: pyarrow.Table) -> pyarrow.Table:
        import pyarrow as pa

        found = self._classifier.classify(batch.column(self._image).to_pylist())
        kept = {name: batch.column(name) for name in batch.column_names if name != self._image}
        types = {"confidence": pa.float64(), "off_tree": pa.bool_(), "not_subject": pa.bool_()}
        labels = {name: [getattr(one, name) for one in found] for name in _COLUMNS}
        return pa.table(
            kept | {name: pa.array(values, types.get(name, pa.string())) for name, values in labels.items()}
        )
