"""The synchronous half of the package, which is derived from the asynchronous one."""

import ast
import inspect
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from runpy import run_path

import pytest

SOURCE = Path(__file__).parents[1] / "src"
DERIVE = run_path(str(SOURCE / "redlatch/_derive.py"))


@pytest.mark.parametrize("module", DERIVE["HALVES"])
def test_half_is_what_the_other_half_says(module):
    assert not (SOURCE / f"redlatch/{module}.py").exists()
    text = inspect.getsource(import_module(f"redlatch.{module}"))
    assert text == DERIVE["derive"](module)
    nodes = {type(node).__name__ for node in ast.walk(ast.parse(text))}
    assert "FunctionDef" in nodes and not nodes & {"Await", "AsyncFunctionDef", "AsyncWith"}
    assert "sync:" not in text and "asyncio" not in text


def test_checkout_needs_no_build(url):
    program = f"""
import redlatch
with redlatch.Client.from_url({url!r}) as client, client.lock("n") as hold:
    print(hold.state, redlatch._derive.__file__)
"""
    command, env = [sys.executable, "-c", program], {**os.environ, "PYTHONPATH": str(SOURCE)}
    found = subprocess.run(command, capture_output=True, text=True, timeout=60, env=env)
    assert found.stdout.split() == ["held", str(SOURCE / "redlatch/_derive.py")], found.stderr
