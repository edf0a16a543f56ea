"""Who may import whom, and how light an import is."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src"
PACKAGES = ("agent_envs", "credit", "trainer")
MAY_IMPORT = {"agent_envs": set(), "credit": set(), "trainer": {"agent_envs", "credit"}}
COMMAND = SOURCE / "agent_envs_command.py"
MODULES = sorted(set(SOURCE.rglob("*.py")) - {COMMAND})
# What numpy and gymnasium bring along.
LIGHT = {
    "numpy",
    "cython_runtime",
    "gymnasium",
    "cloudpickle",
    "farama_notifications",
    "typing_extensions",
}
# The modules of credit whose maths is on log-probabilities or learned; they may need torch.
ON_LOG_PROBABILITIES = {
    "gae",
    "implicit",
    "kl",
    "surrogate",
    "tokens",
    "turnrd",
}


def imported(tree: ast.AST) -> set[str]:
    """Top-level packages that any import under `tree` names."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names.add(node.module.partition(".")[0])
    return names


def at_import(module: Path) -> set[str]:
    """Packages imported when the module is: not in functions, not for type checking only."""
    kept = [
        node
        for node in ast.parse(module.read_text()).body
        if not isinstance(node, (ast.FunctionDef, ast.ClassDef))
        and "TYPE_CHECKING" not in ast.unparse(node).partition("\n")[0]
    ]
    return imported(ast.Module(kept, [])) - set(sys.stdlib_module_names)


def modules_after(program: str) -> set[str]:
    """Third-party packages loaded after running `program` in a process of its own."""
    child = subprocess.run(
        [sys.executable, "-c", f"{program}\nimport sys\nprint(*sys.modules)"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert child.returncode == 0, child.stderr
    loaded = {name.partition(".")[0] for name in child.stdout.splitlines()[-1].split()}
    site = {name for name in loaded if name.startswith(("_", "sitecustomize"))}
    return loaded - site - set(sys.stdlib_module_names)


@pytest.mark.parametrize("module", MODULES, ids=lambda m: str(m.relative_to(SOURCE)))
def test_arrows_between_the_packages(module):
    package = module.relative_to(SOURCE).parts[0]
    others = (imported(ast.parse(module.read_text())) & set(PACKAGES)) - {package}
    assert others <= MAY_IMPORT[package]


def test_the_command_starts_with_the_standard_library_and_calls_the_trainer():
    assert not at_import(COMMAND)
    assert imported(ast.parse(COMMAND.read_text())) & set(PACKAGES) == {"trainer"}


@pytest.mark.parametrize(
    "module", [m for m in MODULES if "agent_envs" in m.parts], ids=lambda m: m.stem
)
def test_environments_import_gymnasium_and_numpy_only(module):
    assert at_import(module) <= {"gymnasium", "numpy", "agent_envs", "env_assets"}


@pytest.mark.parametrize(
    "module", [m for m in MODULES if "credit" in m.parts], ids=lambda m: m.stem
)
def test_credit_imports_numpy_and_more_only_where_it_says(module):
    extra = {"gymnasium"} if module.stem == "wrappers" else set()
    extra |= {"torch"} if module.stem in ON_LOG_PROBABILITIES else set()
    assert at_import(module) <= {"numpy", "credit"} | extra


@pytest.mark.parametrize(
    ("program", "allowed"),
    [
        ("import agent_envs", LIGHT | {"agent_envs"}),
        ("import agent_envs.testing", LIGHT | {"agent_envs"}),
        (
            "import gymnasium\nenv = gymnasium.make('agent_envs:AlfWorld-v0')\nenv.reset(seed=1)",
            LIGHT | {"agent_envs", "env_assets"},
        ),
        ("import credit", LIGHT | {"credit"}),
    ],
    ids=["agent_envs", "testing", "AlfWorld", "credit"],
)
def test_what_an_import_loads(program, allowed):
    assert modules_after(program) <= allowed


@pytest.mark.parametrize("package", ["agent_envs", "credit"])
def test_no_torch_and_no_other_layer_is_needed(package):
    absent = ["torch", "transformers", "pydantic", "scipy", *PACKAGES]
    absent.remove(package)
    blocked = "\n".join(f"sys.modules[{name!r}] = None" for name in absent)
    modules_after(f"import sys\n{blocked}\nimport {package}")


def test_an_environment_is_loaded_only_when_it_is_made():
    program = "import agent_envs, sys\nassert not any('alfworld' in name for name in sys.modules)"
    modules_after(program)
