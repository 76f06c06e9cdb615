"""Bad input, as a user meets it: every command through the command line's own entry, with its exit code and words.

Whatever is wrong is one message that names file, row, value and remedy and exit code 2; there is no traceback, and
nothing that the command had begun to write is left behind.
"""

from __future__ import annotations

import base64
import io
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import zlib
from collections.abc import Callable

import pytest
from PIL import Image

from tests import servers
from tests.cli.commands import Done, run_captured
from tests.cli.processes import Started
from tests.servers import OpenAIServer
from tests.tuning.toy import make_files

START = [sys.executable, "-c", "from taxtune.cli import main; main()"]


Run = Callable[..., Done]


@pytest.fixture
def taxtune(tmp_path, monkeypatch):
    """Runs the command line in an empty folder; what tests write lies in `in`, and `--out out` is where it may."""
    monkeypatch.chdir(tmp_path)
    return run_captured


@pytest.fixture
def inputs(tmp_path):
    """A folder with a recipe for coloured squares and a model behind an API at which nothing listens."""
    return make_inputs(tmp_path / "in")


def make_inputs(folder):
    recipe = make_files(folder)
    lines = recipe.read_text().splitlines()
    api = "vlm: {kind: api, model: openai/test, api_base: 'http://127.0.0.1:1/v1', max_retries: 0, timeout: 5}"
    recipe.write_text("\n".join(api if line.startswith("vlm:") else line for line in lines) + "\n")
    return folder


def refused(done, *words, out=None):
    """The command said what is wrong, in one message, and left nothing behind.

    Its words may be parted by "|".
    """
    said = done.err + done.out
    assert done.code == 2, said
    assert "Traceback" not in said
    missing = [word for word in "|".join(words).split("|") if word not in said]
    assert not missing, f"{missing} not in: {said}"
    if out is not None:
        assert not out.exists(), sorted(map(str, out.rglob("*")))


def answer(request):
    """Looks at the image, as a model would; gives a new template where there is none."""
    content = request["messages"][-1]["content"]
    if isinstance(content, str):
        template = (
            f"Name the {{{{ domain }}}} that you see. {zlib.crc32(json.dumps(request).encode())}"
        )
        return servers.text(f"```jinja\n{template}\n```")
    url = next(part["image_url"]["url"] for part in content if part["type"] == "image_url")
    image = Image.open(io.BytesIO(base64.b64decode(url.split(",", 1)[1]))).convert("RGB")
    red, _, blue = image.getpixel((0, 0))
    return servers.text("A: scarlet." if red > blue else "A: azure.")


# -- recipes -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("tuning: 8", "tunning: 8", ":4|data.tunning: unknown key; did you mean 'tuning'?"),
        ("path: tree.csv", "path: gone.csv", "gone.csv|The taxonomy file does not exist"),
        (
            "path: tree.csv",
            "path: '${TAXTUNE_NOT_SET}/tree.csv'",
            "TAXTUNE_NOT_SET|not set|export",
        ),
        ("tuning: 8", "tuning: 80", "need 92 different images, but there are 20|at most 20"),
        (
            "path: tree.csv",
            "path: tree.csv, domain: scarlett",
            "tree.csv|Did you mean 'scarlet'?",
        ),
        ("What is this?", "{{ nope }}", "prompt.baseline|unknown variable 'nope'"),
        (
            "timeout: 5",
            "concurrency: many",
            ":|vlm.concurrency: must be auto, or a whole number that is at least 1",
        ),
    ],
)
def test_wrong_keys_and_values(taxtune, inputs, tmp_path, old, new, words):
    recipe = inputs / "recipe.yaml"
    edit("recipe.yaml", old, new)(inputs)
    refused(taxtune("tune", recipe, "--out", "out"), words, out=tmp_path / "out")
    if not words.startswith(":"):
        refused(taxtune("tune", recipe, "--out", "out", "--dry-run"), words, out=tmp_path / "out")


# -- manifests ---------------------------------------------------------------------------------------------------------


MANIFESTS = {
    "label": (
        lambda text: f"{text}navy9.png,nayv\n",
        "'nayv' (row 22)|did you mean 'navy'?",
    ),
    "column": (
        lambda text: text.replace("image,label", "img,label"),
        "manifest.csv|Did you mean 'img'?",
    ),
    "conflict": (lambda text: f"{text}navy0.png,azure\n", "two labels|'navy'|'azure'"),
    "short": (lambda text: f"{text}navy0.png\n", "row 22: no label|Fill in the values"),
    "long": (
        lambda text: f"{text}navy0.png,navy,,blue\n",
        "manifest.csv:22|4 cells, the header 3",
    ),
    "empty": (lambda text: "", "manifest.csv|is empty"),
    "latin-1": (
        lambda text: f"{text}navy0.png,nävy\n".encode("latin-1"),
        "manifest.csv:22|not UTF-8",
    ),
}


