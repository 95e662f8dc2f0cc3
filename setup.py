"""Package list for the folder mapping of pyproject.toml: `server/` is imported as `sollens.server`, and so on."""

from setuptools import find_packages, setup

FOLDERS = ("server", "analysis", "hardware")

setup(
    packages=[
        name
        for folder in FOLDERS
        for name in (f"sollens.{folder}", *(f"sollens.{folder}.{sub}" for sub in find_packages(folder)))
    ]
    # The pages that diagnostics link to; data alone.
    + ["sollens.docs"],
    package_dir={f"sollens.{folder}": folder for folder in (*FOLDERS, "docs")},
    package_data={
        "sollens.docs": ["*.md"],
        "sollens.hardware": ["targets/*.toml"],
        "sollens.analysis": ["py.typed"],
        "sollens.analysis.page": ["*.css", "*.js"],
    },
)
