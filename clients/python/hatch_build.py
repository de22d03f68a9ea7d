"""Adds to what is built: the Lua files of the repository, and the derived half of the package."""

from pathlib import Path
from runpy import run_path
from tempfile import TemporaryDirectory

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

FOLDERS = ["core", "exclusive", "fair", "limit", "reentrant"]


class Generated(BuildHookInterface):
    def initialize(self, version, build_data):
        if version == "editable":
            return
        included, source = build_data["force_include"], Path(self.root, "src/redlatch")
        if self.target_name == "wheel":
            self.folder = TemporaryDirectory()
            script = run_path(str(source / "_derive.py"))
            for module in script["HALVES"]:
                path = Path(self.folder.name, f"{module}.py")
                path.write_text(script["derive"](module), encoding="utf-8")
                included[str(path)] = f"redlatch/{module}.py"
        # The source distribution has the files, in the package.
        if not (source / "lua").exists():
            package = "src/redlatch" if self.target_name == "sdist" else "redlatch"
            for folder in FOLDERS:
                path = Path(self.root).parents[1] / "lua" / folder
                included[str(path)] = f"{package}/lua/{folder}"
