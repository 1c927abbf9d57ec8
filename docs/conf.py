"""Configuration of the site, which `make docs` builds without network access."""

import shutil
import sys
import warnings
from pathlib import Path

import matplotlib as mpl

import prosparse

mpl.use("agg")
HERE = Path(__file__).parent
sys.path.append(str(HERE / "_extensions"))

# The pages of the experiments are stored with their records.
benchmarks = HERE / "benchmarks"
benchmarks.mkdir(exist_ok=True)
for page in (HERE.parent / "papers" / "results").iterdir():
    if page.suffix in (".md", ".png"):
        shutil.copy2(page, benchmarks)

project = "prosparse"
author = "The prosparse developers"
project_copyright = author
version = release = prosparse.__version__

extensions = [
    "command_options",
    "mathml",
    "members",
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = [
    "_extensions",
    "reliability/*",
    "gallery/*.ipynb",
    "gallery/*.py",
    "gallery/*.json",
]
templates_path = ["_templates"]
nitpicky = True
nitpick_ignore_regex = [("py:obj", r"(numpy|scipy|sklearn|pandas)\..*")]  # no network: not linked
smartquotes = False
highlight_language = "text"  # blocks without a language show the output of the example above

# --- pages
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

# --- reference
default_role = "py:obj"
autosummary_generate = True
autodoc_typehints = "none"
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

# --- gallery
sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"plot_",
    "within_subsection_order": "FileNameSortKey",
    "capture_repr": (),
    "backreferences_dir": "gallery/backreferences",
    "doc_module": ("prosparse",),
    "download_all_examples": False,
    "remove_config_comments": True,
    "run_stale_examples": True,  # the library may have changed since the last build
    "abort_on_example_error": True,
    "show_memory": False,
    "write_computation_times": False,
    "matplotlib_animations": False,
    "image_scrapers": ("matplotlib",),
}
warnings.filterwarnings("ignore", message=".*non-interactive.*")

# --- theme
html_theme = "furo"
html_title = f"prosparse {release}"
html_static_path = ["_static"]
html_css_files = ["prosparse.css"]
html_math_renderer = "mathml"
html_copy_source = False
html_show_sphinx = False
html_theme_options = {
    "light_css_variables": {
        "color-brand-primary": "#1e4e79",
        "color-brand-content": "#1e4e79",
        "font-stack": "system-ui, -apple-system, 'Segoe UI', 'Liberation Sans', Arial, sans-serif",
    },
    "dark_css_variables": {
        "color-brand-primary": "#9cc3e6",
        "color-brand-content": "#9cc3e6",
    },
    "navigation_with_keys": True,
}
