"""Reading a judge's reply: a rating from 1 to 3, or yes or no; None where it says neither.

A reply is read where a verdict stands, not at the first figure or word that fits: a rationale is full of figures
("there are 2 dogs, not 3"). A misread verdict is a wrong score that nobody sees; one that is not read is counted.
"""

from __future__ import annotations

import re
import unicodedata

__all__ = ["plain_reply", "read_rating", "read_yes_no"]

# A rating: a figure or its word, the figure with decimals that are zero ("3.0"), and maybe what it is out of.
_VALUE = (
    r"(?<![\w.,/+\-])(?P<value>[0-9]+(?:\.[0-9]+)?|one|two|three|[一二三])(?![\w%])"
    r"(?:\s*(?:/|out\s+of|of|\(\s*(?:out\s+)?of|from)\s*(?P<scale>[0-9]+|three)\b\)?)?"
)
_WORDS = {"one": 1, "two": 2, "three": 3, "一": 1, "二": 2, "三": 3}
# What a rating is called beside its figure: "Rating: correct (3)".
_CALLED = r"(?:fully|completely|partially|partly|correct|incorrect|right|wrong|ambiguous|incomplete)"
# "Rating:", "Final rating (1-3) =", "Rating [1, 2 or 3]:"; what stands in brackets is the scale.
_NAMED = (
    r"(?:\b(?:rating|ratings)\b|评分|评级|評分|評価)"
    r"(?:\s*[\(\[][^\)\]\n]{0,40}[\)\]])?(?:\s+on\s+a\s+scale\s+(?:of|from)\s+1\s*(?:-|to)\s*3)?"
)
# A dash is a sign of its own only between spaces: "Rating -1" is none.
_SIGN = r"\s*(?:is\s*)?(?:(?::|=|->|=>|→|\|)+|\s[\-–—](?=\s+\d))\s*"
_BEFORE = (
    rf"(?:N\s*=\s*)?(?:(?:it|this|that)(?:'s|\s+is)\s+)?(?:an?\s+)?(?:(?:{_CALLED}\s+){{1,3}}(?=[\(\[]\s*\d))?"
    r"[\(\[{<#]*\s*"
)
_STRONG = re.compile(rf"{_NAMED}{_SIGN}{_BEFORE}(?:{_VALUE})?", re.I)
_BETWEEN = (
    r"(?:\s+(?:is|of|would|should|be|as|a|an|therefore|thus|it|this|that|the|candidate|answer|for|with|at|to|get|gets))*"
    r"\s+"
)
_WEAK = re.compile(
    rf"(?:{_NAMED}|\bI(?:'d|\s+would|\s+will)?\s+(?:give|rate|score|assign)|\b(?:rate|rated|rates)"
    rf"|\b(?:answer|candidate|it|this)\s+(?:gets|receives|earns|deserves)(?=\s+a\s)){_BETWEEN}{_VALUE}",
    re.I,
)
# What follows a weak rating ends the clause: "a rating of 3 dogs" is none.
_CLAUSE_END = re.compile(r"\s*(?:$|[.,;:!)\]}\n]|because\b|since\b|as\b|for\b|here\b|overall\b|\()", re.I)
# A range ("1-3", "1 or 2"), a change of mind ("3 -> 2"), "2+", and "3 would be too generous": no rating is given.
_RANGE = re.compile(
    r"\s*(?:(?:-|–|—|to|or|and|,|/|->|=>|→)\s*(?:[0-9]|one\b|two\b|three\b)|\+|(?:would|could|might|may|seems)\b)", re.I
)
_ALONE = re.compile(
    rf"(?:^|(?<=[.!?;])\s|^(?:(?:final\s+)?(?:score|grade)|final\s+(?:answer|verdict))\s*[:=]|\b(?:so|therefore|thus|hence)\s*,?\s)\s*[\(\[]?\s*{_VALUE}\s*[\)\]]?\s*[.!]*\s*$",
    re.I,
)
# The rating at the head of its reason: "3 - the candidate names the bird", "3 (correct)", "1: wrong".
_HEAD = re.compile(rf"{_VALUE}(?:\s*[.!]?$|\s*[\-–—:,]\s*[^\W\d_]|\s*\(\s*{_CALLED}\b|\s+(?:because|since)\b)", re.I)
# What the judge quotes in mid-sentence ('the candidate says "Rating: 3"') is said by somebody else.
_QUOTED = re.compile(r"(?<=[\w,])(\s+)([\"'`])((?:\\.|(?!\2)[^\n\\])+)(?:\2|\Z)")
_RATED = re.compile(r"\brat(?:e|ing)\b.*\d", re.I)
# A model that writes on makes up a further example, whose rating is not this answer's.
_NEXT_EXAMPLE = re.compile(
    r"^\s*(?:example(?:\s+\d+)?\s*:?|question\s*:|image description\s*:|#+\s*example\b.*)", re.I | re.M
)
_THOUGHT_ENDS = re.compile(r"</(?:think|thinking|reasoning)>", re.I)
_THOUGHT_BEGINS = re.compile(r"<(?:think|thinking|reasoning)>", re.I)
# Of a reply that went out of hand, so many characters at either end are read: the verdict stands at one of them.
_MOST = 10_000


