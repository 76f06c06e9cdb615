"""From a taxonomy file to a tree: what the file is, and the first defect that keeps it from being a tree."""

from __future__ import annotations

import lzma
import re
import zlib
from collections.abc import Callable
from pathlib import Path

from taxtune.errors import TaxonomyError
from taxtune.plugins import find_plugin, plugin_names
from taxtune.resources import builtin_trees
from taxtune.tables import read_text, unpacked
from taxtune.taxonomy.graph import tree_of
from taxtune.taxonomy.names import attach_english_names
from taxtune.taxonomy.raw import RawTaxonomy
from taxtune.taxonomy.readers.archive import Archive, is_archive
from taxtune.taxonomy.readers.formats import ARCHIVES, FORMATS, TEXTS, ArchiveFormat, TextFile, header_of
from taxtune.taxonomy.tree import Taxonomy

__all__ = ["READERS", "Reader", "parse_taxonomy", "read_taxonomy"]

#: The entry points by which other packages add formats.
READERS = "taxtune.readers"
#: What reads a format: from a path, and perhaps `root_label`, to what the file says.
Reader = Callable[..., RawTaxonomy]

_BUILTIN = "builtin:"
_PEEKED = 2**16


def read_taxonomy(
    path: str | Path,
    *,
    format: str | Reader = "auto",
    names: bool = True,
    root_label: str | None = None,
) -> Taxonomy:
    """Reads a taxonomy.

    Args:
        path: A file, a folder or zip file of one of the formats that are published so, or "builtin:NAME" for one
            that comes with taxtune: that of the embedded field guide ("builtin:fieldguide") or of another recipe.
        format: One of `FORMATS`:

            - "inat21-json": the `categories` of iNaturalist 2021's COCO-style JSON;
            - "inat21-csv": a CSV with a column for each rank (see `readers.inat21`);
            - "edges": a CSV with the columns child and parent (see `readers.edges`);
            - "paths": a CSV with a column path, or one column per level (see `readers.paths`);
            - "darwin-core": a Darwin Core archive, or its core file (see `readers.darwin_core`);
            - "coldp": a ColDP package, or its NameUsage or Taxon file (see `readers.coldp`);
            - "nabirds": pairs of class ids with a file of names beside it (see `readers.nabirds`);
            - "groups": "class, group" a line (see `readers.groups`);
            - "indented": one node per line, by dashes, tabs or spaces (see `readers.indented`);
            - "imagenet-json": synsets with the ids of their parents (see `readers.imagenet`);
            - "nested-json": names within names, Open Images' hierarchy too (see `readers.nested_json`);
            - "rdf": SKOS, OWL and RDFS in any common syntax (see `readers.rdf`; needs the extra `rdf`);
            - "obo": stanzas of terms (see `readers.obo`);
            - "taxdump": NCBI's nodes.dmp and names.dmp (see `readers.taxdump`);
            - "breadcrumbs": "A > B > C" a line, as Google's product taxonomy (see `readers.breadcrumbs`);
            - "auto": whichever of these the content is.

            Or a name that an installed package adds to the entry points "taxtune.readers", or such a reader itself: a
            function that takes the path and perhaps `root_label` and returns a `RawTaxonomy`.
        names: Whether to add English names to nodes with Latin labels and ranks (see `taxtune.taxonomy.names`).
        root_label: The label of the root where the format adds one ("groups", the two of iNat21, and archives with
            several roots).

    Returns:
        The tree, its nodes numbered depth first, siblings in file order.

    Raises:
        TaxonomyError: If the file cannot be read, is in none of the formats, or has a defect that breaks the tree; the
            message names the first one and how many more there are.
    """
    tree = tree_of(parse_taxonomy(path, format=format, root_label=root_label))
    return attach_english_names(tree) if names else tree


def parse_taxonomy(path: str | Path, *, format: str | Reader = "auto", root_label: str | None = None) -> RawTaxonomy:
    """Returns the statements of a taxonomy file, not yet made into a tree.

    Args:
        path: A file, folder or zip file, or "builtin:NAME".
        format: One of `FORMATS`, the name of a reader that a package adds, or a reader.
        root_label: The label of the root where the format adds one.

    Raises:
        TaxonomyError: If the file cannot be read or is in none of the formats, or a root label is given for a file that
            has a root of its own.
    """
    reader = format if callable(format) else None if format in FORMATS else find_plugin(READERS, format)
    if reader is not None:
        raw = reader(Path(path)) if root_label is None else reader(Path(path), root_label=root_label)
        if not isinstance(raw, RawTaxonomy):
            raise TaxonomyError(
                f"The reader returned a {type(raw).__name__}.", file=path, value=format, remedy="Return a RawTaxonomy."
            )
    elif format not in FORMATS or callable(format):
        names = (*FORMATS, *plugin_names(READERS))
        raise TaxonomyError("Unknown taxonomy format.", value=format, remedy=f"Use one of {', '.join(names)}.")
    else:
        raw = _parse(_resolve(path), str(path), format, root_label)
    if root_label is not None and not any(
        n.parent is None and n.row is None and n.label == root_label for n in raw.nodes
    ):
        raise TaxonomyError(
            "The file has its own root; a label can be given only for an added root.", file=raw.file, value=root_label
        )
    return raw


