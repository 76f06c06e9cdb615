"""`taxtune taxonomy from-labels`: a tree for a flat list of labels."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
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
    DeviceOption,
    JsonOption,
    text_model,
)
from taxtune.progress import note
from taxtune.shell import command

if TYPE_CHECKING:
    from taxtune.authoring.choices import Choice
    from taxtune.authoring.from_labels import LabelTree
    from taxtune.authoring.labels import Label

__all__ = ["from_labels"]


def from_labels(
    labels: Annotated[
        Path,
        typer.Argument(
            metavar="LABELS",
            help="A text file with one label per line, a CSV with a column label, or a folder of images with one "
            "sub-folder a label.",
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="FILE", help="File to write the tree to, as CSV.", show_default="standard output"
        ),
    ] = None,
    synsets: Annotated[
        Path | None,
        typer.Option("--synsets", metavar="CSV", help="The synset file of an earlier call, with your edits."),
    ] = None,
    synsets_out: Annotated[
        Path | None,
        typer.Option(
            "--synsets-out",
            metavar="FILE",
            help="File for the synset of each label, with its gloss and alternatives, for you to edit.",
            show_default="beside the tree, as TREE.synsets.csv",
        ),
    ] = None,
    max_depth: Annotated[
        int, typer.Option("--max-depth", min=0, help="Maximum number of levels below the root; 0 for no limit.")
    ] = 6,
    min_children: Annotated[
        int, typer.Option("--min-children", min=2, help="Groups with fewer children are removed.")
    ] = 2,
    root_label: Annotated[str | None, typer.Option("--root-label", metavar="LABEL", help="Label of the root.")] = None,
    llm: Annotated[
        str | None,
        typer.Option(
            "--llm",
            metavar="MODEL",
            help="Let a chat model group the labels instead of WordNet: local:MODEL or PROVIDER/MODEL.",
        ),
    ] = None,
    api_base: ApiBaseOption = None,
    device: DeviceOption = "auto",
    batch_size: BatchSizeOption = 8,
    cache_dir: CacheDirOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make a tree for labels that have none, from what WordNet says they are kinds of, or as a chat model sorts them.

    The senses of all labels are chosen together: those that agree best with one another. Every label is on the tree;
    one that WordNet does not have stands below its head noun ("wedding cake": cake), or else below the root.
    """
    from taxtune.authoring.from_labels import tree_by_wordnet
    from taxtune.authoring.labels import read_labels
    from taxtune.taxonomy.convert import writer_of

    if llm is not None and (synsets is not None or synsets_out is not None):
        raise DataError("--synsets and --synsets-out need WordNet, and --llm replaces it.")
    if synsets_out is None and out is not None and llm is None:
        synsets_out = out.with_name(f"{out.stem}.synsets.csv")
        if synsets is not None and synsets.resolve() == synsets_out.resolve():
            synsets_out = None  # it is kept as it was edited
    if out is not None:
        writer_of(out)
    keep([labels, *([synsets] if synsets else [])], out, synsets_out)
    found = read_labels(labels)
    depth = max_depth or None
    unread: list[dict[str, object]] = []
    choices: list[Choice] = []
    if llm is None:
        choices, tree = tree_by_wordnet(
            found, synsets, root_label=root_label, max_depth=depth, min_children=min_children
        )
    else:
        tree, unread = _by_model(llm, found, root_label, depth, min_children, api_base, device, batch_size, cache_dir)
        tree.check(found)
    for said in tree.notes:
        note(said)
    _publish(found, tree, choices, unread, out, synsets_out, as_json)


def _by_model(
    llm: str,
    labels: Sequence[Label],
    root_label: str | None,
    max_depth: int | None,
    min_children: int,
    api_base: str | None,
    device: str,
    batch_size: int,
    cache_dir: Path | None,
) -> tuple[LabelTree, list[dict[str, object]]]:
    from taxtune.authoring.from_labels import tree_from_paths
    from taxtune.authoring.grouping import group_labels
    from taxtune.models import open_replies

    keep_replies()
    model = text_model(llm, 8192, api_base=api_base, device=device, batch_size=batch_size)
    paths, unread = group_labels(
        model,
        labels,
        max_depth=max_depth,
        min_children=min_children,
        store=open_replies(cache_dir),
    )
    tree = tree_from_paths(labels, paths, root_label=root_label, max_depth=max_depth, min_children=min_children)
    return tree, unread


def _publish(
    labels: Sequence[Label],
    tree: LabelTree,
    choices: Sequence[Choice],
    unread: list[dict[str, object]],
    out: Path | None,
    synsets_out: Path | None,
    as_json: bool,
) -> None:
    from taxtune import atomic
    from taxtune.authoring.choices import choice_lines, choices_csv
    from taxtune.taxonomy.convert import WRITERS, write_taxonomy

    taxonomy = tree.taxonomy
    if out is not None:
        write_taxonomy(taxonomy, out, force=True)
        print(f"taxtune: wrote the tree to {out}", file=sys.stderr)
    if synsets_out is not None and choices:
        atomic.write_text(synsets_out, choices_csv(choices))
        print(
            f"taxtune: wrote the synset of each label to {synsets_out}: edit the file and pass it with --synsets",
            file=sys.stderr,
        )
    if unread:
        note(f"{len(unread):,} replies could not be used and were requested again. The first: {unread[0]['reason']}")
    if as_json:
        facts = {
            "labels": len(labels),
            "nodes": len(taxonomy),
            "height": taxonomy.height,
            "notes": list(tree.notes),
            "unread": unread,
            "paths": {label.name: list(taxonomy.path(tree.nodes[label.name])) for label in labels},
            "synsets": [row.as_dict() for row in choices],
        }
        print(json.dumps(facts, ensure_ascii=False, indent=2))
        return
    # The tree may be what standard output is for.
    stream = sys.stderr if out is None else sys.stdout
    repeated = sum(len(label.written) - 1 for label in labels)
    groups = len(taxonomy) - 1 - len(labels)
    print(
        f"labels   {len(labels):,}" + (f", {repeated:,} of them spelled in several ways" if repeated else ""),
        file=stream,
    )
    print(f"tree     {len(taxonomy):,} nodes: {groups:,} groups, height {taxonomy.height}", file=stream)
    if choices:
        print(*choice_lines(choices), sep="\n", file=stream)
    if out is None:
        print(WRITERS["paths"](taxonomy), end="")
    else:
        shown = command("taxonomy", "show", out, "--depth", str(taxonomy.height))
        print(f"View it with: {shown}", file=stream)