@pytest.mark.parametrize("name", MANIFESTS)
def test_manifests_that_do_not_do(taxtune, inputs, tmp_path, name):
    make, words = MANIFESTS[name]
    manifest = inputs / "manifest.csv"
    content = make(manifest.read_text())
    manifest.write_bytes(content if isinstance(content, bytes) else content.encode())
    refused(taxtune("tune", inputs / "recipe.yaml", "--out", "out"), words, out=tmp_path / "out")


# -- taxonomies --------------------------------------------------------------------------------------------------------


TREES = {
    "cycle": (
        "child,parent\nroot,\na,b\nb,a\n",
        "tree.csv:3|2 nodes are their own ancestors|a → b → a|rows 3, 4",
    ),
    "siblings": (
        "child,parent,label\nr,,r\na,r,x\nb,r,x\n",
        "tree.csv:4|Row 3 already gives a node with this label",
    ),
    "dangling": ("child,parent\nr,\na,gone\n", "tree.csv:3|No row defines the parent 'gone'"),
    "header": (
        "foo,bar\n1,2\n",
        "tree.csv:1|not the header of a known taxonomy format|child and parent",
    ),
    "empty": ("", "tree.csv|is empty"),
}


@pytest.mark.parametrize("name", TREES)
def test_taxonomies_that_are_no_trees(taxtune, inputs, tmp_path, name):
    content, words = TREES[name]
    tree = inputs / "tree.csv"
    tree.write_text(content)
    for command in (
        ["taxonomy", "check", tree],
        ["tune", inputs / "recipe.yaml", "--out", "out"],
        ["place", "-t", tree],
    ):
        refused(taxtune(*command, stdin=b"navy\n"), words, out=tmp_path / "out")


# -- templates ---------------------------------------------------------------------------------------------------------

TEMPLATES = {
    "syntax": ("{% if %}", "Syntax error in line 1"),
    "variable": (
        "What\n{{ nope }}?",
        "Line 2: unknown variable 'nope'. Known names: question, domain, ranks, examples",
    ),
    "long": ("x" * 100_000, "more than 8,000"),
    "binary": (b"What\n\xff?", "template.j2:2: The template file is not UTF-8"),
    "gone": (None, "does not exist"),
}


@pytest.mark.parametrize("name", TEMPLATES)
def test_templates_that_are_refused(taxtune, inputs, tmp_path, name):
    content, words = TEMPLATES[name]
    file = tmp_path / "template.j2"
    if content is not None:
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
    done = taxtune("evaluate", inputs / "recipe.yaml", "--template", file, "--out", "out")
    refused(done, "template.j2", words, out=tmp_path / "out")


# -- servers -----------------------------------------------------------------------------------------------------------

TROUBLE = {
    "401": (servers.status(401), "rejected the key|(401)|Check OPENAI_API_KEY"),
    "404": (servers.status(404), "was not found|Check the model's name and `api_base`"),
    "429-for-an-hour": (
        servers.status(429, retry_after=3600),
        "it asks to wait 3600 s|--resume",
    ),
    "500": (servers.status(500), "failed (500)|--resume"),
    "hangs": (servers.slow(60), "did not answer in time|--resume"),
    "html": (servers.html(), "a web page instead of an answer|api_base"),
    "dropped": (servers.dropped(), "cannot be reached|--resume"),
}
#: What a proposer's reply may be too: there it is a bad template, and the iteration fails.
VLM_TROUBLE = {
    **TROUBLE,
    "refusal": (servers.model_refusal(), "refused: I can't assist|change prompt.baseline"),
}


@pytest.mark.parametrize("name", VLM_TROUBLE)
def test_a_model_that_does_not_answer_leaves_nothing(taxtune, inputs, tmp_path, name):
    reply, words = VLM_TROUBLE[name]
    patience = 0.4 if reply.delay else 20  # seconds: few where it never comes
    with OpenAIServer(then=reply) as server:
        given = ["--set", f"vlm.api_base={server.api_base}", "--set", f"vlm.timeout={patience}"]
        done = taxtune("tune", inputs / "recipe.yaml", *given, "--out", "deep/out")
    refused(done, words, "'openai/test'", out=tmp_path / "deep")