def _parse(file: Path, name: str, format: str, root: str | None) -> RawTaxonomy:
    if is_archive(file):
        return _parse_archive(file, name, format, root)
    archives = {kind.name: kind for kind in ARCHIVES}
    named = next((kind for kind in ARCHIVES if kind.core == file.name.lower()), None)
    if named is not None and format in ("auto", named.name) and file.is_file():
        return named.parse(Archive(file.parent), file.name, root)
    if format in ("auto", *archives) and (found := _core_of(file)) is not None:
        # A file of an archive: common names may be beside it.
        kind = found if format == "auto" else archives[format]
        return kind.parse(Archive(file.parent), file.name, root)
    if format in archives:
        read_text(file)  # says so if it is not there
        raise TaxonomyError(f"The file is not a table of {format!r}.", file=name, remedy="Give the folder or zip file.")
    source = TextFile(read_text(file), file, name, root)
    for text in TEXTS:
        if format == text.name or (format == "auto" and text.json in (None, source.is_json) and text.fits(source)):
            if text.json not in (None, source.is_json):
                break
            return text.parse(source)
    if source.is_json:
        raise _unknown_json(source)
    raise _unknown(source)


def _parse_archive(file: Path, name: str, format: str, root: str | None) -> RawTaxonomy:
    archive = Archive(file)
    for kind in ARCHIVES:
        if format == kind.name or (format == "auto" and kind.fits(archive)):
            return kind.parse(archive, None, root)
    for text in TEXTS if file.is_dir() else ():
        if text.folder and (format == text.name or (format == "auto" and set(text.folder) <= set(archive.names))):
            return _parse(file / text.folder[0], str(Path(name) / text.folder[0]), text.name, root)
    what = "a folder" if file.is_dir() else "an archive"
    raise TaxonomyError(
        f"This is {what}, not a taxonomy file.",
        file=name,
        value=", ".join(archive.names[:6]) or None,
        remedy="Give the file in it; or a Darwin Core archive (with meta.xml or taxa.csv), a ColDP package (with "
        "NameUsage.tsv), or NCBI's taxonomy (with nodes.dmp and names.dmp).",
    )


def _core_of(file: Path) -> ArchiveFormat | None:
    """Returns the format of archives whose core file this is, by its header; the file is not read to its end."""
    try:
        with file.open("rb") as stream, unpacked(stream) as text:
            packed, data = text is not stream, text.read(_PEEKED)
    except (OSError, ValueError, EOFError, zlib.error, lzma.LZMAError):
        return None
    header = set(header_of(data.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace")))
    header |= {re.split("[/:#]", name)[-1] for name in header}
    found = next((kind for kind in ARCHIVES if kind.fits_header(header)), None)
    if found is not None and packed:
        raise TaxonomyError(
            f"This is a table of the format {found.name!r}, which consists of several files.",
            file=file,
            remedy="Unpack the file, or give the whole zip file.",
        )
    return found


def _unknown_json(source: TextFile) -> TaxonomyError:
    data = source.data
    if isinstance(data, dict):
        found = f"an object (keys: {', '.join(map(repr, list(data)[:5]))}{', …' if len(data) > 5 else ''})"
    elif isinstance(data, list):
        kinds = dict.fromkeys(_kind_of(entry) for entry in data[:100])
        found = f"a list of {len(data):,} entries: {', '.join(list(kinds)[:3])}"
    else:
        found = _kind_of(data)
    return TaxonomyError(
        f"The file is JSON, but not in a known taxonomy layout: it is {found}.",
        file=source.name,
        remedy='Known are nested nodes ({"name": …, "children": […]}, or names as keys: {"bird": ["duck", "gull"]}; '
        "nested-json), Open Images' hierarchy (nested-json), iNat21's `categories` (inat21-json), and synsets with "
        "`parent_id` (imagenet-json). A flat list of labels has no hierarchy to read.",
    )


def _kind_of(entry: object) -> str:
    if isinstance(entry, dict):
        return f"objects (keys: {', '.join(map(repr, list(entry)[:5]))})"
    return {str: "texts", list: "lists", int: "numbers", float: "numbers"}.get(type(entry), repr(entry))


def _unknown(source: TextFile) -> TaxonomyError:
    columns = set(source.table.header)
    if columns & {"node1", "from", "subject"} and columns & {"node2", "to", "object"}:
        return TaxonomyError(
            "This is an edge file in KGTK's layout: a graph, in which nodes may have several parents, not a tree.",
            file=source.name,
            row=source.table.header_line,
            value=",".join(source.table.header),
            remedy="Build a tree from it with `taxtune taxonomy build FILE --out tree.csv`.",
        )
    return TaxonomyError(
        "This is not the header of a known taxonomy format.",
        file=source.name,
        row=source.table.header_line,
        value=",".join(source.table.header),
        remedy="It needs the columns child and parent (edges); or path, or level1, level2, … (paths); or ranks such as "
        "class, order, family, name (inat21-csv). For the edges of a graph, use `taxtune taxonomy build`. Files "
        "without a header are read as nabirds, groups or indented if that is given as the format.",
    )


def _resolve(path: str | Path) -> Path:
    if not str(path).startswith(_BUILTIN):
        return Path(path)
    trees = builtin_trees()
    name = str(path).removeprefix(_BUILTIN)
    if name not in trees:
        raise TaxonomyError(
            "Unknown built-in taxonomy.", value=str(path), remedy=f"Built-in taxonomies: {', '.join(trees)}."
        )
    return trees[name]
