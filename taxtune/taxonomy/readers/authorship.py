"""Taking authorship off scientific names: "Quercus alba L." and "Passer domesticus (Linnaeus, 1758)".

Whoever labels an image, and a model that names what it sees, leaves the author out. Where a file states the authorship
on its own it is known; elsewhere it is recognised by its form, which the codes of nomenclature fix: behind a name in
Latin, names of people in capitals, with a year, in brackets, abbreviated, or joined by "&", "et", "ex" or "in".
"""

from __future__ import annotations

import re

__all__ = ["is_epithet", "split_authorship"]

_PARTICLES = r"(?:de|du|da|der|den|des|di|del|la|le|van|von|zu|ter|ten|et|ex|in)"
_EPITHET = rf"(?!{_PARTICLES}\.?\s)×?\s?[^\W\dA-Z_][^\W\dA-Z_-]+(?:-[^\W\d_-]+)*"
_LATIN = re.compile(
    rf"(?:×\s?)?[A-Z][a-zë]+(?:-[a-z]+)?(?:\s\([A-Z][a-z]+\))?"
    rf"(?:\s{_EPITHET}(?:\s(?:(?:subsp|ssp|var|subvar|f|forma|fo|cf|aff)\.?\s)?{_EPITHET})*)?"
)
_PERSON = r"(?:(?:[^\W\d_]\.-?\s?)*(?:[dD]['’])?[A-Z][^\W\d_]*(?:['’-][^\W\d_]+)*\.?|(?:[^\W\d_]\.)+)"
_JOINT = r"(?:,\s|\s?&\s?|\set\s(?:al\.?)?|\sex\s|\sin\s|\s(?:f|fil|bis)\.,?\s?|\s|(?<=\.))"
_PARTICLE = rf"(?:{_PARTICLES}\.?\s)*"
_PEOPLE = rf"{_PARTICLE}{_PERSON}(?:{_JOINT}{_PARTICLE}{_PERSON})*(?:\s?(?:f|fil)\.|\set\sal\.?)?"
_YEAR = r",?\s?[\[(]?1[5-9]\d\d[a-z]?[\])]?|,?\s?[\[(]?20\d\d[a-z]?[\])]?"
_AUTHORS = re.compile(rf"(?:\({_PEOPLE}(?:{_YEAR})?\)\s?)?(?:{_PEOPLE})?(?:{_YEAR})?")
_LONGEST = 200
_MARK = re.compile(r"\d{4}|[.&()]|\s(?:et|ex|in)\s")


def split_authorship(name: str, author: str = "", *, cited: bool = False) -> tuple[str, str]:
    """Returns a scientific name without its authorship, and the authorship; "" where there is none.

    Args:
        name: The name, cleaned.
        author: The authorship, where the file states it on its own.
        cited: Whether the format has authorships behind names, so that a capitalised word behind a binomial ("Pica pica
            Sharpe"), and an abbreviation or a year behind a single word ("Quercus L."), is one; elsewhere it may be
            anything ("Felis catus Siamese", "Falcon 2000").
    """
    if author:
        for form in (author, f"({author})"):
            short = name.removesuffix(form).rstrip(" ,")
            if short and short != name:
                return short, author
    latin = _LATIN.match(name)
    if latin is None:
        return name, author
    short, behind = latin[0], name[latin.end() :].strip()
    if not behind or len(behind) > _LONGEST or name[latin.end()] not in " ,(":
        return name, author
    marked = _MARK.search(behind) is not None
    # Behind a single word a year may be anything ("Falcon 2000"), and behind two a capitalised word.
    certain = (cited or marked) if " " in short else (cited and marked)
    return (short, author or behind) if certain and _AUTHORS.fullmatch(behind) else (name, author)


def is_epithet(text: str) -> bool:
    """Tells whether a text is a species epithet alone: one word in lower case, perhaps with the cross of a hybrid."""
    return re.fullmatch(_EPITHET, text) is not None
