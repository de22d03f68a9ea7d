"""Adds the Lua files of the repository to what is built in it."""

from pathlib import Path

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

FOLDERS = ["core", "exclusive", "fair", "reentrant"]


class LuaFiles(BuildHookInterface):
    def initialize(self, version, build_data):
        # The source distribution has the files, in the package.
        if version == "editable" or Path(self.root, "src/redlatch/lua").exists():
            return
        package = "src/redlatch" if self.target_name == "sdist" else "redlatch"
        for folder in FOLDERS:
            path = Path(self.root).parents[1] / "lua" / folder
            build_data["force_include"][str(path)] = f"{package}/lua/{folder}"
