"""No reader of files opens a connection, whatever a file says, and no model's folder has its own code run."""

from __future__ import annotations

import json
import shutil
import socket
import zipfile
from contextlib import suppress

import pytest
from PIL import Image

from taxtune.data import load_image
from taxtune.encoders.sentence import SentenceEncoder
from taxtune.errors import ModelError, TaxonomyError, TaxtuneError
from taxtune.recipe import load_recipe
from taxtune.tables import read_table
from taxtune.taxonomy import read_taxonomy
from tests.tiny_text_models import make_sentence_model

ELSEWHERE = "http://127.0.0.1:9/context"
SKOS = "http://www.w3.org/2004/02/skos/core#"
CONTEXT = {
    "broader": {"@id": f"{SKOS}broader", "@type": "@id"},
    "prefLabel": f"{SKOS}prefLabel",
    "id": "@id",
}
CONCEPTS = [
    {"id": "urn:bird", "@type": f"{SKOS}Concept", "prefLabel": "bird"},
    {"id": "urn:wren", "@type": f"{SKOS}Concept", "prefLabel": "wren", "broader": "urn:bird"},
]


@pytest.fixture(autouse=True)
def attempts(monkeypatch):
    """What was to be connected to or looked up: nothing."""
    tried = []

    def refuse(*given, **how):
        tried.append(given)
        raise OSError("a connection was opened")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket.socket, "connect_ex", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    yield tried
    assert not tried


# -- JSON-LD -----------------------------------------------------------------------------------------------------------


def json_ld(folder, context, **more):
    file = folder / "tree.jsonld"
    file.write_text(json.dumps({"@context": context, "@graph": CONCEPTS, **more}))
    return file


def test_a_context_in_the_file_is_read(tmp_path):
    pytest.importorskip("rdflib")
    tree = read_taxonomy(json_ld(tmp_path, [CONTEXT, None, CONTEXT]))
    assert [tree.labels[node] for node in range(len(tree))] == ["bird", "wren"]


@pytest.mark.parametrize(
    "context",
    [
        ELSEWHERE,
        "context.json",
        [CONTEXT, ELSEWHERE],
        [[CONTEXT, [ELSEWHERE]]],
        {**CONTEXT, "@import": ELSEWHERE},
        {**CONTEXT, "part": {"@id": "urn:part", "@context": ELSEWHERE}},
        {
            **CONTEXT,
            "part": {
                "@id": "urn:part",
                "@context": [{}, {"x": {"@id": "urn:x", "@context": ELSEWHERE}}],
            },
        },
        [CONTEXT, "file:///etc/hostname"],
    ],
)
def test_a_context_from_elsewhere_is_refused(tmp_path, context):
    pytest.importorskip("rdflib")
    (tmp_path / "context.json").write_text(json.dumps({"@context": CONTEXT}))
    with pytest.raises(
        TaxonomyError, match=r"tree\.jsonld: The file takes a context from elsewhere"
    ):
        read_taxonomy(json_ld(tmp_path, context))


def test_a_context_far_down_is_found(tmp_path):
    pytest.importorskip("rdflib")
    within = {"@context": ELSEWHERE}
    for _ in range(300):
        within = {"urn:x": [within]}
    with pytest.raises(TaxonomyError, match="from elsewhere"):
        read_taxonomy(json_ld(tmp_path, CONTEXT, **{"urn:y": within}))


@pytest.mark.parametrize("hidden", ["[" * 20_000 + "]" * 20_000, "1" * 10_000])
def test_what_only_another_parser_reads_is_refused(tmp_path, hidden):
    pytest.importorskip("rdflib")
    file = tmp_path / "tree.jsonld"
    file.write_text(f'{{"@context": "{ELSEWHERE}", "urn:x": {hidden}}}')
    with pytest.raises(TaxonomyError):
        read_taxonomy(file)


# -- other files -------------------------------------------------------------------------------------------------------

RDF = f"""<?xml version="1.0"?>
<?xml-stylesheet href="{ELSEWHERE}"?>
<!DOCTYPE rdf:RDF SYSTEM "{ELSEWHERE}">
<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:rdfs="http://www.w3.org/2000/01/rdf-schema#"
         xmlns:owl="http://www.w3.org/2002/07/owl#" xmlns:xi="http://www.w3.org/2001/XInclude" xml:base="{ELSEWHERE}">
  <owl:Ontology rdf:about="urn:o"><owl:imports rdf:resource="{ELSEWHERE}"/></owl:Ontology>
  <owl:Class rdf:about="urn:bird"><rdfs:label>bird</rdfs:label><xi:include href="{ELSEWHERE}"/></owl:Class>
</rdf:RDF>
"""
TURTLE = f"""@prefix owl: <http://www.w3.org/2002/07/owl#> .
@prefix skos: <{SKOS}> .
<{ELSEWHERE}> a owl:Ontology ; owl:imports <{ELSEWHERE}> .
<urn:bird> a skos:Concept ; skos:prefLabel "bird" .
<urn:wren> a skos:Concept ; skos:prefLabel "wren" ; skos:broader <urn:bird> .
"""
OBO = f"""format-version: 1.2
import: {ELSEWHERE}

[Term]
id: A:1
name: bird

[Term]
id: A:2
is_a: A:1
name: wren
"""
TREES = {
    "tree.owl": RDF,
    "tree.ttl": TURTLE,
    "tree.n3": TURTLE,
    "tree.trig": TURTLE,
    "tree.obo": OBO,
    "tree.csv": f"path\nbird/wren\nbird/{ELSEWHERE.replace('/', '')}\n",
    "tree.json": json.dumps({"$ref": ELSEWHERE, "name": "bird", "children": [{"name": "wren"}]}),
}


