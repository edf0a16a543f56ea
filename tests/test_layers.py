"""Who may import whom, and how light an import is."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
MAY_IMPORT = {
    "agent_envs": set(),
    "credit": set(),
    "trainer": {"agent_envs", "credit"},
    "agent_envs_lab": {"agent_envs", "credit", "trainer"},
    "agent_envs_adapters": {"agent_envs", "credit", "trainer"},
    "tools": {"agent_envs", "credit", "trainer", "agent_envs_lab"},
}
FILES = {
    ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__"): path
    for root in (ROOT / "src", ROOT)
    for package in MAY_IMPORT
    for path in sorted((root / package).rglob("*.py"))
}
COMMAND = ROOT / "src" / "agent_envs_command.py"

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
ON_LOG_PROBABILITIES = {"gae", "losses", "turnrd"}


@cache
def modules() -> dict[str, ast.Module]:
    """The parsed modules of the four packages by dotted name."""
    return {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in FILES.items()}


@cache
def imported(tree: ast.AST) -> set[str]:
    """Dotted names that the imports under `tree` name, `a.b.c` for `from a.b import c`."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def packages(names: set[str]) -> set[str]:
    """The top-level packages of dotted names, those of the standard library left out."""
    return {name.partition(".")[0] for name in names} - set(sys.stdlib_module_names)


def at_import(tree: ast.Module) -> set[str]:
    """Packages imported when the module is: not in functions, not for type checking only."""
    kept = [
        node
        for node in tree.body
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
        and "TYPE_CHECKING" not in ast.unparse(node).partition("\n")[0]
    ]
    return packages(imported(ast.Module(kept, [])))


def module_of(name: str) -> str:
    """The module of ours that has a dotted name or is it; "" for none."""
    while name and name not in FILES:
        name = name.rpartition(".")[0]
    return name


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


def test_arrows_between_the_packages():
    wrong = {}
    for name, tree in modules().items():
        package = name.partition(".")[0]
        others = packages(imported(tree)) & MAY_IMPORT.keys()
        wrong[name] = others - MAY_IMPORT[package] - {package}
    assert {name: others for name, others in wrong.items() if others} == {}


def test_environments_and_credit_do_not_know_what_measures_them():
    named = [
        str(path)
        for package in ("agent_envs", "credit")
        for path in (ROOT / "src" / package).rglob("*.py")
        if {"agent_envs_lab", "agent_envs_adapters"}
        & set(re.findall(r"\w+", path.read_text("utf-8")))
    ]
    assert named == []


def test_the_command_starts_with_the_standard_library_and_calls_agent_envs():
    command = ast.parse(COMMAND.read_text(encoding="utf-8"))
    assert not at_import(command)
    assert packages(imported(command)) & MAY_IMPORT.keys() == {"agent_envs"}


def test_no_cycle_of_imports_in_functions_and_for_types_included():
    arrows = {name: {*map(module_of, imported(tree))} - {""} for name, tree in modules().items()}
    TopologicalSorter(arrows).prepare()  # a CycleError names the modules of a cycle


def test_environments_and_credit_import_gymnasium_and_numpy_and_more_only_where_they_say():
    heavy = {}
    for name, tree in modules().items():
        package, _, module = name.partition(".")
        if package == "agent_envs" and not module.startswith("cli."):
            allowed = {"gymnasium", "numpy", "agent_envs", "env_assets"}
            allowed |= {"psutil"} if module == "webshop.warden" else set()  # a program beside
            allowed |= {"pydantic"} if module == "evaluation" else set()
        elif package == "credit":
            allowed = {"numpy", "credit"}
            allowed |= {"gymnasium"} if module == "rewards" else set()
            on_torch = module.rpartition(".")[2] in ON_LOG_PROBABILITIES
            allowed |= {"torch"} if on_torch else set()
        else:
            continue
        heavy[name] = at_import(tree) - allowed
    assert {name: others for name, others in heavy.items() if others} == {}


@pytest.mark.parametrize(
    ("program", "allowed"),
    [
        ("import sys, agent_envs\nassert not any('alfworld' in name for name in sys.modules)",
         LIGHT | {"agent_envs"}),
        ("import agent_envs.testing", LIGHT | {"agent_envs"}),
        ("import gymnasium\nenv = gymnasium.make('agent_envs:AlfWorld-v0')\nenv.reset(seed=1)",
         LIGHT | {"agent_envs", "env_assets"}),
        ("import gymnasium\ngymnasium.make('agent_envs:WebShop-v1').reset(seed=1)",
         LIGHT | {"agent_envs", "env_assets"}),
        ("import credit", LIGHT | {"credit"}),
        (
            "import trainer.play.prompted",
            LIGHT
            | {"agent_envs", "credit", "trainer", "pydantic", "pydantic_core"}
            | {"annotated_types", "typing_inspection"},
        ),
    ],
    ids=["agent_envs", "testing", "AlfWorld", "WebShop", "credit", "a prompted model"],
)  # fmt: skip
def test_what_an_import_loads(program, allowed):
    assert modules_after(program) <= allowed


def test_reading_a_recipe_or_a_table_loads_torch_alone_of_what_is_heavy():
    """`torch.distributed.tensor`, by sympy, and transformers take longer than all of torch."""
    program = "import trainer.recipe\nfrom agent_envs_lab.papers import plans, results, runs"
    assert not modules_after(program) & {"transformers", "sympy", "scipy", "matplotlib", "peft"}
