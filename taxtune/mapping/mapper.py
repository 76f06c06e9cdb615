"""Free text to a node of a taxonomy: Algorithm 1 of paper 1 (§6, §11), and a default that is better.

An answer goes through these stages until one decides:

1. what it asserts in so many words (`asserted`): stage *verbatim* where a whole phrase is a name, *head* where its last
   words are, *list* where several names are placed on their common ancestor;
2. *ngram*: the common ancestor of the nodes that share a word n-gram, n = 4, 3, 2, with it;
3. *vote*: where the most similar nodes are about equally similar, their deepest common ancestor with enough votes;
4. *similarity*: the most similar node, if it is similar enough;
5. *abstained*: the root.

An answer that declines or only denies ("I cannot tell", "not a duck") goes from 1 to 5. The preset `paper-listing`
runs the paper's listing to the letter instead (`listing`), which never abstains but on a blank answer.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from taxtune.mapping.asserted import asserted_node
from taxtune.mapping.config import MapperConfig, Placement, Stage
from taxtune.mapping.lexicon import Lexicon
from taxtune.mapping.listing import ListingMapper, softmax, top_k
from taxtune.mapping.normalize import fold_words
from taxtune.mapping.similarity import Similarity, make_similarity
from taxtune.mapping.words import SAYS_NOTHING
from taxtune.taxonomy.tree import Taxonomy
from taxtune.wordnet import find_wordnet

if TYPE_CHECKING:
    from PIL.Image import Image

__all__ = ["Mapper"]

#: Answers scored at once; bounds the memory of the similarity matrix.
_BATCH = 64
#: An answer of more words than this that names nothing is prose, for which n-grams and similarity only guess.
_MAX_GUESSED_WORDS = 8


class Mapper:
    """Places answers on the nodes of a taxonomy.

    Args:
        taxonomy: The tree.
        similarity: A `Similarity`, or the specification of one ("lexical", "sentence:MODEL", "clip:MODEL").
        config: The preset and its thresholds.
        device: Where an encoder runs: "auto", "cpu", "cuda", ...
        cache_dir: Where embeddings of names are kept; None is the user's cache folder.

    Raises:
        MapperError: If there is no such similarity.
        ModelError: If its model cannot be loaded.
    """

    def __init__(
        self,
        taxonomy: Taxonomy,
        similarity: str | Similarity = "lexical",
        config: MapperConfig | None = None,
        *,
        device: str = "auto",
        cache_dir: Path | None = None,
    ) -> None:
        self.taxonomy = taxonomy
        self.config = config or MapperConfig()
        self.similarity: Similarity = (
            make_similarity(similarity, device=device, cache_dir=cache_dir)
            if isinstance(similarity, str)
            else similarity
        )

    def place(self, answers: Sequence[str], images: Sequence[Image | None] | None = None) -> list[Placement]:
        """Returns one placement for each answer, in order.

        Args:
            answers: What a model said; a blank one is placed on the root as an abstention.
            images: The images that the answers are about, for a similarity that looks at them.

        Raises:
            MapperError: If the similarity needs images and one is missing.
        """
        if images is not None and len(images) != len(answers):
            raise ValueError(f"{len(answers)} answers, but {len(images)} images")
        texts = [str(answer or "") for answer in answers]
        if self.similarity.needs_images:
            given = images if images is not None else [None] * len(texts)
            return [self._place(text, image) for text, image in zip(texts, given, strict=True)]
        placed = {text: self._place(text, None) for text in dict.fromkeys(texts)}
        return [placed[text] for text in texts]

    def place_one(self, answer: str) -> Placement:
        """Returns the placement of one answer."""
        return self.place([answer])[0]

    def nearest(self, answers: Sequence[str], k: int = 10) -> list[list[tuple[int, float]]]:
        """Returns the k nodes most similar to each answer with their similarity, best first."""
        found = []
        for row in self.node_scores(answers):
            top = top_k(row, k)
            found.append(list(zip(top.tolist(), row[top].tolist(), strict=True)))
        return found

    def node_scores(self, answers: Sequence[str], images: Sequence[Image | None] | None = None) -> NDArray[np.float32]:
        """Returns the similarity of each answer to each node, shape (answers, nodes): the highest over its names."""
        starts = self._name_starts
        texts = [self._bounded(answer) for answer in answers]
        return np.maximum.reduceat(self.similarity.scores(texts, images), starts, axis=1)

    def place_scored(self, answer: str, row: NDArray[np.float32]) -> Placement:
        """Returns the placement of an answer whose similarity to every node is known, shape (nodes,)."""
        return self._decide(answer, lambda: row)

    def _place(self, answer: str, image: Image | None) -> Placement:
        images = None if image is None else [image]
        return self._decide(answer, lambda: self.node_scores([answer], images)[0])

    def _decide(self, answer: str, similarity: Callable[[], NDArray[np.float32]]) -> Placement:
        text = self._bounded(answer)
        if not any(character.isalnum() for character in text):
            return Placement(answer, self.taxonomy.root, Stage.ABSTAINED)
        if self.config.preset == "paper-listing":
            row = similarity()
            node, stage = self._listing.place(text, row, top_k(row, self.config.k))
            return Placement(answer, node, stage, evidence=text, confidence=float(row[node]))
        asserted = asserted_node(self._lexicon, text)
        if asserted.node is not None:
            return Placement(answer, asserted.node, asserted.stage, evidence=asserted.evidence)
        if not asserted.phrases:
            return Placement(answer, self.taxonomy.root, Stage.ABSTAINED)
        evidence = "; ".join(asserted.phrases.values())
        if sum(map(len, asserted.phrases)) <= _MAX_GUESSED_WORDS:
            guess = self._guess(list(asserted.phrases), similarity)
            if guess is not None:
                return Placement(answer, *guess[:2], evidence=evidence, confidence=guess[2])
        stage = Stage.ABSTAINED if asserted.declined else Stage.OFF_TREE
        return Placement(answer, self.taxonomy.root, stage, evidence=evidence)

    def identity(self) -> dict[str, str | int | float | None]:
        """Returns everything that can change a placement, for records: the similarity and the settings."""
        return {"similarity": self.similarity.name, **self.config.as_dict()}

    # -- guessing ------------------------------------------------------------------------------------------------------

    def _guess(
        self, phrases: Sequence[tuple[str, ...]], similarity: Callable[[], NDArray[np.float32]]
    ) -> tuple[int, Stage, float] | None:
        shared = self._by_ngram(phrases)
        if shared is not None:
            return shared, Stage.NGRAM, 0.5
        row = similarity()
        return self._by_similarity(row, top_k(row, self.config.k))

    def _by_ngram(self, phrases: Sequence[tuple[str, ...]]) -> int | None:
        """Returns what the nodes have in common that share the longest run of words with a phrase."""
        # Where sister nodes share their nouns, another word that they share tells little.
        lexicon = self._lexicon
        for n in (4, 3, 2) if lexicon.shares_heads or lexicon.latin else (4, 3, 2, 1):
            nodes: set[int] = set()
            for phrase in phrases:
                if len(phrase) == 1 or lexicon.is_noun(phrase):
                    continue  # a word that the tree lacks, and so a "jigsaw puzzle" on one of tools
                for gram in _telling_grams(phrase, n):
                    nodes.update(self._nodes_by_gram.get(gram, ()))
            common = self._lexicon.lifted(self._lexicon.common(nodes)) if nodes else 0
            if common:
                return common
        return None

    def _by_similarity(self, row: NDArray[np.float32], top: NDArray[np.int64]) -> tuple[int, Stage, float] | None:
        least = self.config.min_similarity
        if row[top[0]] < (self.similarity.confident if least is None else least):
            return None
        share = softmax(row[top])
        if len(top) > 1 and share[0] - share[1] < self.config.thr_top2 and share[0] - share[-1] < self.config.thr_topk:
            votes = np.bincount(
                np.concatenate([self.taxonomy.ancestors(v) for v in top.tolist()]), minlength=len(self.taxonomy)
            )
            elected = np.flatnonzero(votes >= self.config.thr_vote)
            if len(elected):
                node = int(max(elected.tolist(), key=lambda v: (self.taxonomy.depth[v], votes[v], row[v])))
                return node, Stage.VOTE, float(row[node])
        return int(top[0]), Stage.SIMILARITY, float(row[top[0]])

    def _bounded(self, answer: str) -> str:
        answer = answer.strip()
        if len(answer) <= self.config.max_characters:
            return answer
        kept = answer[: self.config.max_characters]
        return kept.rsplit(maxsplit=1)[0] if kept.strip() else ""

    # -- indexes, made when first needed ---------------------------------------------------------------------------

    @cached_property
    def _lexicon(self) -> Lexicon:
        return Lexicon(self.taxonomy, coverage=self.config.coverage, wordnet=find_wordnet())

    @cached_property
    def _listing(self) -> ListingMapper:
        return ListingMapper(self.taxonomy, self.config)

    @cached_property
    def _nodes_by_gram(self) -> dict[tuple[str, ...], set[int]]:
        index: dict[tuple[str, ...], set[int]] = defaultdict(set)
        for node in range(len(self.taxonomy)):
            for name in self.taxonomy.names(node):
                words = fold_words(name)
                for n in (4, 3, 2, 1):
                    for gram in _telling_grams(words, n):
                        index[gram].add(node)
        return dict(index)

    @cached_property
    def _name_starts(self) -> NDArray[np.int64]:
        """Where each node's names start in the list of all names, which the similarity learns here."""
        names = [self.taxonomy.names(node) for node in range(len(self.taxonomy))]
        self.similarity.fit([name for group in names for name in group])
        return np.cumsum([0] + [len(group) for group in names[:-1]])


def _telling_grams(words: Sequence[str], n: int) -> list[tuple[str, ...]]:
    """Returns the word n-grams of which at least two words, or one alone, tell something: not "black and"."""
    grams = [tuple(words[i : i + n]) for i in range(len(words) - n + 1)]
    return [gram for gram in grams if sum(word not in SAYS_NOTHING for word in gram) >= min(n, 2)]
