"""The small English words that tell what an answer asserts.

These lists hold grammar and the vocabulary of talking about pictures. Names of living things, and group words such as
"songbird", belong to the taxonomy's aliases, not here. Grammar is compared with words in lower case as they stand,
nouns with folded words (see `normalize.fold_word`).
"""

from __future__ import annotations

from taxtune.mapping.normalize import fold_word

__all__ = [
    "ADJECTIVES",
    "ALTERNATIVE",
    "ANSWER_KEYS",
    "ARTICLES",
    "BREAKS",
    "CERTAINTY",
    "CLAUSE_STARTS",
    "COMMON",
    "COMPARISON",
    "CONTEXT",
    "FILLER",
    "FOREIGN",
    "LIKENESS",
    "NEGATION",
    "NO_HEADS",
    "OBJECTS",
    "OTHER_KEYS",
    "PRECISION",
    "REFUSAL",
    "RESUMES",
    "SEEMS",
    "TAIL",
    "WIDE_RANKS",
]


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _nouns(text: str) -> frozenset[str]:
    return frozenset(fold_word(word) for word in text.split())


#: Between two names these say that either may be meant.
ALTERNATIVE = _words("or either perhaps possibly maybe alternatively otherwise vs versus")

#: Words that begin a noun phrase.
ARTICLES = _words("a an the some any")

#: What follows, up to "but" or the end of the clause, is denied.
NEGATION = _words(
    "not no never neither nor without unlike except excluding isnt arent wasnt doesnt dont didnt hardly than instead"
)

#: After a negation these turn it into mere doubt: "not sure if it is a robin", "no doubt a robin", "not only".
CERTAINTY = _words("sure certain clear confident entirely completely fully exactly doubt only definitive 100")

#: These decline to answer; the clause asserts nothing, unless only precision is refused (`PRECISION`).
REFUSAL = _words("sorry unable cannot cant couldnt unclear impossible insufficient unfortunately decline")

#: A refusal with one of these still says something: "I cannot tell the exact species of this gull".
PRECISION = _words("exact exactly specific specifically precise precisely particular definitively certainty")

#: What follows is only compared with what is seen; it counts where nothing is asserted outright.
COMPARISON = _words(
    "similar resemble resembles resembling reminiscent akin mimic mimics mimicking confused mistaken eg"
)

#: Before "like" these assert: "it looks like a robin".
SEEMS = _words("look looks looking looked seem seems appear appears sound sounds something more")

#: What follows tells where the thing is or what it does, not what it is.
CONTEXT = _words(
    "in on at by near under beneath below over above against among amongst amid between behind beside besides along "
    "across around inside outside within through toward towards onto into upon next with from during while for "
    "sitting sits seated perched perching perches resting standing stands lying hanging growing grows blooming flying "
    "hovering swimming floating walking running climbing crawling eating eats eat feeding feeds feed visiting "
    "pollinating drinking holding carrying catching chasing hunting hunts facing surrounded covered native found "
    "living lives prefer prefers preys inhabit inhabits inhabiting occurs where when because since due given"
)

#: Words that start a new assertion after `CONTEXT`.
RESUMES = _words(
    "it this these that is are was were likely probably possibly maybe perhaps could might may must appears seems i "
    "therefore thus hence so specifically depicts shows show there be or"
)

#: Words that end a noun phrase and belong to none.
BREAKS = _words(
    "is are was were be being been am show shows showing shown depict depicts depicting contain contains feature "
    "features featuring appear appears appearing seem seems look looks looking called named known identified "
    "classified considered as belong belongs belonging include includes including which who whose that it its "
    "this these those there here i im we you they them he she me my our your their his her has have had having "
    "can could may might must will would should do does did if but however although though yet so then also just "
    "only even likely probably possibly maybe perhaps certainly definitely clearly most more less very quite "
    "rather about think believe guess say suggest suggests indicate indicates characterized recognized "
    "recognizable distinguished help see seen visible what how why to let tell identify determine both other "
    "another either"
)

#: Words after which a denied, refused or compared clause is over.
CLAUSE_STARTS = _words("but however although though yet")

#: Words at the front of a noun phrase that are no part of a name.
FILLER = _nouns(
    "a an the some any one two three several many another other such this that these those both each its his her "
    "their my our your certain kind of particular possible probable likely single typical unknown unidentified "
    "close up image photo picture of and male female adult juvenile young immature"
)

#: Words at the end of a noun phrase that add nothing to the name before them.
TAIL = _nouns(
    "species variety varietal breed mix cross crossbreed hybrid cultivar strain specimen individual type kind sort "
    "form photo photograph image picture shot view portrait kingdom phylum class order family tribe genus group "
    "name names sp spp cf aff complex pair flock male female adult juvenile immature young one here etc "
    "itself too head face"
)

