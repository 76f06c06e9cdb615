"""A saved classifier as a model of MLflow's: what a table of images goes in and what table comes out.

MLflow loads the model by the name of this module, so that it holds no code and no pickle: the folder that
`Classifier.save` wrote, and a description. taxtune has to be installed where it is served.
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
from taxtune.classifier.classifier import COLUMNS, read_saved
from taxtune.data.context import EXIF, Variable
from taxtune.data.images import MAX_PIXELS, count_pixels
from taxtune.errors import ImageError, ModelError
from taxtune.models import check_model
from taxtune.models.local import LocalModel
from taxtune.progress import note
from taxtune.settings import SPREAD, LocalVLMSettings, VLMSettings

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
#: Images after which a large request lets others be answered, and the seconds that they have to begin.
_AT_ONCE, _PAUSE = 16, 0.001
_LONGEST_PATH, _SHOWN = 4096, 80


def read_image(text: str, *, content_only: bool = False) -> Path | bytes:
    """Reads how a request names an image: by its content (in base64 or as a data: address), or by its path.

    With `content_only`, whoever may send requests can have no file of the server read.

    Raises:
        ImageError: If it is none of them, or larger than `MAX_BYTES`.
    """
    head, comma, rest = text.partition(",")
    is_data = head[:5].lower() == "data:"
    try:
        if is_data and comma and not head.lower().endswith(";base64"):
            content = unquote_to_bytes(rest)
        else:
            content = base64.b64decode("".join((rest if is_data else text).split()), validate=True)
    except (binascii.Error, ValueError):
        content = b""
    # A JPEG in base64 begins with "/9j/", as a path may.
    if not (content_only or is_data) and (
        not content or (len(text) <= _LONGEST_PATH and Path(text).exists())
    ):
        return Path(text)
    if not content:
        remedy = "Send the content of the image in base64, or as a data: address."
        raise ImageError(
            "The text is not an image file in base64.", value=text[:_SHOWN], remedy=remedy
        )
    if len(content) > MAX_BYTES:
        message = f"The image file has more than {MAX_BYTES // 1024**2} MB."
        raise ImageError(message, value=text[:_SHOWN], remedy="Send a smaller one.")
    return content


class ServedClassifier:
    """A classifier that takes a table and returns one; safe to call from several threads, which it serves in turn.

    With `content_only` it takes images as content only, not as paths.
    """

    def __init__(self, classifier: Classifier, *, content_only: bool = False) -> None:
        self._classifier, self._content_only = classifier, content_only
        self._lock = threading.Lock()

    def get_raw_model(self) -> Classifier:
        """Returns the classifier; MLflow's name for it."""
        return self._classifier

    def load(self) -> None:
        """Loads what the first image would otherwise have to wait for, by asking about a grey square.

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
        """Places images on the tree, one row per image in the order given, with the columns `COLUMNS` and `nodes`.

        `model_input` is a data frame with a column `image`, and those that the classifier needs, or texts: see
        `read_image`; MLflow passes `params`.

        Raises:
            DataError: If columns are missing, or a cell cannot be used.
            MlflowException: If the model cannot answer at all. An image that cannot be read has a `failure` instead.
        """
        import pandas as pd
        from mlflow.exceptions import MlflowException
        from mlflow.protos.databricks_pb2 import TEMPORARILY_UNAVAILABLE

        try:
            if hasattr(model_input, "columns"):
                cells = model_input.drop(columns=_INPUT).to_dict("records")
                rows = self.rows(list(model_input[_INPUT]), cells)
            else:
                rows = self.rows(list(model_input))
        except ModelError as error:
            # What MLflow's server passes on; of other errors it says that something is wrong inside.
            raise MlflowException(str(error), error_code=TEMPORARILY_UNAVAILABLE) from error
        # As objects: pandas would turn what is missing into NaN, which JSON does not know.
        return pd.DataFrame(rows, columns=[*COLUMNS, "nodes"], dtype=object).astype(
            {"off_tree": bool, "not_subject": bool}
        )

    def rows(
        self, given: Sequence[Any], cells: Sequence[Mapping[str, Any]] = ()
    ) -> list[dict[str, Any]]:
        """Places images (texts, see `read_image`, or bytes of files) on the tree: one `Classification.as_row` each.

        `cells` are what is known of each image, by column.

        Raises:
            DataError: If columns are missing, or a cell cannot be used.
            ModelError: If the model cannot answer at all, or answers about none of the images now.
        """
        import pandas as pd

        found: dict[int, Classification] = {}
        images: dict[int, Path | bytes] = {}
        for i, one in enumerate(given):
            try:
                images[i] = (
                    one
                    if isinstance(one, bytes)
                    else read_image(str(one), content_only=self._content_only)
                )
            except ImageError as error:
                # Whoever sends content knows it, and need not get it back.
                name, reason = str(one)[:200], str(error)
                if self._content_only:
                    name, reason = f"image {i + 1}", f"{error.message} {error.remedy or ''}".strip()
                found[i] = Classification(name, failure=reason)
        table = pd.DataFrame([*cells] or None, index=range(len(given)), dtype=object)
        for some in few_at_once(images):
            with self._lock:
                asked_about = table.iloc[some].assign(
                    image=pd.Series({i: images[i] for i in some}, dtype=object)
                )
                found |= zip(some, self._classifier.classify(asked_about), strict=True)
            time.sleep(_PAUSE)
        asked = [found[i] for i in images]
        if asked and all(one.again for one in asked):
            raise ModelError(f"The model does not answer: {asked[0].failure}")
        return [found[i].as_row() for i in range(len(given))]


def few_at_once(images: Mapping[int, Path | bytes]) -> Iterator[list[int]]:
    """Yields the keys of images in groups, with the pixels of one large photo where there are several in a group."""
    group: list[int] = []
    pixels = 0
    for key, image in images.items():
        more = count_pixels(image)
        if group and (len(group) == _AT_ONCE or pixels + more > MAX_PIXELS):
            yield group
            group, pixels = [], 0
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
    """The arguments that MLflow's `pyfunc.log_model` takes of the folder that `Classifier.save` wrote.

    There is no example among them, which MLflow would try at once.
    """
    from mlflow.models import ModelSignature
    from mlflow.types import Schema

    saved = read_saved(classifier)
    return {
        "loader_module": __name__,
        "data_path": str(classifier),
        "signature": ModelSignature(Schema(_columns(saved.context))),
        "pip_requirements": requirements(saved.vlm),
        "model_config": {"content_only": False},
    }


def _columns(context: Sequence[Variable]) -> list[Any]:
    from mlflow.types import ColSpec, DataType
    from mlflow.types.schema import Array

    kinds = {"text": DataType.string, "number": DataType.double, "list": Array(DataType.string)}
    wanted = [each for each in context if each.column not in EXIF]
    return [
        ColSpec(DataType.string, _INPUT),
        *(ColSpec(kinds[v.kind], v.column, required=False) for v in wanted),
    ]


def requirements(vlm: VLMSettings) -> list[str]:
    """The packages whose version can change an answer, in the versions that are installed here."""
    if not isinstance(vlm, LocalVLMSettings):
        own, names = "taxtune", ["mlflow", "litellm"]
    else:
        extras = ["quantized"] if vlm.quantization else []
        extras += ["sharded"] if vlm.device in SPREAD else []
        own = f"taxtune[{','.join(extras)}]" if extras else "taxtune"
        names = ["mlflow", "torch", "torchvision", "transformers"]
    return [f"{own}=={version('taxtune')}", *(f"{name}=={version(name)}" for name in names)]


def _grey() -> bytes:
    from PIL import Image

    buffer = io.BytesIO()
    Image.new("RGB", (64, 64), (128, 128, 128)).save(buffer, "PNG")
    return buffer.getvalue()
