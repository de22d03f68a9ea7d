"""The programs of the README, run one after the other, as somebody does who tries them.

`REDLATCH_FRESH_PYTHON` names a Python that has the package and nothing of the tests.
"""

import os
import pathlib
import re
import subprocess
import sys

README = pathlib.Path(__file__).parent.parent / "README.md"

# What the programs leave to the reader.
BEFORE = """
parts, done = [1, 2], []

def write(part, fencing_token):
    done.append(fencing_token)

def ask_model():
    done.append(1)
    return 1200

async def write_report(fencing_token):
    done.append(fencing_token)
"""
AFTER = """
assert done and all(token > 0 for token in done), done
"""


def test_programs_of_the_readme_run(url, server, tmp_path):
    programs = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    assert len(programs) == 3
    python = os.environ.get("REDLATCH_FRESH_PYTHON", sys.executable)
    for number, program in enumerate(programs):
        file = tmp_path / f"program{number}.py"
        text = BEFORE + program.replace("redis://localhost", url) + AFTER
        file.write_text(text, encoding="utf-8")
        subprocess.run([python, str(file)], check=True, timeout=60, cwd=tmp_path)
