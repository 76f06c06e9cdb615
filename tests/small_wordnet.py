"""Small WordNets in the format of the WordNet database files (wndb(5WN)), for tests."""

from __future__ import annotations

_LICENCE = "  1 WordNet 3.0 Copyright of a test.\n"


def write_wordnet(folder, senses):
    """Writes a WordNet of nouns without the file `lexnames`, as Debian has it.

    Args:
        folder: The folder to write to.
        senses: A key, the lemmas, the gloss and the keys of the hypernyms of each sense; of a lemma's senses the more
            frequent come first.
    """
    folder.mkdir(parents=True, exist_ok=True)
    below = {key: [] for key, *_ in senses}
    for key, _, _, above in senses:
        for hypernym in above:
            below[hypernym].append(key)

    # Lines have the same length whatever offsets stand in them.
    offsets = dict.fromkeys(below, 0)
    for _ in range(2):
        text = _LICENCE
        for key, lemmas, gloss, above in senses:
            offsets[key] = len(text)
            pointers = [("@", other) for other in above] + [("~", other) for other in below[key]]
            words = " ".join(f"{lemma} 0" for lemma in lemmas)
            links = " ".join(f"{symbol} {offsets[other]:08d} n 0000" for symbol, other in pointers)
            text += f"{offsets[key]:08d} 05 n {len(lemmas):02x} {words} {len(pointers):03d} {links} | {gloss}  \n"
    (folder / "data.noun").write_text(text)

    by_lemma = {}
    for key, lemmas, _, _ in senses:
        for lemma in lemmas:
            by_lemma.setdefault(lemma.lower(), []).append(offsets[key])
    lines = [
        f"{lemma} n {len(places)} 0 {len(places)} 0 {' '.join(f'{place:08d}' for place in places)}  \n"
        for lemma, places in sorted(by_lemma.items())
    ]
    (folder / "index.noun").write_text(_LICENCE + "".join(lines))
    for pos in ("adj", "adv", "verb"):
        for kind in ("data", "index"):
            (folder / f"{kind}.{pos}").write_text(_LICENCE)
    for pos in ("adj", "adv", "verb", "noun"):
        (folder / f"{pos}.exc").write_text("")
    return folder