@pytest.mark.parametrize("name", ["401", "dropped"])
def test_a_proposer_that_does_not_answer_stops_the_run_which_goes_on(
    taxtune, inputs, tmp_path, name, monkeypatch
):
    monkeypatch.setattr("taxtune.models.base.RetryPolicy.wait", lambda *_: 0.0)
    trouble, words = TROUBLE[name]
    well = False

    def reply(request):
        asked = isinstance(request["messages"][-1]["content"], str)
        return trouble if asked and not well else answer(request)

    with OpenAIServer(reply) as server:
        proposer = f"kind: llm, model: openai/test, api_base: '{server.api_base}'"
        command = ["tune", inputs / "recipe.yaml", "--out", "out", "--set", "iterations=1"]
        command += ["--set", f"vlm.api_base={server.api_base}"]
        command += ["--set", f"proposer={{{proposer}}}"]
        done = taxtune(*command)
        refused(done, "The proposer's model 'openai/test'", words)
        assert "Finished work is saved. Continue with: taxtune tune" in done.err
        (baseline,) = (tmp_path / "out/history.jsonl").read_text().splitlines()
        assert json.loads(baseline)["iteration"] == 0
        assert not (tmp_path / "out/result.json").exists()
        refused(taxtune(*command), "already holds a tuning run", "--resume")
        if name == "401":
            well = True
            asked = len(server.chats)
            assert taxtune(*command, "--resume").code == 0
            # The baseline's answers are kept.
            held_out = 12 * 2
            assert len(server.chats) - asked <= 1 + 8 + held_out


# -- output ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def template(tmp_path):
    file = tmp_path / "t.j2"
    file.write_text("Which one?")
    return file


def commands(inputs, template):
    recipe = inputs / "recipe.yaml"
    return [
        ["tune", recipe],
        ["tune", recipe, "--dry-run"],
        ["compare", recipe],
        ["evaluate", recipe, "--template", template],
    ]


@pytest.mark.parametrize(
    ("where", "words"), [("file", "nothing was written"), ("file/below", "Not a directory")]
)
def test_output_that_cannot_be_a_folder(taxtune, inputs, template, tmp_path, where, words):
    (tmp_path / "file").write_text("mine")
    before = sorted(tmp_path.iterdir())
    for command in commands(inputs, template):
        refused(taxtune(*command, "--out", where), words, "--out")
    assert sorted(tmp_path.iterdir()) == before
    assert (tmp_path / "file").read_text() == "mine"


# -- resuming ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A folder with inputs in `in` and a finished run in `out`; to be copied, not to be touched."""
    folder = tmp_path_factory.mktemp("finished")
    inputs = make_inputs(folder / "in")
    with OpenAIServer(answer) as server:
        recipe = inputs / "recipe.yaml"
        recipe.write_text(recipe.read_text().replace("http://127.0.0.1:1/v1", server.api_base))
        arguments = ("tune", "in/recipe.yaml", "--set", "iterations=1", "--out", "out")
        done = run_captured(*arguments, "--answers", "kept.db", folder=folder)
    assert done.code == 0, done.err
    return folder


def edit(file, old, new):
    def apply(folder):
        text = (folder / file).read_text()
        assert old in text
        (folder / file).write_text(text.replace(old, new))

    return apply


def repaint(folder):
    for file in folder.glob("navy*.png"):
        Image.new("RGB", (16, 16), (9, 9, 9 + int(file.stem[-1]))).save(file)


def add_image(folder):
    Image.new("RGB", (16, 16), (7, 7, 7)).save(folder / "new.png")
    with (folder / "manifest.csv").open("a") as stream:
        stream.write("new.png,navy\n")


def contents(folder):
    return {
        str(file.relative_to(folder)): (file.read_bytes(), file.stat().st_mtime_ns)
        for file in folder.rglob("*")
        if file.is_file()
    }