def read_rating(reply: str) -> int | None:
    """Returns the rating, 1, 2 or 3, that a reply gives, or None.

    1. The last "Rating: N" (also "rating = N", "Final rating (1-3): N") decides. If it has no rating after it, as in
       "Rating: N/A" or "Rating: 1-3", the reply has none.
    2. Else the last "a rating of N", "the rating is N", "I would rate it N", where N ends its clause.
    3. Else a figure alone: as the last line or sentence of the reply, or after "so" or "therefore" at its end; or as
       the first line, before the rationale, or at its head ("3 - it names the bird").

    N is 1, 2, 3, "3.0" or "three", alone or out of three ("2/3", "2 out of 3"), in bold, quotes or brackets. Other
    figures, ranges ("1-3") and conditionals ("3 would be too generous") are no ratings. Thoughts before </think>,
    quotations in mid-sentence and a further example made up after the rating are left out.
    """
    text = plain_reply(reply, quoted=False)
    if text is None:
        return None
    strong = list(_STRONG.finditer(text))
    if strong:
        ends = [match.start() for match in _NEXT_EXAMPLE.finditer(text) if match.start() >= strong[0].end()]
        last = [match for match in strong if not ends or match.start() < ends[0]][-1]
        if last["value"] is None:  # "Rating: I would rate it 2"
            rest = text[last.end() :].partition("\n")[0]
            said = _weak(rest)
            return _rating(said[-1], rest) if said else None
        return _rating(last, text)
    weak = _weak(text)
    if weak:
        return _rating(weak[-1], text)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines:
        return None
    alone = _ALONE.search(lines[-1])
    if alone is not None:
        return _rating(alone, lines[-1])
    # "1: wrong" is a rating, but not where "2: in part" follows: that is the scale, or a list.
    head = _HEAD.match(lines[0]) if sum(line[0].isdigit() for line in lines) == 1 else None
    return None if head is None else _rating(head, lines[0])


def _weak(text: str) -> list[re.Match[str]]:
    return [match for match in _WEAK.finditer(text) if _CLAUSE_END.match(text, match.end())]


def _rating(found: re.Match[str], text: str) -> int | None:
    value = found["value"]
    if value is None or found["scale"] not in (None, "3", "three") or _RANGE.match(text, found.end()):
        return None
    number = float(_WORDS.get(value.lower(), value))
    return int(number) if number in (1, 2, 3) else None