@pytest.mark.parametrize("name", TREES)
def test_no_tree_is_read_from_elsewhere(tmp_path, name):
    pytest.importorskip("rdflib")
    pytest.importorskip("obonet")
    (tmp_path / name).write_text(TREES[name])
    quietly(lambda: read_taxonomy(tmp_path / name))


def test_no_table_picture_or_recipe_is_read_from_elsewhere(tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.active.append(["answer", "image"])
    book.active.append([f'=WEBSERVICE("{ELSEWHERE}")', ELSEWHERE])
    book.active["A2"].hyperlink = ELSEWHERE
    book.save(tmp_path / "a.xlsx")
    with zipfile.ZipFile(tmp_path / "a.xlsx", "a") as parts:
        parts.writestr(
            "xl/externalLinks/externalLink1.xml", f'<externalLink r:href="{ELSEWHERE}"/>'
        )
    (tmp_path / "a.csv").write_text(f"answer,image\nwren,{ELSEWHERE}\n")
    (tmp_path / "a.jsonl").write_text(json.dumps({"answer": "wren", "$ref": ELSEWHERE}) + "\n")
    Image.new("RGB", (9, 9)).save(tmp_path / "a.png", pnginfo=None)
    (tmp_path / "a.yaml").write_text(
        f"name: x\nextends: {ELSEWHERE}\ndata: {{kind: folder, path: {ELSEWHERE!r}}}\n"
    )
    for name in ("a.xlsx", "a.csv", "a.jsonl"):
        read_table(tmp_path / name)
        quietly(lambda name=name: read_taxonomy(tmp_path / name))
    load_image(tmp_path / "a.png")
    quietly(lambda: load_image(ELSEWHERE))
    quietly(lambda: read_taxonomy(ELSEWHERE))
    quietly(lambda: load_recipe(tmp_path / "a.yaml"))


def quietly(read):
    """Reads what may be refused."""
    with suppress(TaxtuneError):
        read()


# -- code in a model's folder ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    pytest.importorskip("sentence_transformers")
    return make_sentence_model(tmp_path_factory.mktemp("encoder"))


@pytest.fixture
def encoder(made, tmp_path):
    return shutil.copytree(made, tmp_path / "encoder")


def test_a_sentence_encoder_is_read_from_its_folder_alone(encoder):
    assert SentenceEncoder(str(encoder), device="cpu").texts(["a wren"]).shape[0] == 1


@pytest.mark.parametrize("kind", ["own.Mean", "transformers_modules.own.Mean"])
def test_a_sentence_encoder_with_code_of_its_own_is_refused(encoder, kind):
    folder, ran = encoder, encoder.parent / "ran"
    code = f"open({str(ran)!r}, 'w')\nfrom sentence_transformers.models import Pooling as Mean\n"
    (folder / "own.py").write_text(code)
    modules = json.loads((folder / "modules.json").read_text())
    modules[1]["type"] = kind
    (folder / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(ModelError, match="brings code of its own, which is not run"):
        SentenceEncoder(str(folder), device="cpu")
    assert not ran.exists()


def test_a_transformer_in_it_is_refused_as_well(encoder):
    folder, ran = encoder, encoder.parent / "ran"
    (config,) = (file for file in folder.rglob("config.json") if "model_type" in file.read_text())
    (config.parent / "own.py").write_text(f"open({str(ran)!r}, 'w')\n")
    names = {
        "auto_map": {"AutoConfig": "own.Config", "AutoModel": "own.Model"},
        "model_type": "own",
    }
    config.write_text(json.dumps(json.loads(config.read_text()) | names))
    for extra in folder.rglob("sentence_bert_config.json"):
        stated = json.loads(extra.read_text())
        trusting = {"trust_remote_code": True}
        extra.write_text(
            json.dumps(stated | {"model_args": trusting, "config_args": trusting, **trusting})
        )
    with pytest.raises(ModelError):
        SentenceEncoder(str(folder), device="cpu")
    assert not ran.exists()
