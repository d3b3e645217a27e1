"""The rules that keep the tree readable: CONTRIBUTING.md, checked.

Reads source as text (`ast`); only the tests at the end start a Python.
"""

import ast
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]
LIBRARY = ROOT / "albert_tf"


def _floors():
    """Reads the floor of each folder from its docstring; files stand on 0."""
    floors = {path.stem: 0 for path in LIBRARY.glob("*.py")}
    for path in LIBRARY.glob("*/__init__.py"):
        floors[path.parent.name] = int(
            re.search(r"Floor (\d+)", path.read_text(encoding="utf-8"))[1]
        )
    return floors


FLOORS = _floors()
ACCELERATED = {"tensorflow", "tensorflow_text", "keras", "jax", "torch"}
FORBIDDEN_IMPORTS = {
    # Parts that run where TensorFlow is not installed, or on another backend.
    **{part: ACCELERATED for part, floor in FLOORS.items() if floor < 2},
    "modeling": ACCELERATED - {"keras"},
}
# What takes seconds to import; input must be checked before it.
SLOW_IMPORTS = ACCELERATED | {"keras_hub", "keras_nlp"}
MAX_FILE_LINES = 450
MAX_FUNCTION_LINES = 60

# Modules that a table over all tasks, or all tokenizers, tests.
TESTED_TOGETHER = {
    "cli/finetuning.py": "cli/test_run_classifier.py",
    "export/export_config.py": "export/test_refusals.py",
    "export/kept_labels.py": "export/test_onnx_folder.py",
    "serving/model_inputs.py": "serving/test_tokenizer_layer.py",
    "serving/ragged.py": "serving/test_graph_tokenizer.py",
    "serving/text_normalization.py": "serving/test_graph_tokenizer.py",
    "tasks/encoder/signatures.py": "heads/test_signatures.py",
    "tasks/encoder/spec.py": "heads/test_signatures.py",
    "tasks/pretraining/spec.py": "heads/test_signatures.py",
    "tasks/race/spec.py": "heads/test_signatures.py",
    "tasks/spec.py": "heads/test_signatures.py",
    "tasks/squad/spec.py": "heads/test_signatures.py",
    "checkpoints/conversion_config.py": "checkpoints/test_conversion.py",
    "checkpoints/exported.py": "checkpoints/test_discovery.py",
    "checkpoints/released.py": "checkpoints/test_tf1.py",
    "training/flag_values.py": "training/test_interface.py",
    "devices/device_settings.py": "training/test_refusals.py",
    "tasks/planning.py": "training/test_plan.py",
    "folders.py": "test_files.py",
    "globs.py": "test_files.py",
    "published_configs.py": "test_config.py",
    "scripts.py": "text/test_added_tokens.py",
    "text/vocabulary_file.py": "text/test_base.py",
    "tasks/task.py": "tasks/test_finetuning.py",
    "observers/export.py": "training/test_interface.py",
    "observers/model_card.py": "training/test_measured_weights.py",
    "observers/tensorboard.py": "observers/test_metric_log.py",
    "inference/exported_model.py": "export/test_litert.py",
    **dict.fromkeys(
        (
            "tasks/inputs.py",
            "tasks/pretraining/data.py",
            "tasks/spec.py",
            *(
                f"tasks/{package}/spec.py"
                for package in (
                    "classification",
                    "encoder",
                    "pretraining",
                    "race",
                    "squad",
                    "tagging",
                )
            ),
        ),
        "inference/test_predictor.py",
    ),
    **dict.fromkeys(
        (
            "tasks/classification/model.py",
            "tasks/label_task.py",
            "tasks/race/model.py",
            "tasks/squad/model.py",
            "tasks/tagging/model.py",
        ),
        "tasks/test_finetuning.py",
    ),
    "modeling/attention.py": "modeling/test_conformance.py",
    "modeling/sequence_models.py": "modeling/test_task_models.py",
    "modeling/pooled_model.py": "heads/test_new_head.py",
    **{
        f"tasks/pooled/{name}.py": "heads/test_new_head.py"
        for name in ("data", "head", "model", "signatures")
    },
    "tasks/classification/config.py": "tasks/classification/test_refusals.py",
    "tasks/encoder_records.py": "heads/test_tasks.py",
    "tasks/prediction_tables.py": "heads/test_tasks.py",
    "tasks/tagging/examples.py": "tasks/tagging/test_sets.py",
}

