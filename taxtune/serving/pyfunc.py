"""A saved classifier as a model of MLflow's, which takes a table of images and returns one of labels.

MLflow loads the model by the name of this module, so that it holds no code and no pickle: the folder
that `Classifier.save` wrote, and a description. taxtune has to be installed where it is served.
"""

from __future__ import annotations

import base64
import binascii
import io
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote_to_bytes

from taxtune.classifier import Classification, Classifier, load_classifier
from taxtune.classifier.classifier import BOX, COLUMNS
from taxtune.data.context import EXIF
from taxtune.errors import ImageError, ModelError
from taxtune.images import MAX_PIXELS, count_pixels
from taxtune.models import check_model
from taxtune.models.local import LocalModel
from taxtune.progress import note
from taxtune.settings import SPREAD, LocalVLMSettings, VLMSettings
from taxtune.tuning.saved import Saved, read_saved

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = [
    "MAX_BYTES",
    "ServedClassifier",
    "as_pyfunc",
    "few_at_once",
    "read_image",
    "requirements",
]

#: Of an image file; a photo of 50 megapixels has some 20 MB.
MAX_BYTES = 32 * 1024**2
_INPUT = "image"
#: How many images of a large request are answered before others have their turn.
_AT_ONCE = 16
#: Seconds that others have to begin.
_PAUSE = 0.001
_LONGEST_PATH = 4096
#: Characters of a refused text that the error shows.
_SHOWN = 80


def read_image(text: str, *, content_only: bool = False) -> Path | bytes:
    """Returns the image that a request names: its content, or its path.

    Args:
        text: The content of a file in base64 or as a data: address, or a path.
        content_only: Whether a path is refused, so that whoever may send requests can have no file
            of the server read.

    Raises:
        ImageError: If it is none of them, or larger than `MAX_BYTES`.
    """
    is_data = text[:5].lower() == "data:"
    content = _decode(text, is_data=is_data)
    may_be_path = not content_only and not is_data
    # A JPEG in base64 begins with "/9j/", as a path may.
    if may_be_path and (not content or (len(text) <= _LONGEST_PATH and Path(text).exists())):
        return Path(text)
    if not content:
        raise ImageError(
            "The text is not an image file in base64.",
            value=text[:_SHOWN],
            remedy="Send the content of the image in base64, or as a data: address.",
        )
    if len(content) > MAX_BYTES:
        message = f"The image file has more than {MAX_BYTES // 1024**2} MB."
        raise ImageError(message, value=text[:_SHOWN], remedy="Send a smaller one.")
    return content


def _decode(text: str, *, is_data: bool) -> bytes:
    """Returns the content that a text in base64 or a data: address has; empty if it has none."""
    head, comma, data = text.partition(",")
    encoded = data if is_data else text
    try:
        if is_data and comma and not head.lower().endswith(";base64"):
            return unquote_to_bytes(data)
        return base64.b64decode("".join(encoded.split()), validate=True)
    except (binascii.Error, ValueError):
        return b""