CHANGES = {
    "objective": (edit("recipe.yaml", "kind: hp", "kind: hf"), 'objective: was "hp", is "hf"'),
    "model": (
        edit("recipe.yaml", "model: openai/test", "model: openai/tests"),
        'vlm.model: was "openai/test"',
    ),
    "split": (edit("recipe.yaml", "tuning: 8", "tuning: 7"), "  data.tuning: was 8, is 7\n"),
    "image": (repaint, "new images: navy0.png; navy1.png; navy2.png; and |images gone: navy0.png"),
    "new image": (add_image, "1 new image: new.png"),
    "label": (
        edit("manifest.csv", "navy0.png,navy", "navy0.png,azure"),
        "1 label changed: navy0.png: navy → azure",
    ),
    "taxonomy": (
        edit("tree.csv", "azure,bluish", "azure,reddish"),
        "1 new node: colour/reddish/azure|1 node gone: colour/bluish/azure",
    ),
    "fragments": (
        edit("toy.yaml", "Be careful", "Take care"),
        "proposer.fragments_digest: the content has changed",
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_run_does_not_go_on_with_other_inputs_and_says_which(taxtune, finished, tmp_path, name):
    apply, words = CHANGES[name]
    shutil.copytree(finished, tmp_path, dirs_exist_ok=True)
    apply(tmp_path / "in")
    history = (tmp_path / "out/history.jsonl").read_bytes()
    command = ("tune", "in/recipe.yaml", "--set", "iterations=2", "--out", "out", "--resume")
    done = taxtune(*command)
    new = "  taxtune tune in/recipe.yaml --set iterations=2 --out out-2 --answers kept.db\n"
    refused(done, "made with other data or another recipe", words, new)
    assert "images: the content has changed" not in done.err
    assert (tmp_path / "out/history.jsonl").read_bytes() == history
    # The dry run says the same, and leaves no trace.
    before = contents(tmp_path)
    dry = taxtune(*command, "--dry-run")
    assert dry.code == 2
    said = done.err.partition("out: ")[2].strip()
    assert said in dry.out, (said, dry.out)
    assert contents(tmp_path) == before


def test_a_dry_run_of_what_can_go_on_finds_no_problem(taxtune, finished, tmp_path):
    shutil.copytree(finished, tmp_path, dirs_exist_ok=True)
    command = ("tune", "in/recipe.yaml", "--out", "out", "--resume", "--dry-run", "--set")
    assert taxtune(*command, "iterations=2").code == 0


def test_a_finished_run_is_not_overwritten_unasked(taxtune, finished, tmp_path):
    shutil.copytree(finished, tmp_path, dirs_exist_ok=True)
    command = ("tune", "in/recipe.yaml", "--out", "out")
    for more in ([], ["--dry-run"]):
        refused(taxtune(*command, *more), "already holds a tuning run|--resume|--out")
    refused(taxtune(*command, "--set", "data.path=gone.csv"), "already holds")
    # That was another command.
    assert "kept" not in taxtune(*command).err


# -- tracking ----------------------------------------------------------------------------------------------------------


def test_a_tracking_server_that_is_not_there(taxtune, inputs, tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:1")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    command = ["tune", inputs / "recipe.yaml", "--set", "tracking.mlflow=true", "--out", "out"]
    words = "MLflow|http://127.0.0.1:1|nothing is listening there|MLFLOW_TRACKING_URI"
    for more in ([], ["--dry-run"]):
        refused(taxtune(*command, *more), words, out=tmp_path / "out")


# -- streams and signals, which need a process of their own ------------------------------------------------------------


def test_a_reader_that_has_had_enough_ends_the_command_quietly(inputs, tmp_path):
    (tmp_path / "a.txt").write_text("navy\n" * 3_000)
    process = subprocess.Popen(
        [*START, "place", "-t", inputs / "tree.csv", tmp_path / "a.txt"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    said = process.stderr.read().decode()
    assert process.wait() == 1
    assert "Traceback" not in said
    assert "Error" not in said


@pytest.mark.heavy
@pytest.mark.parametrize(
    "process", [False, pytest.param(True, marks=pytest.mark.heavy)], ids=["here", "process"]
)
def test_ctrl_c_in_the_middle_says_how_to_go_on_and_ends_what_is_recorded(
    taxtune, inputs, tmp_path, process
):
    history = tmp_path / "out/history.jsonl"
    stop = [lambda: os.kill(os.getpid(), signal.SIGINT)]

    def reply(request):
        if not history.exists() or not stop:
            return answer(request)
        stop.pop()()
        return servers.slow(60)

    with OpenAIServer(reply) as server:
        command = ["tune", "in/recipe.yaml", "--out", "out", "--set", "tracking.mlflow=true"]
        command += ["--set", f"vlm.api_base={server.api_base}"]
        if process:
            started = Started(*command, folder=tmp_path)
            stop[0] = started.interrupt
            done = started.wait(60)
        else:
            done = taxtune(*command)
        assert done.code == 130, done.err
        saved = "stopped; finished work is saved. Continue with: taxtune tune in/recipe.yaml"
        assert saved in done.err
        assert "Traceback" not in done.err
        assert not (tmp_path / "out/result.json").exists()
        assert "KILLED" in statuses(tmp_path / "out/mlflow.db")
        assert "RUNNING" not in statuses(tmp_path / "out/mlflow.db")
        done = taxtune(*command, "--resume")
    assert done.code == 0, done.err
    assert (tmp_path / "out/result.json").exists()
    assert set(statuses(tmp_path / "out/mlflow.db")) == {"FINISHED"}


def statuses(file):
    query = "SELECT status FROM runs WHERE lifecycle_stage = 'active'"
    with sqlite3.connect(file) as database:
        return [status for (status,) in database.execute(query)]