def read_yes_no(reply: str) -> bool | None:
    """Returns True for a reply that says yes, False for one that says no, None where it says neither or both.

    The verdict is the reply's first word ("Yes, since ..."), or the line "Answer: yes" or "Verdict: no", or a last line
    of that one word, which may stand behind the question; where several of these stand in a reply they must agree.
    "Yes and no", "no doubt" and "Yes. But no." are no verdicts, and a "yes" in the middle of a sentence is none.
    """
    text = plain_reply(reply)
    if text is None:
        return None
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines:
        return None
    if len(lines) == 1 and lines[0].rstrip(".!").lower() in ("y", "n"):
        return lines[0][0].lower() == "y"
    verdicts: set[bool] = set()
    named = (
        r"(?:(?:(?:the|my)\s+)?(?:final\s+)?(?:answer|verdict|judge?ment|decision|response|output|agrees)"
        r"\s*(?::|=|is\b)\s*)"
    )
    for place, line in enumerate(lines):
        # Without bullets, numbers and the question, which small models repeat before they answer it.
        bare = re.sub(r"^(?:\W|\d+[.)])+", "", re.sub(r"^.*\?\s+(?=(?:yes|no)[.!]*$)", "", line, flags=re.I))
        found = re.match(rf"{named}?[\"'(\[]*(yes|no)\b(?P<rest>.*)$", bare, re.I)
        if found is None:
            continue
        labelled = re.match(named, bare, re.I) is not None
        rest = found["rest"].strip("\"')]} ")
        alone = re.fullmatch(r"[.!,;:]*", rest) is not None
        if re.match(r"(?:/|or\b|and\b|,?\s*(?:yes|no)\b)", rest, re.I):
            return None
        if re.search(rf"\b{'no' if found[1].lower() == 'yes' else 'yes'}\W*$", rest, re.I):
            return None  # "Yes. But actually no."
        # "No doubt it does" and "Yes men" are not verdicts; "No, ...", "No. ...", "No - ...", "Yes (...)" are.
        ended = (
            alone
            or re.match(r"[^\w\s]", rest) is not None
            or re.match(r"(?:it|the|this|that|thats|they|because|since)\b", rest, re.I)
        )
        if ended and (place == 0 or labelled or (place == len(lines) - 1 and alone)):
            verdicts.add(found[1].lower() == "yes")
    return verdicts.pop() if len(verdicts) == 1 else None


def plain_reply(reply: str, *, quoted: bool = True) -> str | None:
    """Returns a reply without thoughts and mark-up, or None where the model was still thinking when it was cut off.

    Args:
        reply: What the judge wrote.
        quoted: Whether ratings that are quoted in mid-sentence stay.
    """
    ends = [match.end() for match in _THOUGHT_ENDS.finditer(reply)]
    text = reply[ends[-1] :] if ends else reply
    if _THOUGHT_BEGINS.search(text):
        return None
    text = text if len(text) <= 2 * _MOST else f"{text[:_MOST]}\n{text[-_MOST:]}"
    # Full-width and circled figures, and the keycaps that emoji are made of, are figures.
    text = unicodedata.normalize("NFKC", text).replace("\ufe0f", "").replace("\u20e3", "")
    # Figures of other scripts are figures, too.
    text = re.sub(r"\d", lambda found: str(unicodedata.decimal(found[0])), text)
    text = text.replace("“", '"').replace("”", '"').replace("‘", "'").replace("’", "'")
    # A server may pass on the tokens that end a turn; and some models write "<rating>3</rating>".
    text = re.sub(r"<\|[^<>|\n]{1,40}\|>|</?s>|<(?:start|end)_of_turn>", "\n", text)
    text = re.sub(r"<(rating|score|answer|verdict)>", r"\n\1: ", text, flags=re.I)
    text = re.sub(r"</(?:rating|score|answer|verdict)>", "\n", text, flags=re.I)
    if not quoted:
        text = _QUOTED.sub(lambda found: found[1] if _RATED.search(found[3]) else found[0], text)
    text = re.sub(r"\\(?:boxed|text|textbf|mathbf)\s*\{([^{}]*)\}", r"\1", text)
    return re.sub(r"[*`$\"~]|(?<![^\W_])_+|_+(?![^\W_])|(?<!\w)'|'(?!\w)", "", text)
