"""Package list for the folder mapping of pyproject.toml: `server/` is imported as `sollens.server`, and so on."""

from setuptools import find_packages, setup

FOLDERS = ("server", "analysis", "hardware")

setup(
    packages=[
        name
        for folder in FOLDERS
        for name in (f"sollens.{folder}", *(f"sollens.{folder}.{sub}" for sub in find_packages(folder)))
    ],
    package_dir={f"sollens.{folder}": folder for folder in FOLDERS},
    package_data={"sollens.hardware": ["targets/*.toml"], "sollens.analysis": ["py.typed"]},
)
