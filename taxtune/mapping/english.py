"""The small English words that tell what an answer asserts.

These lists hold grammar and the vocabulary of talking about pictures, colours and sizes: what every
domain shares. What things are called belongs to the taxonomy, not here, and the tree always wins: a
word that it names is a name. Grammar is compared with words in lower case as they stand, nouns with
folded words (see `normalize.fold_word`).
"""

from __future__ import annotations

from taxtune.mapping.normalize import fold_word


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _nouns(text: str) -> frozenset[str]:
    return frozenset(fold_word(word) for word in text.split())


# -- grammar ---------------------------------------------------------------------------------------

#: A full stop behind these ends no sentence.
ABBREVIATIONS = _words("st mt sp spp cf var subsp ssp dr mr no eg ie vs")

#: Words that begin a noun phrase.
ARTICLES = _words("a an the some any another his her its their my our your")

#: Of these, the ones that a noun in the plural cannot follow.
SINGULAR = _words("a an another one each every")

#: Between two names these say that either may be meant.
ALTERNATIVE = _words("or either perhaps possibly maybe alternatively otherwise vs versus")

#: What follows, up to "but" or the end of the clause, is denied.
NEGATION = _words(
    "not no never none nothing neither nor without unlike except excluding isnt arent wasnt werent doesnt dont didnt "
    "wont wouldnt shouldnt mustnt hasnt havent hadnt aint hardly than instead non "
    "lack lacks lacking absence nobody fails opposed"
)

#: Behind "not", these deny what stands before: "a robin is not visible".
TO_BE_SEEN = _words("visible present seen shown depicted pictured there here")

#: These decline to answer; the clause asserts nothing.
REFUSAL = _words(
    "sorry unable cannot cant couldnt unclear impossible insufficient unfortunately decline hard difficult"
)

#: What follows is only compared with what is seen; it counts where nothing is asserted outright.
COMPARISON = _words("similar reminiscent akin mimic mimics mimicking confused mistaken eg")

#: Before "like" these assert: "it looks like a robin".
SEEMS = _words("look looks looking looked seem seems appear appears sound sounds something more")

#: What follows tells where the thing is or what is with it, not what it is. "Of" is read with the
#: noun.
PREPOSITIONS = _words(
    "in on at by near under beneath below over above against among amongst amid between behind beside besides along "
    "alongside across around inside outside within through throughout toward towards onto into upon next with from "
    "during while for down off past atop before after beyond via where when because since due given"
)

#: Verbs and words by which the main clause goes on: what follows them is said of the subject.
VERBS = _words(
    "resemble resembles make makes "
    "is are was were be been being am appear appears appeared appearing seem seems seemed look looks belong belongs "
    "belonging depict depicts depicted depicting show shows showing shown showcase showcases showcasing display "
    "displays displaying featured present presents portray portrays portraying capture captures capturing illustrate "
    "illustrates represent represents representing indicate indicates suggest suggests reveal reveals fit fits points "
    "called named known identified classified considered recognized labeled described likely probably definitely "
    "certainly clearly therefore thus hence so specifically namely it this these those that there here i or which who"
)

#: Of these, the ones by which the subject is said to be something else or more: "the dish is a
#: soup".
COPULAS = _words(
    "resemble resembles points make makes "
    "is are was were be appear appears appeared seem seems seemed look looks belong belongs depict depicts show shows "
    "showcase showcases display displays indicate indicates suggest suggests reveal reveals represent represents "
    "called named known identified classified considered recognized labeled described"
)

#: Behind these, "with", "from", "in" tell what the thing is after all: "a crate filled with beets",
#: "belongs in glass".
TELLING = _words(
    "filled full loaded packed stuffed made go going consistent belong belongs belonging consists consisting composed"
)

#: Participles that do not end in "ed" or "ing" and are no nouns.
PARTICIPLES = _words(
    "bent bound bought broken brought built burnt caught chosen drawn driven dug eaten fallen fed flown found frozen "
    "given grown held hidden hung kept laid lain left lit lost made paid put sat seen shown sold spread stood stuck "
    "taken thrown torn worn wound woven written"
)