#: The word before these, or glued to them, is a likeness and not the thing: "fern-like", "lily-shape orchid".
LIKENESS = _nouns("like shaped shape leaved looking type style colored scented inspired esque")

#: Words that describe, and that are no head of a name when nothing else stands beside them.
ADJECTIVES = _nouns(
    "black white gray brown red orange yellow green blue purple pink golden gold silver crimson scarlet small "
    "large big little tiny tall short long dark light pale bright common colorful beautiful wild fresh spotted "
    "striped and with american european african asian north south east west northern southern eastern western"
)

#: Words of vehicles and their makers. A noun phrase with one of them speaks of no living thing ("Volkswagen Beetle").
FOREIGN = _nouns(
    "car sedan coupe convertible hatchback suv minivan pickup truck roadster spyder cabriolet wagon van limousine "
    "crossover motorcycle motorbike vehicle automobile aircraft airplane plane jet airliner helicopter bomber yacht "
    "locomotive bus cab acura audi bentley bmw bugatti buick cadillac chevrolet chevy chrysler citroen daewoo dodge "
    "ferrari fiat ford gmc honda hyundai infiniti isuzu jeep kia lamborghini lexus maserati maybach mazda mclaren "
    "mercedes benz mercury mitsubishi nissan oldsmobile opel peugeot plymouth pontiac porsche renault skoda subaru "
    "suzuki tesla toyota vauxhall volkswagen vw volvo boeing airbus cessna embraer fokker bombardier gulfstream "
    "lockheed mcdonnell eurofighter grumman northrop dassault dornier antonov ilyushin tupolev beechcraft"
)

#: Words that an answer about a picture is likely to use and that are no slip of the pen for a name.
COMMON = _nouns(
    "margin nature garden petal texture pattern surface background center middle circle circular oblong smooth rough "
    "wavy velvet serrated rosette gradient symmetrical asymmetrical arrangement intense detail detailed model color "
    "object scene person human woman building house street water forest grass field ground branch animal picture label "
    "question answer content information context visible quality resolution blurry unclear certain general specific "
    "category different similar various natural outdoor indoor beach ocean river mountain sunset cloud summer winter "
    "spring autumn season window table plate bottle glass paper plastic metal stone wooden fabric leather subject "
    "closeup camera lens focus light shadow bright beautiful pretty cute lovely single double multiple several cluster "
    "ringed centered drooping pointed pointer rounded round square sorry cannot identify provide assist unable shape "
    "ring disc disk sphere spiral ball circle unknown thing something anything nothing splash dot stripe "
    "egg shell bone skin track series sport limited continental cruiser premium touring performance super power silver"
)

#: Things of everyday life that fancy names borrow ("ink cap", "dandelion clock"): no heads either.
OBJECTS = _nouns(
    "arch backpack ball bar barn barrel baseball basket basketball bath beacon bed belt book bowl box brake brass "
    "bridge brick broom bucket building button cable cake can cap castle chain chair chime clock coat coin "
    "computer cord couch counter cover cradle curtain desk diaper dish door drill drum dumbbell engine fan fence "
    "flag frame furniture game gate glove gun hammer hamper hat helmet hook horn house jacket jersey jug kettle "
    "key keyboard knife ladder lamp machine mat mirror mug napkin necklace net oven pad paintbrush pan parachute "
    "patio pen pencil phone pillow pillar pin pipe pitcher pizza plane pole pot printer prison purse puzzle quill "
    "quilt racket radio rail road robe roof rope rug saw scale screen screw seat shade shelf ship shirt shoe sign "
    "sink ski sofa spatula spoon spray stage stair statue stove street swing switch sword syringe telephone "
    "television tent thimble toaster tool torch towel tower toy tray truck trunk umbrella vase volleyball wall "
    "wallet watch web wheel whistle wig wire yard"
)

#: Words that cannot be the head of a name, though names on a tree may end in them.
NO_HEADS = ADJECTIVES | TAIL | LIKENESS | COMMON | OBJECTS

#: Keys of JSON objects and "key: value" lines whose values answer "what is this?".
ANSWER_KEYS = _words(
    "answer prediction predicted label class classification species name common scientific latin binomial genus family "
    "order taxon category object animal plant bird flower breed identification guess response output result"
)

#: Keys whose values do not.
OTHER_KEYS = _words(
    "confidence reason reasoning explanation description habitat diet location probability score note notes color "
    "colour rationale justification evidence features characteristics size distribution range behavior behaviour "
    "question prompt details comment thought thoughts"
)

#: Ranks of what is so wide that a term for it fits beside a closer one: "bird, robin".
WIDE_RANKS = frozenset(("kingdom", "phylum", "class"))
