"""`taxtune taxonomy enrich`: names that would help the mapper, to be reviewed and added."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from taxtune.cli.interrupts import keep_replies
from taxtune.cli.taxonomy_build import keep
from taxtune.errors import DataError
from taxtune.options import (
    ApiBaseOption,
    BatchSizeOption,
    CacheDirOption,
    ConcurrencyOption,
    DeviceOption,
    EnglishNamesOption,
    FileFormatOption,
    JsonOption,
    PresetOption,
    RootLabelOption,
    SimilarityOption,
    TaxonomyArgument,
    choice,
    text_model,
)
from taxtune.progress import note

if TYPE_CHECKING:
    from taxtune.authoring.enrich import Enrichment
    from taxtune.taxonomy import Taxonomy

__all__ = ["enrich"]

# taxtune.authoring.enrich.SOURCES, which would load numpy for the help; a test compares the two.
_SOURCES = ("inflection", "short", "wordnet", "kinds", "llm")


def enrich(
    file: TaxonomyArgument,
    source: Annotated[
        list[str] | None,
        typer.Option(
            "--source",
            metavar="NAME",
            help="Sources of names; repeatable: inflection (plurals, spellings), short (generic words and parents' "
            "names left out or put in front), wordnet (synonyms), kinds (WordNet's kinds of what a node is, which lead "
            "there) or llm (with --llm).",
            show_default="inflection, short, wordnet",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="FILE",
            help="File for the proposals (CSV) or, with --apply, for the tree.",
            show_default="standard output",
        ),
    ] = None,
    apply: Annotated[
        Path | None, typer.Option("--apply", metavar="CSV", help="Add these reviewed proposals to the tree.")
    ] = None,
    marked: Annotated[bool, typer.Option("--marked", help="With --apply, also add names marked as ambiguous.")] = False,
    llm: Annotated[
        str | None,
        typer.Option(
            "--llm", metavar="MODEL", help="A chat model to ask: local:MODEL, or a litellm name (PROVIDER/MODEL)."
        ),
    ] = None,
    most_kinds: Annotated[
        int,
        typer.Option("--most-kinds", min=1, help="Maximum number of kinds per node that the source kinds proposes."),
    ] = 200,
    similarity: SimilarityOption = "lexical",
    preset: PresetOption = "default",
    names: EnglishNamesOption = True,
    format: FileFormatOption = "auto",
    root_label: RootLabelOption = None,
    api_base: ApiBaseOption = None,
    concurrency: ConcurrencyOption = 8,
    device: DeviceOption = "auto",
    batch_size: BatchSizeOption = 8,
    cache_dir: CacheDirOption = None,
    as_json: JsonOption = False,
) -> None:
    """Propose other names for the nodes of a tree, to be reviewed; or add those that were.

    Only names that the mapper does not place on their node already are proposed. A name that several nodes would have
    is marked as ambiguous and not added, unless the mark is taken out of the file or --marked is given.
    """
    from taxtune.taxonomy import read_taxonomy
    from taxtune.taxonomy.convert import writer_of

    read = [Path(file), *([apply] if apply else [])]
    keep(read, out)
    if apply is not None:
        if out is not None:
            writer_of(out)
        if source or llm:
            raise DataError("--apply adds existing proposals; --source and --llm are for making proposals.")
        # Without the English names that come with taxtune: they are added when the new file is read.
        tree = read_taxonomy(file, format=format, names=False, root_label=root_label)
        _apply(tree, apply, out, marked, as_json)
        return
    if marked:
        raise DataError("--marked can be used only with --apply.")
    from taxtune.authoring.enrich import DEFAULT_SOURCES, SOURCES
    from taxtune.authoring.enrich import enrich as gather
    from taxtune.authoring.proposals import proposals_csv
    from taxtune.mapping import Mapper, MapperConfig
    from taxtune.wordnet import find_wordnet

    wanted = {choice(name, _SOURCES, "--source") for name in source or DEFAULT_SOURCES}
    if llm is not None:
        wanted.add("llm")
    elif "llm" in wanted:
        raise DataError("The source 'llm' needs a model.", remedy="Name it with --llm.")
    sources = [name for name in SOURCES if name in wanted]
    wordnet = find_wordnet()
    # What was not asked for by name may be missing.
    if wordnet is None and not source:
        sources.remove("wordnet")
    tree = read_taxonomy(file, format=format, names=names, root_label=root_label)
    model, store = None, None
    if llm is not None:
        from taxtune.models import open_replies

        keep_replies()
        model = text_model(llm, 4096, api_base=api_base, concurrency=concurrency, device=device, batch_size=batch_size)
        store = open_replies(cache_dir)
    # Without WordNet: names that only it leads to are worth having on the tree.
    config = MapperConfig(preset=preset, wordnet=False)
    mapper = Mapper(tree, similarity, config, device=device, cache_dir=cache_dir)
    found = gather(tree, mapper, sources, wordnet=wordnet, llm=model, store=store, most_kinds=most_kinds)
    for said in found.notes:
        note(said)
    text = proposals_csv(tree, found.proposals)
    _publish(tree, found, text, out, as_json)


def _publish(tree: Taxonomy, found: Enrichment, text: str, out: Path | None, as_json: bool) -> None:
    from taxtune import atomic

    said = found.suggestions
    if out is not None:
        atomic.write_text(out, text)
        print(f"taxtune: {len(found.proposals):,} proposals to review written to {out}", file=sys.stderr)
        if said is not None and said.unread:
            unread = out.with_name(f"{out.stem}.unread.jsonl")
            atomic.write_text(unread, "".join(json.dumps(one, ensure_ascii=False) + "\n" for one in said.unread))
            print(f"taxtune: {len(said.unread):,} unreadable replies written to {unread}", file=sys.stderr)
    if said is not None:
        for some, what in ((said.unread, "replies are not in the requested form"), (said.failed, "calls failed")):
            if some:
                labels = sum(len(one["labels"]) for one in some)
                note(f"{len(some):,} {what}: nothing is proposed for {labels:,} nodes. The first: {some[0]['reason']}")
    if as_json:
        print(json.dumps(found.as_dict(tree), ensure_ascii=False, indent=2))
        return
    # The proposals may be what standard output is for.
    stream = sys.stderr if out is None else sys.stdout
    print(f"{'source':12}{'new names':>10}{'found already':>15}{'proposed':>10}{'ambiguous':>11}", file=stream)
    for source, count in found.counts.items():
        cells = (count["candidates"], count["found already"], count["proposed"], count["ambiguous"])
        print(f"{source:12}{cells[0]:>10,}{cells[1]:>15,}{cells[2]:>10,}{cells[3]:>11,}", file=stream)
    if out is None:
        print(text, end="")


def _apply(tree: Taxonomy, proposals: Path, out: Path | None, marked: bool, as_json: bool) -> None:
    from taxtune.authoring.proposals import apply_proposals, read_proposals
    from taxtune.taxonomy.convert import WRITERS, write_taxonomy

    more, counts = apply_proposals(tree, read_proposals(proposals, tree), marked=marked)
    added = counts["alias"] + counts["lead"]
    summary = (
        f"{added:,} names added: {counts['alias']:,} aliases, {counts['lead']:,} that lead answers; not added: "
        f"{counts['marked']:,} marked, {counts['already there']:,} that were there"
    )
    if out is None:
        if as_json:
            raise DataError("--json prints only the counts; with --apply, also give --out for the tree.")
        print(WRITERS["paths"](more), end="")
        print(f"taxtune: {summary}", file=sys.stderr)
        return
    write_taxonomy(more, out, force=True)
    print(f"taxtune: wrote the tree to {out}", file=sys.stderr)
    print(json.dumps({"added": added, **counts}, indent=2) if as_json else summary)