#: After these stands what the subject has; where the subject is on the tree, that is context.
HAVING = _words(
    "has have had having contain contains containing include includes including feature features featuring wear wears"
)

#: After these, what is said is a first guess, which what follows "but", "actually", ... can take
#: back.
TENTATIVE = _words(
    "resemble resembles resembling could might may perhaps possibly maybe considered thought glance "
    "initially"
)

#: Words after which a denied, refused or compared clause is over.
CLAUSE_STARTS = _words("but however although though yet")

#: With these an answer changes its mind: what follows is said after all.
TURNS = CLAUSE_STARTS | _words("actually fact")

#: All words that end a noun phrase and belong to none: pronouns, adverbs, verbs of thinking.
BREAKS = (
    VERBS
    | TENTATIVE
    | TURNS
    | _words(
        "as aka whose im we you they them he she me if but however although though yet then also just even most more "
        "less better best very quite rather about think believe guess say help see seen visible what how why to let "
        "tell identify determine distinguish both characterized recognizable distinguished currently still while"
    )
)

# -- words about pictures, and words that only describe --------------------------------------------

#: Words at the front of a noun phrase that are no part of a name.
FILLER = ARTICLES | _nouns(
    "one two three four five six several many few other such this that these those both each every all kind of "
    "particular possible probable likely single typical unknown unidentified close up image photo picture and male "
    "female adult juvenile young immature beautiful main stylized numerous various multiple"
)

#: Words at the end of a noun phrase that add nothing to the name before them.
TAIL = _nouns(
    "species variety varietal breed mix cross crossbreed hybrid cultivar strain specimen individual type kind sort "
    "form photo photograph image picture shot view portrait kingdom phylum class order family tribe genus group name "
    "names sp spp cf aff complex pair flock male female adult juvenile immature young one here etc itself too head "
    "face category model"
)

#: The word before these, or glued to them, is a likeness and not the thing: "fern-like",
#: "lily-shape orchid".
LIKENESS = _nouns("like shaped shape leaved looking type style colored scented inspired esque")

#: Words that describe, and that are no head of a name when nothing else stands beside them.
DESCRIBING = _nouns(
    "black white gray brown red orange yellow green blue purple pink golden gold silver crimson scarlet small large "
    "big little tiny tall short long dark light pale bright common colorful beautiful wild fresh old new spotted "
    "striped and with american european african asian north south east west northern southern eastern western"
)

#: Whoever may stand in a picture.
PEOPLE = _nouns("person people human man men woman women boy girl child individual")

#: What answers say of pictures, of whoever stands in them, and of their own uncertainty.
PICTURE = PEOPLE | _nouns(
    "image photo photograph picture drawing illustration painting scene background foreground surface texture "
    "pattern color shape detail detailed angle view closeup close up camera focus light lighting shadow setting "
    "context quality resolution blurry unclear visible center middle left right top bottom front back side edge "
    "part feature object subject thing item else something anything nothing someone hand question answer label "
    "category content information possible general specific certain different various several similar typical "
    "main appearance presence number lot bunch pair set piece group body case kind type sort example instance "
    "amount sign evidence rear end location place area environment nature name model"
)

#: With these a picture shows nothing, and what may be said to be so: "an empty frame", "false trigger".
EMPTY = _nouns("empty blank false")
EMPTIED = EMPTY | _nouns("frame shot trigger alarm")

#: Words that tell nothing of what a thing is.
SAYS_NOTHING = FILLER | TAIL | LIKENESS | DESCRIBING | PICTURE

#: Keys of JSON objects whose values do not answer "what is this?".
OTHER_KEYS = _words(
    "confidence reason reasoning explanation description habitat diet location probability score note notes color "
    "colour rationale justification evidence features characteristics size distribution range behavior behaviour "
    "question prompt details comment thought thoughts thinking analysis similar alternative alternatives alternate "
    "other others lookalike lookalikes options choices distractor distractors differential distinguished not ruled "
    "excluded rejected image information info context background quality environment surroundings metadata"
)