MODULES = sorted(LIBRARY.rglob("*.py"))
DEMO = sorted((ROOT / "demo").rglob("*.py"))
EXPERIMENTS = sorted((ROOT / "experiments").rglob("*.py"))
SCRIPTS = sorted(ROOT.glob("*.py"))


def _name(path):
    return path.relative_to(ROOT).as_posix()


def _part(path):
    """The folder of a module, or its own name on the ground floor."""
    return path.relative_to(LIBRARY).parts[0].removesuffix(".py")


def _imports(path):
    """Yields the dotted names that a file imports, wherever it does so."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{_name(path)}: relative import"
            yield from (f"{node.module}.{a.name}" for a in node.names)


def _functions(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def _num_body_lines(function):
    body = function.body
    if ast.get_docstring(function) is not None:
        body = body[1:]
    return body[-1].end_lineno - body[0].lineno + 1 if body else 0


def _map():
    """Returns the comments of docs/architecture.md by path."""
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    section = re.search(r"^## Map$.*?^```\w*\n(.*?)^```$", text, re.M | re.S)
    assert section, "docs/architecture.md has no fenced block under `## Map`"
    comments, folder = {}, ""
    for line in filter(str.strip, section[1].splitlines()):
        name, *comment = line.split()
        if name.endswith("/"):
            folder = name
        else:
            comments[f"{folder}{name}"] = comment
    return comments


def test_imports_go_down_the_floors():
    # albert_tf/__init__.py hands on the public names of every floor.
    modules = [path for path in MODULES if path != LIBRARY / "__init__.py"]

    wrong = [
        f"{_name(path)} imports {name}"
        for path in modules
        for name in _imports(path)
        if name.split(".")[0] == "albert_tf"
        and not _may_import(_part(path), f"{name}.".split(".")[1])
    ]

    assert not wrong


def _may_import(part, other):
    """Whether `part` may import `other`: it is lower, or its own folder."""
    if other not in FLOORS:
        return False
    is_neighbour = other == part or FLOORS[other] == FLOORS[part] == 0
    return is_neighbour or FLOORS[other] < FLOORS[part]


def test_contributing_has_the_floors():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    named = {
        name: int(floor)
        for floor, what in re.findall(r"^\| (\d+) \| (.*) \|$", text, re.M)
        for name in re.findall(r"`(\w+)(?:/|\.py)`", what)
    }

    assert named == {n: k for n, k in FLOORS.items() if n != "__init__"}


def test_scripts_only_start_their_command():
    for script in SCRIPTS:
        command = f"albert_tf.cli.{script.stem}"
        if script.stem == "run_experiment":
            command = "experiments.program"

        assert list(_imports(script)) == [command]


def test_each_part_imports_only_the_frameworks_it_may():
    wrong = [
        f"{_name(path)} imports {name}"
        for path in MODULES
        for name in _imports(path)
        if name.split(".")[0] in FORBIDDEN_IMPORTS.get(_part(path), ())
    ]

    assert not wrong


def _mirror(module):
    """The test file of a module of a folder: its own, or a shared one."""
    own = module.with_name(f"test_{module.name}").as_posix()
    return TESTED_TOGETHER.get(module.as_posix(), own)


def test_every_module_has_its_test_file():
    modules = [
        *(path.relative_to(LIBRARY) for path in MODULES),
        *(path.relative_to(ROOT) for path in DEMO),
    ]

    missing = {
        _mirror(path)
        for path in modules
        if path.name not in ("__init__.py", "__main__.py")
        and not (ROOT / "tests" / _mirror(path)).exists()
    }

    assert not missing


def test_files_are_short():
    num_lines = {
        _name(path): len(path.read_text(encoding="utf-8").splitlines())
        for path in MODULES + DEMO + EXPERIMENTS + SCRIPTS
    }

    assert {n: k for n, k in num_lines.items() if k > MAX_FILE_LINES} == {}


def test_functions_are_short():
    num_lines = {
        f"{_name(path)}: {function.name}": _num_body_lines(function)
        for path in MODULES + DEMO + EXPERIMENTS + SCRIPTS
        for function in _functions(path)
    }

    assert {n: k for n, k in num_lines.items() if k > MAX_FUNCTION_LINES} == {}


def test_the_map_names_every_module():
    wanted = {_name(path) for path in MODULES if path.name != "__init__.py"}

    missing = wanted - set(_map())

    assert not missing, f"add to docs/architecture.md: {sorted(missing)}"


def test_the_map_names_only_what_exists_and_says_what_it_is():
    for path, comment in _map().items():
        assert (ROOT / path).exists(), f"the map names {path}; it is gone"
        assert comment, f"say in the map what {path} is"


def test_what_not_every_python_has_is_imported_where_it_is_used():
    lacking = {"tensorflow_text", "keras_hub", "keras_nlp"}
    for path in MODULES:
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.Import | ast.ImportFrom):
                module = getattr(node, "module", None)
                names = [module] if module else [a.name for a in node.names]
                assert not {n.split(".")[0] for n in names} & lacking, path


def test_importing_the_package_and_a_config_is_quick():
    slow = SLOW_IMPORTS | {"scipy", "sklearn"}
    code = (
        "import sys, albert_tf; dir(albert_tf); "
        "albert_tf.AlbertConfig(vocab_size=9); "
        f"print(*{slow} & set(sys.modules))"
    )

    result = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True
    )

    assert (result.stdout, result.stderr) == ("\n", "")


# Lines that a reader of a door has before them: what its imports reach, also
# imports in functions and modules that a string names.
READING_BUDGETS = {
    "modeling.albert_model": 2200,
    "data.builder": 5000,
    "training.pretrain": 11_500,
    "training.interface": 17_000,
    "inference.predictor": 11_000,
}
# The one file that may name modules by strings.
REGISTRY = "albert_tf.registry"


def _module_name(path):
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts).removesuffix(".__init__")


def _modules_reached(tree, modules):
    """Yields the modules of the library that a module imports or names."""
    for node in _without_type_checking(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                yield full if full in modules else node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value.partition(":")[0]


def _without_type_checking(node):
    yield node
    if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
        children = node.orelse
    else:
        children = ast.iter_child_nodes(node)
    for child in children:
        yield from _without_type_checking(child)


def _reached_from(door):
    modules = {_module_name(path): path for path in MODULES}
    reached, waiting = set(), [f"albert_tf.{door}"]
    while waiting:
        name = waiting.pop()
        if name in reached or name not in modules:
            continue
        reached.add(name)
        tree = ast.parse(modules[name].read_text(encoding="utf-8"))
        if name != REGISTRY:
            waiting += {*_modules_reached(tree, modules)} - {"albert_tf"}
    return {name: modules[name] for name in reached}


@pytest.mark.parametrize("door", READING_BUDGETS)
def test_one_can_read_what_a_door_reaches(door):
    num_lines = {
        name: len(path.read_text(encoding="utf-8").splitlines())
        for name, path in _reached_from(door).items()
    }

    assert sum(num_lines.values()) <= READING_BUDGETS[door], num_lines


def test_only_the_registry_names_modules_by_strings():
    names = {_module_name(path) for path in MODULES} - {"albert_tf"}
    wrong = [
        f"{_name(path)}: {node.value}"
        for path in MODULES
        if _module_name(path) not in (REGISTRY, "albert_tf")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and node.value.partition(":")[0] in names
    ]

    assert not wrong


_IMPORT_ALL = """
import importlib, logging, os, sys
import absl.flags, absl.logging
for name in {libraries}:
    importlib.import_module(name)

def state():
    loggers = [logging.root, *logging.root.manager.loggerDict.values()]
    return (
        {{f.name for fs in absl.flags.FLAGS.flags_by_module_dict().values()
          for f in fs}},
        {{h for logger in loggers for h in getattr(logger, "handlers", ())}},
        logging.root.level,
        dict(os.environ),
    )

before = state()
for name in {modules}:
    importlib.import_module(name)
for was, now in zip(before, state()):
    assert was == now, (was, now)
"""


@pytest.mark.slow
def test_importing_the_library_has_no_effect():
    libraries = sorted({"tensorflow", "keras", "sklearn", "sentencepiece"})
    modules = [
        ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for path in MODULES
    ]
    modules = [name.removesuffix(".__init__") for name in modules]

    result = subprocess.run(
        [
            sys.executable,
            "-c",
            _IMPORT_ALL.format(libraries=libraries, modules=modules),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert result.returncode == 0, result.stderr
