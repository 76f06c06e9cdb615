"""Free text to a node of a taxonomy: `Mapper`.

`mapper.py` places an answer, stage by stage; start there. It uses, in the order of the work:

- `unwrap.py`: the text without its format (JSON, markdown, "A: ...", lists);
- `reading.py`: its phrases, each asserted, guessed, compared, context or denied, by the word lists in
  `english.py`;
- `naming.py`: the nodes that a phrase names, by what the tree's names say (`lexicon.py`, which
  looks up the tables that `index.py` learns); `normalize.py` folds plurals and spellings;
- `asserted.py`: the names in an answer that count; `resolve.py`: these to one node;
- `similarity.py`: how similar an answer is to each name; `paper.py`: the paper's Algorithm 1 to the
  letter.

`config.py` holds the settings and the result, `Placement`.
"""

from __future__ import annotations

from taxtune.mapping.config import MapperConfig, Placement, Placements, Stage
from taxtune.mapping.mapper import Mapper
from taxtune.mapping.similarity import Similarity, make_similarity

__all__ = [
    "Mapper",
    "MapperConfig",
    "Placement",
    "Placements",
    "Similarity",
    "Stage",
    "make_similarity",
]
