import subprocess
import sys

HEAVY = {"torch", "transformers", "mlflow", "litellm", "optuna", "open_clip", "sklearn", "scipy", "pandas", "PIL"}


def test_help_loads_nothing_heavy():
    """`taxtune --help` answers at once because of what it does not import."""
    code = (
        "import sys\n"
        "from typer.testing import CliRunner\n"
        "from taxtune.cli.app import app\n"
        "result = CliRunner().invoke(app, ['--help'])\n"
        "assert result.exit_code == 0, result.output\n"
        "assert 'compare' in result.output\n"
        f"print(sorted(set(sys.modules) & {HEAVY | {'numpy', 'pydantic', 'taxtune.taxonomy'}!r}))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_packages_for_mapping_and_metrics_import_light():
    code = (
        f"import sys, taxtune.taxonomy, taxtune.mapping, taxtune.metrics\nprint(sorted(set(sys.modules) & {HEAVY!r}))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_errors_exit_with_two_and_one_message(tmp_path):
    command = [sys.executable, "-m", "taxtune", "tune", "fieldgide"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stdout == ""
    assert "Did you mean 'fieldguide'" in done.stderr
    assert "Traceback" not in done.stderr
