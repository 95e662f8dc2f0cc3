# pyright: basic
"""Start of the agent process: loads this folder under a private name, so that no user's module is shadowed.

python -X faulthandler boot.py            serve requests on standard input and output (see server.py)
python -X faulthandler boot.py once       one request as JSON on standard input, its reply on standard output
"""

import importlib.util
import os
import sys

PACKAGE = "_sollens_trace"


def load_package() -> None:
    """Register this folder as `_sollens_trace`."""
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [p for p in sys.path if os.path.abspath(p or os.getcwd()) != here]
    spec = importlib.util.spec_from_file_location(
        PACKAGE, os.path.join(here, "__init__.py"), submodule_search_locations=[here]
    )
    assert spec is not None and spec.loader is not None
    package = importlib.util.module_from_spec(spec)
    sys.modules[PACKAGE] = package
    spec.loader.exec_module(package)


def main() -> None:
    """Run the mode that the command line names."""
    load_package()
    if sys.argv[1:2] == ["once"]:
        import json

        out = os.dup(1)
        os.dup2(2, 1)
        request = json.load(sys.stdin)
        module = importlib.import_module(f"{PACKAGE}.{'reference' if request.get('reference') else 'dispatch'}")
        reply = json.dumps(module.reply_of(request))
        with os.fdopen(out, "w") as file:
            file.write(reply)
        return
    importlib.import_module(f"{PACKAGE}.server").main()


if __name__ == "__main__":
    import importlib

    main()