class ServedClassifier:
    """A classifier that takes a table of images and returns one of labels.

    It is safe to call from several threads, which it serves in turn.

    Args:
        classifier: The classifier.
        content_only: Whether images are taken as content only, not as paths.
    """

    def __init__(self, classifier: Classifier, *, content_only: bool = False) -> None:
        self._classifier = classifier
        self._content_only = content_only
        self._lock = threading.Lock()

    def get_raw_model(self) -> Classifier:
        """Returns the classifier; MLflow's name for it."""
        return self._classifier

    def load(self) -> None:
        """Loads what the first image would otherwise have to wait for: asks about a grey square.

        A model behind an API is not asked, since that may cost money.

        Raises:
            ModelError: If the model cannot be asked.
        """
        for text in check_model(self._classifier.model):
            note(text)
        if isinstance(self._classifier.model, LocalModel):
            import pandas as pd

            frame = pd.DataFrame({"image": [_grey()]}, dtype=object)
            self._classifier.classify(frame.assign(**dict.fromkeys(self._classifier.columns)))

    def predict(self, model_input: Any, params: Any = None) -> DataFrame:
        """Returns the labels of images: a row for each, in their order, with `COLUMNS` and `nodes`.

        Args:
            model_input: A data frame with a column `image` and those that the classifier needs, or
                texts; for the images see `read_image`.
            params: Not used; MLflow passes it.

        Raises:
            DataError: If columns are missing, or a cell cannot be used.
            MlflowException: If the model cannot answer at all. An image that cannot be read has a
                `failure` instead.
        """
        import pandas as pd
        from mlflow.exceptions import MlflowException
        from mlflow.protos.databricks_pb2 import TEMPORARILY_UNAVAILABLE

        images, cells = model_input, []
        if hasattr(model_input, "columns"):
            images = model_input[_INPUT]
            cells = model_input.drop(columns=_INPUT).to_dict("records")
        try:
            rows = self.rows(list(images), cells)
        except ModelError as error:
            # MLflow's server passes this one on; of other errors it says that something is wrong
            # inside.
            raise MlflowException(str(error), error_code=TEMPORARILY_UNAVAILABLE) from error
        # As objects: pandas would turn what is missing into NaN, which JSON does not know.
        frame = pd.DataFrame(rows, columns=[*COLUMNS, "nodes"], dtype=object)
        return frame.astype({"off_tree": bool, "not_subject": bool})

    def rows(
        self, given: Sequence[Any], cells: Sequence[Mapping[str, Any]] = ()
    ) -> list[dict[str, Any]]:
        """Returns the labels of images, one `Classification.as_row` each.

        Args:
            given: Texts, see `read_image`, or bytes of files.
            cells: What is known of each image, by column.

        Raises:
            DataError: If columns are missing, or a cell cannot be used.
            ModelError: If the model cannot answer at all, or answers about none of the images now.
        """
        import pandas as pd

        labelled: dict[int, Classification] = {}
        images: dict[int, Path | bytes] = {}
        for i, image in enumerate(given):
            try:
                if not isinstance(image, bytes):
                    image = read_image(str(image), content_only=self._content_only)
                images[i] = image
            except ImageError as error:
                labelled[i] = self._unreadable(i, str(image), error)
        table = pd.DataFrame([*cells] or None, index=range(len(given)), dtype=object)
        for keys in few_at_once(images):
            column = pd.Series({i: images[i] for i in keys}, dtype=object)
            with self._lock:
                answers = self._classifier.classify(table.iloc[keys].assign(image=column))
            labelled |= zip(keys, answers, strict=True)
            time.sleep(_PAUSE)
        asked = [labelled[i] for i in images]
        if asked and all(answer.again for answer in asked):
            raise ModelError(f"The model does not answer: {asked[0].failure}")
        return [labelled[i].as_row() for i in range(len(given))]

    def _unreadable(self, i: int, text: str, error: ImageError) -> Classification:
        # Whoever sends content knows it, and need not get it back.
        if self._content_only:
            reason = f"{error.message} {error.remedy or ''}".strip()
            return Classification(f"image {i + 1}", failure=reason)
        return Classification(text[:200], failure=str(error))


def few_at_once(images: Mapping[int, Path | bytes]) -> Iterator[list[int]]:
    """Yields the keys of images in groups; one of several has at most the pixels of a large photo."""
    group: list[int] = []
    pixels = 0
    for key, image in images.items():
        more = count_pixels(image)
        if group and (len(group) == _AT_ONCE or pixels + more > MAX_PIXELS):
            yield group
            group = []
            pixels = 0
        group.append(key)
        pixels += more
    if group:
        yield group


def _load_pyfunc(data_path: str, model_config: dict[str, Any] | None = None) -> ServedClassifier:
    """Loads the model; the name is MLflow's."""
    served = ServedClassifier(load_classifier(data_path), **(model_config or {}))
    served.load()
    return served


def as_pyfunc(classifier: Path) -> dict[str, Any]:
    """Returns the arguments of MLflow's `pyfunc.log_model` for a folder of `Classifier.save`.

    There is no example among them, which MLflow would try at once.
    """
    from mlflow.models import ModelSignature
    from mlflow.types import Schema

    saved = read_saved(classifier)
    return {
        "loader_module": __name__,
        "data_path": str(classifier),
        "signature": ModelSignature(Schema(_columns(saved))),
        "pip_requirements": requirements(saved.vlm),
        "model_config": {"content_only": False},
    }


def _columns(saved: Saved) -> list[Any]:
    from mlflow.types import ColSpec, DataType
    from mlflow.types.schema import Array

    types = {"text": DataType.string, "number": DataType.double, "list": Array(DataType.string)}
    columns = [ColSpec(DataType.string, _INPUT)]
    if saved.boxes is not None:
        columns.append(ColSpec(DataType.string, BOX, required=False))
    for variable in saved.context:
        if variable.column not in EXIF:
            columns.append(ColSpec(types[variable.kind], variable.column, required=False))
    return columns


def requirements(vlm: VLMSettings | None) -> list[str]:
    """Returns the packages that can change an answer, in the versions that are installed here."""
    extras = []
    names = ["mlflow", "litellm"]
    if isinstance(vlm, LocalVLMSettings):
        names = ["mlflow", "torch", "torchvision", "transformers"]
        if vlm.quantization:
            extras.append("quantized")
        if vlm.device in SPREAD:
            extras.append("sharded")
    own = f"taxtune[{','.join(extras)}]" if extras else "taxtune"
    return [f"{own}=={version('taxtune')}", *(f"{name}=={version(name)}" for name in names)]


def _grey() -> bytes:
    from PIL import Image

    buffer = io.BytesIO()
    Image.new("RGB", (64, 64), (128, 128, 128)).save(buffer, "PNG")
    return buffer.getvalue()
