"""Free text to a node of a taxonomy: Algorithm 1 of paper 1 (§6, §11), and a default that does better.

The default reads an answer as a person would and guesses only where reading finds nothing:

1. what the answer asserts (`asserted`): stage *verbatim* where a whole phrase is a name, *head* where its last words
   are, *kind* where WordNet says that it is a kind of something on the tree, *list* where several names are placed on
   their common ancestor;
2. *ngram*: the common ancestor of the nodes that share a run of words with it;
3. *similarity*: with a sentence encoder, the most similar node, if it is similar enough, or
4. *vote*: where several nodes are about equally similar, their common ancestor;
5. the root: *off_tree* for an answer that asserts something else, *foreign* for one in another language, or *abstained*
   for one that asserts nothing.

Where a placement is doubtful, an *arbiter* may be asked to choose among the candidates of several readers.

The presets `paper-listing` and `paper-prose` follow the paper to the letter instead (`paper`); they abstain only on a
blank answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import NDArray

from taxtune.errors import MapperError
from taxtune.mapping import english
from taxtune.mapping.arbiter import Arbiter
from taxtune.mapping.asserted import Asserted, asserted_node
from taxtune.mapping.config import (
    CHOSEN,
    DOUBTFUL,
    NONE_OF_THESE,
    PAPER_PRESETS,
    Chooser,
    MapperConfig,
    Placement,
    Placements,
    Question,
    Stage,
)
from taxtune.mapping.hash_index import Multimap, MultimapBuilder, Part
from taxtune.mapping.index import stored
from taxtune.mapping.language import foreign_language
from taxtune.mapping.lexicon import Lexicon
from taxtune.mapping.normalize import fold_words, plain_or_raw
from taxtune.mapping.paper import PaperAlgorithm, top_k
from taxtune.mapping.similarity import Similarity, make_similarity
from taxtune.mapping.unwrap import unwrap
from taxtune.taxonomy.tree import Taxonomy
from taxtune.wordnet import WordNet, find_wordnet

if TYPE_CHECKING:
    from PIL.Image import Image

__all__ = ["Mapper"]

#: Answers scored at once, at most, and similarities of answers to nodes, which bound the memory: 128 MiB each copy.
_BATCH, _MAX_SCORES = 64, 2**25
#: A longer answer, in words, that names nothing is prose, about which n-grams and similarity can only guess.
_MAX_GUESSED_WORDS = 8
#: The longest runs of words that names and answers are compared by.
_LONGEST_GRAM = 4
#: Nodes whose similarity is this close to the best are about equally similar.
_ABOUT = 0.05

Row = NDArray[np.float32]


class Mapper:
    """Places answers on the nodes of a taxonomy.

    Args:
        taxonomy: The tree.
        similarity: A `Similarity`, or the specification of one ("lexical", "sentence:MODEL", "clip:MODEL").
        config: The preset and its thresholds.
        device: Where an encoder runs: "auto", "cpu", "cuda", ...
        cache_dir: Where embeddings of names and indexes of large trees are kept; None is the user's cache folder.
        arbiter: Chooses where reading is in doubt (a confidence below .75), such as a chat model: a
            `taxtune.models.arbiter.ChatArbiter`.

    Raises:
        MapperError: If there is no such similarity, or an arbiter has no confidence to go by.
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
        arbiter: Chooser | None = None,
    ) -> None:
        self.taxonomy = taxonomy
        self.config = config or MapperConfig()
        self.arbiter = arbiter
        if isinstance(similarity, str):
            similarity = make_similarity(similarity, device=device, cache_dir=cache_dir)
        self.similarity: Similarity = similarity
        #: The similarity above which the most similar node is believed; None for never.
        self._least = similarity.confident if self.config.min_similarity is None else self.config.min_similarity
        self._paper = self.config.preset in PAPER_PRESETS
        #: A text as the similarity sees it.
        self._compared: Callable[[str], str] = plain_or_raw if self._paper else str
        if arbiter is not None and (self._paper or similarity.needs_images):
            raise MapperError(
                "An arbiter reads answers alone, where the default preset is in doubt.",
                value=f"preset {self.config.preset}, similarity {similarity.name}",
                remedy="Leave the arbiter out, or use the preset default without a similarity of images.",
            )
        #: Where words that the tree lacks are looked up, if anywhere.
        self.wordnet: WordNet | None = find_wordnet() if self.config.wordnet and not self._paper else None
        self._cache_dir = cache_dir

    def __reduce__(self) -> tuple[object, ...]:
        """Returns the parts of a copy in another process, which finds WordNet and its indexes there."""
        make = partial(type(self), cache_dir=self._cache_dir, arbiter=self.arbiter)
        return make, (self.taxonomy, self.similarity, self.config)

    def place(self, answers: Sequence[str], images: Sequence[Image | None] | None = None) -> Placements:
        """Returns one placement for each answer, in order; a repeated answer is read only once.

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
            return self._place(texts, images or [None] * len(texts))
        distinct = list(dict.fromkeys(texts))
        placed = dict(zip(distinct, self._place(distinct, None), strict=True))
        if self.arbiter is not None:
            doubtful = [one for one in placed.values() if one.confidence is not None and one.confidence < DOUBTFUL]
            placed |= {one.answer: one for one in self._arbitrated(self.arbiter, doubtful)}
        return Placements(placed[text] for text in texts)

    def _place(self, answers: Sequence[str], images: Sequence[Image | None] | None) -> Placements:
        """Reads all answers, and computes the similarity to the names only of those that reading does not place."""
        read = [self._read(answer) for answer in answers]
        placed = {i: found for i, found in enumerate(read) if isinstance(found, Placement)}
        rest = [i for i in range(len(read)) if i not in placed]
        size = max(1, min(_BATCH, _MAX_SCORES // len(self.taxonomy)))
        for start in range(0, len(rest), size):
            batch = rest[start : start + size]
            texts = [found.unnamed if isinstance(found := read[i], Asserted) else answers[i] for i in batch]
            rows = self.node_scores(texts, images and [images[i] for i in batch])
            for i, row in zip(batch, rows, strict=True):
                placed[i] = self._guess(answers[i], read[i], row)
        return Placements(placed[i] for i in range(len(read)))

    def _read(self, answer: str) -> Placement | Asserted | None:
        """Returns the placement of an answer if reading settles it, or what to guess from (None: the paper's)."""
        text = self._bounded(answer)
        if self._paper:
            blank = not any(character.isalnum() for character in text)
            return self._placement(answer, self.taxonomy.root, Stage.ABSTAINED, "") if blank else None
        asserted = asserted_node(self._lexicon, unwrap(text))
        if asserted.node is not None:
            return self._placement(answer, asserted.node, asserted.stage, asserted.evidence)
        if 0 < sum(map(len, asserted.phrases)) <= _MAX_GUESSED_WORDS:
            shared = None if foreign_language(text) else self._by_ngram(asserted.phrases)
            if shared is not None:
                return self._placement(answer, shared, Stage.NGRAM, asserted.unnamed)
            if self._least is not None:
                return asserted
        return self._nowhere(answer, asserted)

    def _guess(self, answer: str, asserted: Asserted | Placement | None, row: Row) -> Placement:
        """Returns the placement of an answer by its similarity to the nodes, shape (nodes,)."""
        if isinstance(asserted, Placement):
            return asserted
        if asserted is None:
            text = self._bounded(answer)
            node, stage = self._algorithm.place(text, row, top_k(row, self.config.k))
            return self._placement(answer, node, stage, text, float(row[node]))
        best = float(row.max())
        # What is denied, or known to be another thing than the tree's, is not like anything on it.
        elsewhere = asserted.declined or all(map(self._lexicon.kinds.is_outside, asserted.phrases))
        if self._least is None or best < self._least or elsewhere:
            return self._nowhere(answer, asserted)
        near = np.flatnonzero(row >= best - _ABOUT)
        stage = Stage.SIMILARITY if len(near) == 1 else Stage.VOTE
        return self._placement(answer, self.taxonomy.common_ancestor(near), stage, asserted.unnamed)

    def _nowhere(self, answer: str, asserted: Asserted) -> Placement:
        if language := foreign_language(self._bounded(answer)):
            return self._placement(answer, self.taxonomy.root, Stage.FOREIGN, language)
        outside = [self._lexicon.kinds.is_outside(phrase) for phrase in asserted.phrases]
        # "There is no bird here: it is a dog" asserts a dog.
        says = any(outside) if asserted.declined else bool(outside)
        stage = Stage.OFF_TREE if says else Stage.ABSTAINED
        placed = self._placement(answer, self.taxonomy.root, stage, asserted.unnamed)
        return replace(placed, not_subject=asserted.rootless or (says and all(outside)))

    def _placement(
        self, answer: str, node: int, stage: Stage, evidence: str, confidence: float | None = None
    ) -> Placement:
        if confidence is None and not self._paper:
            confidence = self._arbiter.confidence(unwrap(self._bounded(answer)), node, stage)
        return Placement(answer, node, stage, evidence, confidence, self.taxonomy.path(node))

    def _arbitrated(self, arbiter: Chooser, doubtful: Sequence[Placement]) -> list[Placement]:
        """Returns placements as an arbiter chooses, which is asked about all at once; as they were where it does not.

        An answer of which it says that it asserts none of the candidates is off the tree, unless reading took it for
        an abstention.
        """
        nodes, settled = self.candidates(doubtful), []
        asked = [Question(self._bounded(one.answer), some) for one, some in zip(doubtful, nodes, strict=True)]
        choices = arbiter(self.taxonomy, asked) if asked else ()
        for one, some, choice in zip(doubtful, nodes, choices, strict=True):
            if choice is None:
                settled.append(one)
            elif choice not in (NONE_OF_THESE, *some):
                raise MapperError("The arbiter chose a node that is no candidate.", value=choice)
            elif choice == NONE_OF_THESE and one.node == self.taxonomy.root and (one.abstained or one.off_tree):
                settled.append(replace(one, confidence=CHOSEN))
            else:
                lowest = sorted({*some} - {int(self.taxonomy.parents[node]) for node in some})
                said = "; ".join(self.taxonomy.labels[node] for node in lowest)
                stage = Stage.OFF_TREE if choice == NONE_OF_THESE else Stage.ARBITER
                settled.append(self._placement(one.answer, max(choice, self.taxonomy.root), stage, said, CHOSEN))
        return settled

    # -- more questions ------------------------------------------------------------------------------------------------

    def place_one(self, answer: str) -> Placement:
        """Returns the placement of one answer."""
        return self.place([answer])[0]

    def place_scored(self, answer: str, row: Row) -> Placement:
        """Returns the placement of an answer whose similarity to every node is known, shape (nodes,)."""
        return self._guess(answer, self._read(answer), row)

    def node_scores(self, answers: Sequence[str], images: Sequence[Image | None] | None = None) -> Row:
        """Returns the similarity of each answer to each node, shape (answers, nodes): the highest over its names.

        Under the paper's presets answers and names are normalised before (paper 1, §6).
        """
        starts = self._name_starts
        texts = [self._compared(self._bounded(answer)) for answer in answers]
        return np.maximum.reduceat(self.similarity.scores(texts, images), starts, axis=1)

    def nearest(self, answers: Sequence[str], k: int = 10) -> list[list[tuple[int, float]]]:
        """Returns the k nodes most similar to each answer with their similarity, best first."""
        tops = [(row, top_k(row, k)) for row in self.node_scores(answers)]
        return [list(zip(top.tolist(), row[top].tolist(), strict=True)) for row, top in tops]

    def candidates(self, placements: Sequence[Placement], k: int = 5) -> list[tuple[int, ...]]:
        """Returns the nodes that an arbiter chooses from for each placement, in the order of a walk down the tree.

        They are those of several readers: the placement's own, that of the paper's listing, and those with the k names
        most similar to the answer (by an encoder, where the mapper has one); each with all its ancestors.
        """
        found, tree, size = [], self.taxonomy, max(1, min(_BATCH, _MAX_SCORES // len(self.taxonomy)))
        for start in range(0, len(placements), size):
            batch = placements[start : start + size]
            answers = [one.answer for one in batch]
            spelt = self._listing.node_scores(answers)
            rows = spelt if self.similarity.name == "lexical" else self.node_scores(answers)
            for one, spelling, row in zip(batch, spelt, rows, strict=True):
                listed = self._listing.place_scored(one.answer, spelling).node
                near = [one.node, listed, *(v for v in top_k(row, k).tolist() if row[v] > 0)]
                nodes = {v for node in near for v in tree.ancestors(node).tolist()}
                found.append(tuple(sorted(nodes, key=tree.places.__getitem__)))
        return found

    def signals(self, placement: Placement) -> dict[str, float]:
        """The signals behind the confidence of a placement of the default preset; see `arbiter`."""
        return self._arbiter.signals(unwrap(self._bounded(placement.answer)), placement.node, placement.stage)

    def identity(self) -> dict[str, str | int | float | None]:
        """Returns everything that can change a placement, for records: similarity, settings, WordNet's version."""
        source = None if self.wordnet is None else self.wordnet.source
        chooses = {} if self.arbiter is None else {f"arbiter.{key}": one for key, one in self.arbiter.identity.items()}
        return {"similarity": self.similarity.name, **self.config.as_dict(), "wordnet": source, **chooses}

    # -- details -------------------------------------------------------------------------------------------------------

    def _by_ngram(self, phrases: Iterable[tuple[str, ...]]) -> int | None:
        """Returns the common ancestor of the nodes that share the longest run of words with a phrase."""
        lexicon = self._lexicon
        telling = [phrase for phrase in phrases if sum(word not in english.SAYS_NOTHING for word in phrase) >= 2]
        for n in range(_LONGEST_GRAM, self._shortest_gram - 1, -1):
            grams = [gram for phrase in telling for gram in _telling_grams(phrase, n)]
            found = [nodes for gram in grams if len(nodes := self._nodes_by_gram.find(" ".join(gram)))]
            if found and (common := lexicon.common(np.unique(np.concatenate(found)))):
                # Where siblings share their nouns, what one of them has in common with the answer may be any of theirs.
                return lexicon.lifted(common) if self._shortest_gram > 1 else common
        return None

    def _bounded(self, answer: str) -> str:
        answer = answer.strip()
        if len(answer) <= self.config.max_characters:
            return answer
        kept = answer[: self.config.max_characters]
        return kept.rsplit(maxsplit=1)[0] if kept.strip() else ""

    # Indexes, built when first needed.

    @cached_property
    def _lexicon(self) -> Lexicon:
        return Lexicon(self.taxonomy, coverage=self.config.coverage, wordnet=self.wordnet, cache_dir=self._cache_dir)

    @cached_property
    def _arbiter(self) -> Arbiter:
        return Arbiter(self._lexicon)

    @cached_property
    def _listing(self) -> Mapper:
        """The paper's listing, a reader that knows no English: it names what the default misreads."""
        return Mapper(self.taxonomy, config=MapperConfig(preset="paper-listing"), cache_dir=self._cache_dir)

    @cached_property
    def _algorithm(self) -> PaperAlgorithm:
        return PaperAlgorithm(self.taxonomy, self.config)

    @property
    def _shortest_gram(self) -> int:
        """Where siblings share their nouns, one other word that they share says little."""
        return 2 if self._lexicon.shares_heads or self._lexicon.latin else 1

    @cached_property
    def _nodes_by_gram(self) -> Multimap:
        def learn() -> dict[str, Part]:
            table = MultimapBuilder()
            for node in range(len(self.taxonomy)):
                for words in map(fold_words, self.taxonomy.names(node)):
                    for n in range(self._shortest_gram, min(len(words), _LONGEST_GRAM) + 1):
                        for gram in _telling_grams(words, n):
                            table.add(" ".join(gram), node)
            return {"nodes": table.build()}

        return cast("Multimap", stored(self.taxonomy, f"grams {self._shortest_gram}", self._cache_dir, learn)["nodes"])

    @cached_property
    def _name_starts(self) -> NDArray[np.int64]:
        """Where each node's names start in the list of all names, which the similarity learns here."""
        names = [self.taxonomy.names(node) for node in range(len(self.taxonomy))]
        self.similarity.fit([self._compared(name) for group in names for name in group])
        return np.cumsum([0] + [len(group) for group in names[:-1]])


def _telling_grams(words: Sequence[str], n: int) -> list[tuple[str, ...]]:
    """Returns the word n-grams of which at least two words, or one alone, tell something: not "black and", nor "de"."""
    tells = [word not in english.SAYS_NOTHING and (len(word) > 2 or not word.isalpha()) for word in words]
    starts = (i for i in range(len(words) - n + 1) if sum(tells[i : i + n]) >= min(n, 2))
    return [tuple(words[i : i + n]) for i in starts]
