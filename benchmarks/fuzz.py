"""Fuzz the table readers and the model loader with damaged and malicious files.

    python -m benchmarks.fuzz                           # 100,000 inputs, half an hour on two cores
    python -m benchmarks.fuzz --inputs 2000 --seed 1    # a short run

Malicious files come first. Then valid files of each format are damaged: bits are flipped, bytes
removed, repeated or replaced by others or by huge sizes, two files are spliced, or text is
rewritten. Each input must be read, or rejected with an informative error, within `--seconds`;
anything else is a failure. Each format runs in a separate process with limited address space, so
crashes and hangs are counted and the run continues.
"""

from __future__ import annotations

import argparse
import gzip
import io
import json
import multiprocessing as mp
import pickle
import queue
import resource
import struct
import sys
import tempfile
import time
import warnings
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy import io as matrix_market
from scipy import sparse

from prosparse import GSPPCA, SCA, SPPCA, ModelFileError, TableError, load, save
from prosparse.tables import ReadOptions, read_table

MAX_MEMORY = 2**30  # maximum additional memory for one small file, in bytes
EXTREME_NUMBERS = (0, 1, -1, 2**15, 2**16 - 1, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**62, 2**63 - 1)
TOKENS = (
    b"\0", b'"', b"'", b"\r", b"\n", b"\r\n", b",", b";", b"\t", b"|", b"nan", b"1e999", b"-inf",
    b"\xff\xfe", b"\xfe\xff", b"\xef\xbb\xbf", b"\xff", b"\xe9", b"=1+1", b"0x10", b"1_0",
    b"\x1b[31m", b"<script>", b"../../", b"\xf0\x9f\x98\x80", b"9" * 400, b"[" * 3000, b"{" * 3000,
    b"PK\x03\x04",
)  # fmt: skip


class Malicious:
    """Object that creates a file if a reader unpickles it."""

    def __init__(self, trace: str):
        self.trace = trace

    def __reduce__(self) -> Any:
        return Path.touch, (Path(self.trace),)


# --- valid files


def example_table() -> tuple[np.ndarray, list[str], list[str]]:
    """Return values, column names and row identifiers."""
    X = np.random.default_rng(0).normal(size=(12, 4)).round(3)
    X[2, 1] = np.nan
    return X, ["a", "b c", "é😀", "d"], [f"r{k}" for k in range(12)]


def _text(separator: str, decimal: str = ".", quoted: bool = False) -> str:
    """Return the example as delimited text."""
    X, names, ids = example_table()
    quote = '"' if quoted else ""
    rows = [["id", *names], *([name, *map(str, row)] for name, row in zip(ids, X, strict=True))]
    cells = [[f"{quote}{cell.replace('.', decimal)}{quote}" for cell in row] for row in rows]
    return "\n".join(separator.join(row) for row in cells) + "\n"


def texts() -> dict[str, bytes]:
    """Return delimited text files."""
    return {
        "plain.csv": _text(",").encode(),
        "bom.csv": _text(",").encode("utf-8-sig"),
        "wide.csv": _text(",").encode("utf-16"),
        "german.csv": _text(";", ",").encode(),
        "quoted.csv": _text(",", quoted=True).encode(),
        "old.csv": _text(";").replace("😀", "").encode("cp1252"),
        "tabs.tsv": _text("\t").encode(),
        "bars.txt": _text("|").encode(),
        "small.csv.gz": gzip.compress(_text(",").encode()),
    }


def columnar() -> dict[str, bytes]:
    """Return Parquet, Feather and Arrow files."""
    import pyarrow as pa
    from pyarrow import feather, ipc, parquet

    X, names, ids = example_table()
    data = pa.table({"id": ids} | {n: X[:, k] for k, n in enumerate(names)})
    files = {}
    for name, compression in (("plain", "none"), ("snappy", "snappy"), ("zstd", "zstd")):
        buffer = io.BytesIO()
        parquet.write_table(data, buffer, compression=compression, row_group_size=5)
        files[f"{name}.parquet"] = buffer.getvalue()
    for name in ("uncompressed", "lz4"):
        buffer = io.BytesIO()
        feather.write_feather(data, buffer, compression=name)
        files[f"{name}.feather"] = buffer.getvalue()
    for name, new in (("file", ipc.new_file), ("stream", ipc.new_stream)):
        buffer = io.BytesIO()
        with new(buffer, data.schema) as writer:
            writer.write_table(data, max_chunksize=5)
        files[f"{name}.arrow"] = buffer.getvalue()
    return files


def _to_bytes(write: Callable[..., Any], *arguments: Any, **named: Any) -> bytes:
    """Return what ``write`` writes to a file."""
    buffer = io.BytesIO()
    write(buffer, *arguments, **named)
    return buffer.getvalue()


def numpy_files() -> dict[str, bytes]:
    """Return NumPy and SciPy files."""
    X, names, ids = example_table()
    S = sparse.csr_array(np.nan_to_num(X) * (np.arange(4) % 2))
    return {
        "plain.npy": _to_bytes(np.save, X),
        "fortran.npy": _to_bytes(np.save, np.asfortranarray(X.astype(np.float32))),
        "named.npz": _to_bytes(np.savez, X=X, names=np.array(names), ids=np.array(ids)),
        "packed.npz": _to_bytes(np.savez_compressed, X=X),
        "sparse.npz": _to_bytes(sparse.save_npz, S),
    }


def matrices() -> dict[str, bytes]:
    """Return Matrix Market files."""
    X = np.nan_to_num(example_table()[0])
    S = sparse.coo_array(X * (np.arange(4) % 2))
    return {
        "sparse.mtx": _to_bytes(matrix_market.mmwrite, S),
        "dense.mtx": _to_bytes(matrix_market.mmwrite, X),
        "small.mtx.gz": gzip.compress(_to_bytes(matrix_market.mmwrite, S)),
    }


def annotated() -> dict[str, bytes]:
    """Return H5AD files."""
    import anndata
    import pandas as pd

    X, names, ids = example_table()
    files = {}
    for name, matrix in (("dense", X), ("sparse", sparse.csr_matrix(np.nan_to_num(X)))):
        obs = pd.DataFrame({"kind": ["u", "v"] * 6}, index=ids)
        data = anndata.AnnData(matrix, obs=obs, var=pd.DataFrame(index=names))
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "t.h5ad"
            data.write_h5ad(path)
            files[f"{name}.h5ad"] = path.read_bytes()
    return files


_OPEN = "http://schemas.openxmlformats.org"
_OFFICE = f"{_OPEN}/officeDocument/2006/relationships"
_MAIN = f'xmlns="{_OPEN}/spreadsheetml/2006/main"'
_ODS = "urn:oasis:names:tc:opendocument:xmlns"
# XML fragments with extreme or invalid contents.
MARKUP = (
    b"<c r='XFD1048576'><v>1</v></c>", b'<c r="A0"><v>1</v></c>', b'<c r=""><v/></c>',
    b'<c r="ZZZZZZ9" t="s"><v>99999</v></c>', b'<c t="s"><v>-1</v></c>', b'<c t="e"><v>#</v></c>',
    b'<c t="d"><v>2024-99-99</v></c>', b'<c s="1"><v>1e308</v></c>', b'<c s="99"><v>nan</v></c>',
    b'<row r="1048577">', b'<row r="0">', b'<mergeCell ref="B3:A1"/>', b'<mergeCell ref="A0"/>',
    b'<mergeCell ref="A1:A1048576"/>', b'<mergeCell ref="ZZZ1:ZZZ99999999"/>', b"<f>1+1</f>",
    b'<dimension ref="A1:XFD1048576"/>', b"</row>", b"</sheetData>", b"<v>", b"</c>", b"<is><t>",
    b"<!--", b"-->", b"<![CDATA[", b"]]>", b"&a;", b"&#0;", b"&#x110000;", b"\xff", b"<", b">",
    b'<!DOCTYPE a [<!ENTITY a "' + b"a" * 1000 + b'"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]>',
    b' table:number-rows-repeated="1000000"', b' table:number-columns-repeated="16384"',
    b' table:number-rows-repeated="-1"', b' table:number-columns-repeated="99999999999"',
    b' table:formula="of:=1+1"', b' office:value-type="date" office:date-value="9999-99-99"',
    b' office:value-type="time" office:time-value="PT99999999999H"', b'office:value="x"',
    b' office:value-type="boolean"', b"<text:s text:c=\"1000000000\"/>", b"<table:table>",
)  # fmt: skip


def _xlsx() -> bytes:
    """Return a minimal Excel workbook."""
    X, names, ids = example_table()
    texts = ["id", *names, *ids]
    rows = [[f'<c t="s"><v>{k}</v></c>' for k in range(5)]]
    for k, row in enumerate(X):
        cells = (
            [f'<c t="s"><v>{5 + k}</v></c>'] if k % 2 else [f'<c t="s" s="0"><v>{5 + k}</v></c>']
        )
        cells += ["<c/>" if np.isnan(v) else f'<c s="0"><f>1</f><v>{v}</v></c>' for v in row]
        rows.append(cells)
    sheet = "".join(
        f'<row r="{i}">'
        + "".join(c.replace("<c", f'<c r="{"ABCDE"[j]}{i}"', 1) for j, c in enumerate(row))
        + "</row>"
        for i, row in enumerate(rows, 1)
    )
    shared = "".join(f"<si><t>{text}</t></si>" for text in texts)
    targets = {
        "w": ("worksheet", "worksheets/s.xml"),
        "s": ("styles", "styles.xml"),
        "t": ("sharedStrings", "sharedStrings.xml"),
    }
    relations = "".join(
        f'<Relationship Id="{key}" Type="{_OFFICE}/{kind}" Target="{target}"/>'
        for key, (kind, target) in targets.items()
    )
    package = f'xmlns="{_OPEN}/package/2006/relationships"'
    parts = {
        "[Content_Types].xml": f'<Types xmlns="{_OPEN}/package/2006/content-types"/>',
        "_rels/.rels": f'<Relationships {package}><Relationship Id="b" '
        f'Type="{_OFFICE}/officeDocument" Target="xl/workbook.xml"/></Relationships>',
        "xl/workbook.xml": f'<workbook {_MAIN} xmlns:r="{_OFFICE}"><sheets>'
        '<sheet name="S" sheetId="1" r:id="w"/></sheets></workbook>',
        "xl/_rels/workbook.xml.rels": f"<Relationships {package}>{relations}</Relationships>",
        "xl/styles.xml": f'<styleSheet {_MAIN}><cellXfs><xf numFmtId="0"/><xf numFmtId="14"/>'
        '<xf numFmtId="46"/></cellXfs></styleSheet>',
        "xl/sharedStrings.xml": f"<sst {_MAIN}>{shared}</sst>",
        "xl/worksheets/s.xml": f"<worksheet {_MAIN}><sheetData>{sheet}</sheetData><mergeCells>"
        '<mergeCell ref="A2:A3"/></mergeCells></worksheet>',
    }
    return archive({name: text.encode() for name, text in parts.items()}, zipfile.ZIP_DEFLATED)


def _ods() -> bytes:
    """Return a minimal OpenDocument spreadsheet."""
    X, names, ids = example_table()

    def cell(value: Any) -> str:
        if isinstance(value, str):
            text = f"<text:p>{value}</text:p>"
            return f'<table:table-cell office:value-type="string">{text}</table:table-cell>'
        if np.isnan(value):
            return '<table:table-cell table:number-columns-repeated="1"/>'
        return f'<table:table-cell office:value-type="float" office:value="{value}"/>'

    rows = [["id", *names], *([name, *row] for name, row in zip(ids, X, strict=True))]
    body = "".join(f"<table:table-row>{''.join(map(cell, row))}</table:table-row>" for row in rows)
    namespaces = " ".join(
        f'xmlns:{name}="{_ODS}:{name}:1.0"' for name in ("office", "table", "text")
    )
    parts = {
        "mimetype": "application/vnd.oasis.opendocument.spreadsheet",
        "content.xml": f"<office:document-content {namespaces}><office:body><office:spreadsheet>"
        f'<table:table table:name="S">{body}</table:table></office:spreadsheet></office:body>'
        "</office:document-content>",
        "META-INF/manifest.xml": f'<manifest:manifest xmlns:manifest="{_ODS}:manifest:1.0"/>',
    }
    return archive({name: text.encode() for name, text in parts.items()}, zipfile.ZIP_DEFLATED)


def workbooks() -> dict[str, bytes]:
    """Return spreadsheets."""
    return {"t.xlsx": _xlsx(), "t.ods": _ods()}


def models() -> dict[str, bytes]:
    """Return saved models."""
    X = np.nan_to_num(example_table()[0])
    files = {}
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for model in (GSPPCA(1, scale=True), SCA(1, views=[[0, 1], [2, 3]]), SPPCA(1, penalty=1.0)):
            path = save(model.fit(X), Path(folder) / "m", about={"é": [1, None]})
            files[f"{type(model).__name__}.prosparse"] = path.read_bytes()
    return files


# --- malicious files


def npy(header: Any, body: bytes = b"") -> bytes:
    """Return a NumPy file with an arbitrary header."""
    text = repr(header).encode() if isinstance(header, dict) else header
    text += b" " * (-(len(text) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + body


def archive(members: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> bytes:
    """Return a ZIP archive."""
    buffer = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(buffer, "w", compression) as file:
        warnings.simplefilter("ignore")  # Duplicate names are intended.
        for name, content in members.items():
            file.writestr(name, content)
    return buffer.getvalue()


def _arrays(trace: str) -> dict[str, bytes]:
    """Return NumPy files with pickles and false headers."""
    plain = {"descr": "<f8", "fortran_order": False}
    objects = _to_bytes(np.save, np.array([[Malicious(trace)] * 2] * 2, dtype=object))
    return {
        "pickle": pickle.dumps(Malicious(trace)),
        "objects": objects,
        "objects, huge": npy({"descr": "|O", "fortran_order": False, "shape": (10**12,)}),
        "huge": npy(plain | {"shape": (10**6, 10**6)}),
        "wraps around": npy(plain | {"shape": (2**32, 2**32)}, b"\0" * 64),
        "negative": npy(plain | {"shape": (-4, -4)}, b"\0" * 128),
        "nested": npy(b"(" * 5000),
        "calls": npy(b"__import__('os').system('false')"),
        "records": npy(plain | {"descr": [("a", "<f8")] * 2, "shape": (4, 4)}, b"\0" * 256),
        "long text": npy({"descr": "<U250000000", "fortran_order": False, "shape": (2, 2)}),
        "no width": npy({"descr": "<U0", "fortran_order": False, "shape": (10**9, 10**9)}),
        "dates": npy(plain | {"descr": "<M8[s]", "shape": (4, 4)}, b"\0" * 128),
        "wide": npy(plain | {"shape": (0, 10**9)}),
        "long": npy(plain | {"shape": (10**12, 0)}),
    }


def malicious_texts(trace: str) -> dict[str, bytes]:
    """Return malicious delimited text files."""
    rng = np.random.default_rng(0)
    line = b",".join(b"%d" % k for k in range(1_000_000))
    return {
        "zero byte late.csv": b"a,b\n" + b"1,2\n" * 3000 + b"\0,1\n",
        "million columns.csv": line + b"\n" + line + b"\n" + line + b"\n",
        "never quoted.csv": b'a,"b\n' + b"1,2\n" * 200_000,
        "late quote.csv": b"a,b\n" + b"1,2\n" * 500 + b'1,"2\n' + b"1,2\n" * 100_000,
        "one cell.csv": b"a,b\n" + b"1" * 3_000_000 + b",2\n",
        "only quotes.csv": b'"' * 1_000_000,
        "only separators.csv": b"," * 1_000_000 + b"\n" + b"," * 1_000_000,
        "no line ends.csv": b"1 2 3 " * 400_000,
        "old line ends.csv": b"a,b\r1,2\r3,4\r",
        "half a letter.csv": "a,é\n1,2\n".encode()[:3],
        "bom alone.csv": b"\xef\xbb\xbf",
        "odd utf-16.csv": b"\xff\xfe" + "a,b\n1,2\n3,4\n".encode("utf-16-le") + b"\0",
        "bomb.csv.gz": gzip.compress(b"a,b\n" + b"1,2\n" * 20_000_000, 1),
        "one line bomb.csv.gz": gzip.compress(b"a" * 300_000_000, 1),
        "random.csv.gz": rng.bytes(5000),
        "random.csv": rng.bytes(5000),
    }


def malicious_matrices(trace: str) -> dict[str, bytes]:
    """Return malicious Matrix Market files."""
    head = b"%%MatrixMarket matrix "
    zeros = b"array real general\n9000 9000\n" + b"0\n" * 81_000_000
    return {
        "huge.mtx": head + b"array real general\n1000000000 1000000000\n1\n",
        "huge, sparse.mtx": head + b"coordinate real general\n999999999999 99999999999 1\n1 1 1\n",
        "many.mtx": head + b"coordinate real general\n3 3 999999999999\n1 1 1\n",
        "outside.mtx": head + b"coordinate real general\n3 3 1\n9 9 1\n",
        "negative.mtx": head + b"coordinate real general\n-3 -3 1\n1 1 1\n",
        "wide.mtx": head + b"coordinate real general\n2 500000000 1\n1 1 1\n",
        "tall.mtx": head + b"coordinate pattern general\n2000000000 2 1\n1 1\n",
        "complex.mtx": head + b"array complex general\n2 2\n" + b"1 2\n" * 4,
        "comments.mtx": head + b"array real general\n" + b"%" * 2_000_000,
        "bomb.mtx.gz": gzip.compress(head + zeros, 1),
    }


def _zeros() -> bytes:
    return npy({"descr": "<f8", "fortran_order": False, "shape": (9000, 9000)}, bytes(648 * 10**6))


def malicious_arrays(trace: str) -> dict[str, bytes]:
    """Return malicious NumPy files."""
    arrays = _arrays(trace)
    csr = {
        "format.npy": _to_bytes(np.save, np.array(b"csr")),
        "shape.npy": _to_bytes(np.save, np.array([2, 3])),
        "data.npy": _to_bytes(np.save, np.ones(2)),
        "indices.npy": _to_bytes(np.save, np.array([0, 7])),
        "indptr.npy": _to_bytes(np.save, np.array([0, 1, 2])),
    }
    files = {f"{name}.npy": raw for name, raw in arrays.items()}
    files |= {f"{name}.npz": archive({"X.npy": raw}) for name, raw in arrays.items()}
    sparse_changes = {
        "huge": {"shape.npy": _to_bytes(np.save, np.array([10**9, 10**9]))},
        "wide": {"shape.npy": _to_bytes(np.save, np.array([2, 10**9]))},
        "index outside": {},
        "falling": {"indptr.npy": _to_bytes(np.save, np.array([0, 9, 2]))},
        "unknown": {"format.npy": _to_bytes(np.save, np.array(b"xyz"))},
        "objects": {"data.npy": arrays["objects"]},
    }
    files |= {f"sparse, {k}.npz": archive(csr | v) for k, v in sparse_changes.items()}
    return files | {
        "bomb.npz": archive({"X.npy": _zeros()}, zipfile.ZIP_DEFLATED),
        "outside.npz": archive({"../../X.npy": arrays["huge"]}),
        "twice.npz": archive({"X.npy": b"", "X": b""}),
    }


def malicious_models(trace: str) -> dict[str, bytes]:
    """Return malicious model files."""
    arrays = _arrays(trace)
    valid = models()["GSPPCA.prosparse"]
    with zipfile.ZipFile(io.BytesIO(valid)) as file:
        parts = {name: file.read(name) for name in file.namelist()}
    header = json.loads(parts["model.json"])

    def with_fitted(value: Any) -> bytes:
        return archive(parts | {"model.json": json.dumps(header | {"fitted": value}).encode()})

    deep = b'{"format": "prosparse-model", "version": 1, "fitted": {"a_": '
    files = {f"{k}.prosparse": archive(parts | {"arrays/0.npy": v}) for k, v in arrays.items()}
    return files | {
        "bomb.prosparse": archive(parts | {"arrays/0.npy": _zeros()}, zipfile.ZIP_DEFLATED),
        "deep list.prosparse": archive({"model.json": deep + b"[" * 10**6}),
        "deep.prosparse": archive({"model.json": deep + b'{"$tuple":[' * 10**5}),
        "closed.prosparse": with_fitted({"a_": _nested(300)}),
        "outside.prosparse": archive(parts | {"../../evil": b"x"}),
        "absolute.prosparse": archive(parts | {"/etc/evil": b"x"}),
        "many members.prosparse": archive(parts | {f"m{k}": b"" for k in range(20_000)}),
        "not numbers.prosparse": with_fitted({"a_": float("nan"), "b_": 10**400}),
        "long number.prosparse": archive(
            parts | {"model.json": b'{"version": ' + b"9" * 10**6 + b"}"}
        ),
        "call.prosparse": with_fitted({"a_": {"$call": ["os", "system"]}}),
        "dunder.prosparse": with_fitted({"__class__": 1, "__dict__": {"$dict": []}}),
        "wide scalar.prosparse": with_fitted({"a_": {"$scalar": ["<U500000000", "x"]}}),
        "unhashable.prosparse": with_fitted({"a_": {"$dict": [[[1], 2]]}}),
        "pickle.prosparse": arrays["pickle"],
    }


def _nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = {"$tuple": [value]}
    return value


# --- damage


def damage(rng: np.random.Generator, seeds: list[bytes]) -> bytes:
    """Apply one to four changes to a random seed file."""
    seed = seeds[rng.integers(len(seeds))]
    if (b"content.xml" in seed or b"workbook.xml" in seed) and rng.random() < 0.8:
        return _damage_member(rng, seed)
    raw = bytearray(seed)
    for _ in range(rng.integers(1, 5)):
        _CHANGES[rng.integers(len(_CHANGES))](rng, raw, seeds)
    return bytes(raw)


def _damage_member(rng: np.random.Generator, seed: bytes) -> bytes:
    """Change members of an archive, mostly their XML; the archive stays valid."""
    with zipfile.ZipFile(io.BytesIO(seed)) as file:
        parts = {name: file.read(name) for name in file.namelist()}
    names = sorted(parts, key=lambda name: len(parts[name]))
    for _ in range(rng.integers(1, 3)):
        # The largest members contain the data.
        name = names[-1 - min(int(rng.exponential(0.5)), len(names) - 1)]
        raw = bytearray(parts[name])
        if b"<" in raw and rng.random() < 0.8:
            _insert_markup(rng, raw)
        else:
            _CHANGES[rng.integers(len(_CHANGES))](rng, raw, list(parts.values()))
        parts[name] = bytes(raw)
    if rng.random() < 0.05:
        del parts[names[rng.integers(len(names))]]
    return archive(parts, zipfile.ZIP_DEFLATED)


def _insert_markup(rng: np.random.Generator, raw: bytearray) -> None:
    """Insert an XML fragment before or inside a tag, or replace a tag or a value."""
    import re

    piece = MARKUP[rng.integers(len(MARKUP))]
    tags = list(re.finditer(rb"<[^<>]*>", raw))
    values = list(re.finditer(rb'"[^"<>]*"', raw))
    if not tags:
        return
    tag = tags[rng.integers(len(tags))]
    action = rng.integers(5)
    if action == 0:
        raw[tag.start() : tag.start()] = piece
    elif action == 1:
        raw[tag.start() : tag.end()] = piece
    elif action == 2 or not values:
        space = raw.find(b" ", tag.start(), tag.end())
        index = space if space >= 0 else tag.end() - 1
        raw[index:index] = piece
    elif action == 3:
        value = values[rng.integers(len(values))]
        raw[value.start() + 1 : value.end() - 1] = str(
            EXTREME_NUMBERS[rng.integers(len(EXTREME_NUMBERS))]
        ).encode()
    else:
        other = tags[rng.integers(len(tags))]
        raw[tag.start() : tag.end()] = bytes(raw[other.start() : other.end()])


def _random_index(rng: np.random.Generator, raw: bytearray) -> int:
    return int(rng.integers(len(raw) + 1))


def _flip(rng: np.random.Generator, raw: bytearray, seeds: list[bytes]) -> None:
    for _ in range(int(rng.integers(1, 9))):
        if raw:
            raw[rng.integers(len(raw))] ^= 1 << int(rng.integers(8))


def _cut(rng: np.random.Generator, raw: bytearray, seeds: list[bytes]) -> None:
    del raw[_random_index(rng, raw) :]


def _remove(rng: np.random.Generator, raw: bytearray, seeds: list[bytes]) -> None:
    index = _random_index(rng, raw)
    del raw[index : index + int(rng.integers(1, 64))]


def _repeat(rng: np.random.Generator, raw: bytearray, seeds: list[bytes]) -> None:
    a, b = sorted((_random_index(rng, raw), _random_index(rng, raw)))
    b = min(b, a + 2000)
    raw[a:a] = raw[a:b] * int(rng.integers(1, 20))


def _splice(rng: np.random.Generator, raw: bytearray, seeds: list[bytes]) -> None:
    other = seeds[rng.integers(len(seeds))]
    raw[_random_index(rng, raw) :] = other[int(rng.integers(len(other))) :]


def _noise(rng: np.random.Generator, raw: bytearray, seeds: list[bytes]) -> None:
    index, size = _random_index(rng, raw), int(rng.integers(1, 32))
    raw[index : index + size] = rng.bytes(size)


def _claim(rng: np.random.Generator, raw: bytearray, seeds: list[bytes]) -> None:
    """Overwrite bytes by an extreme binary number, which may be a length."""
    value, width = int(rng.choice(len(EXTREME_NUMBERS))), int(rng.choice([2, 4, 8]))
    number = (EXTREME_NUMBERS[value] % 2 ** (8 * width)).to_bytes(
        width, "little" if rng.random() < 0.8 else "big"
    )
    index = _random_index(rng, raw)
    raw[index : index + width] = number


def _digits(rng: np.random.Generator, raw: bytearray, seeds: list[bytes]) -> None:
    """Replace digits in text by an extreme number."""
    import re

    runs = list(re.finditer(rb"\d+", raw))
    if runs:
        run = runs[rng.integers(len(runs))]
        raw[run.start() : run.end()] = str(
            EXTREME_NUMBERS[rng.integers(len(EXTREME_NUMBERS))]
        ).encode()


def _insert_token(rng: np.random.Generator, raw: bytearray, seeds: list[bytes]) -> None:
    index, token = _random_index(rng, raw), TOKENS[rng.integers(len(TOKENS))]
    raw[index : index + (len(token) if rng.random() < 0.5 else 0)] = token


_CHANGES = (_flip, _flip, _cut, _remove, _repeat, _splice, _noise, _claim, _digits, _insert_token)

FORMATS: dict[str, tuple[Callable[[], dict[str, bytes]], int]] = {
    # Seed files and relative number of inputs; H5AD inputs are few because each starts a process.
    "text": (texts, 32),
    "columnar": (columnar, 20),
    "numpy": (numpy_files, 15),
    "matrix market": (matrices, 10),
    "h5ad": (annotated, 1),
    "model": (models, 22),
    "workbook": (workbooks, 2),  # each starts a process
}

MALICIOUS: dict[str, Callable[[str], dict[str, bytes]]] = {
    "text": malicious_texts,
    "numpy": malicious_arrays,
    "matrix market": malicious_matrices,
    "model": malicious_models,
}


def inputs(kind: str, count: int, seed: int, trace: str) -> Iterator[tuple[str, bytes]]:
    """Yield file names and contents; long runs start with malicious files."""
    crafted = MALICIOUS[kind](trace) if kind in MALICIOUS and count > 100 else {}
    yield from crafted.items()
    by_ending: dict[str, list[bytes]] = {}
    for name, raw in FORMATS[kind][0]().items():
        by_ending.setdefault(name[name.index(".") :], []).append(raw)
    rng = np.random.default_rng([seed, list(FORMATS).index(kind)])
    endings = list(by_ending)
    for number in range(count - len(crafted)):
        ending = endings[rng.integers(len(endings))]
        yield f"{number}{ending}", damage(rng, by_ending[ending])


def read_options(number: int) -> ReadOptions:
    """Return options in rotation."""
    options = (
        ReadOptions(), ReadOptions(), ReadOptions(), ReadOptions(label="id"),
        ReadOptions(ignore=("id",)), ReadOptions(row_names="id"),
        ReadOptions(transpose=True), ReadOptions(header=False),
        ReadOptions(encoding="latin-1"), ReadOptions(separator=";"),
        ReadOptions(encoding="utf-16"), ReadOptions(ignore=("x1",)), ReadOptions(label="kind"),
    )  # fmt: skip
    return options[number % len(options)]


def outcome(path: Path, number: int) -> tuple[str, str]:
    """Return "read", the name of the error, or "failure"; and the message."""
    try:
        if path.suffix == ".prosparse":
            load(path)
        else:
            table = read_table(path, read_options(number))
            if len(table.names) != table.X.shape[1] or min(table.X.shape) < 2:
                return "failure", f"a table of shape {table.X.shape} with {len(table.names)} names"
    except (TableError, ModelFileError) as error:
        message = str(error)
        if "panicked" in message or "stack backtrace" in message:
            return "failure", f"internal message: {message[:200]}"
        if not message.startswith(str(path)) or len(message) > 2000:
            return "failure", f"error without file name, or too long: {message[:200]}"
        return type(error).__name__, message
    except BaseException as error:  # All other errors are failures.
        return "failure", f"{type(error).__name__}: {error}"[:500]
    return "read", ""


# --- runs


def peak_memory() -> int:
    """Return the peak resident memory since `reset_peak`, in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line for line in lines if line.startswith("VmHWM")).split()[1])


def reset_peak() -> None:
    """Reset the peak of resident memory."""
    Path("/proc/self/clear_refs").write_text("5")


def worker(kind: str, jobs: Any, answers: Any, folder: str) -> None:
    """Read files from a queue with limited address space."""
    warnings.simplefilter("ignore")
    for name, raw in FORMATS[kind][0]().items():  # Import all packages and start thread pools.
        path = Path(folder) / f"first{name}"
        path.write_bytes(raw)
        outcome(path, 0)
        path.unlink()
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + 2 * MAX_MEMORY, size + 2 * MAX_MEMORY))
    while (job := jobs.get()) is not None:
        number, name = job
        path = Path(folder) / name
        reset_peak()
        before, start = peak_memory(), time.perf_counter()
        result, message = outcome(path, number)
        child = 1024 * resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
        if child > MAX_MEMORY + 2**28:  # limit plus packages
            result, message = "failure", f"{child / 2**20:.0f} MiB of memory in a child process"
        answers.put((number, result, message, time.perf_counter() - start, peak_memory() - before))


class Readers:
    """A process that reads files, restarted after crashes and hangs."""

    def __init__(self, kind: str, folder: str, seconds: float):
        self.kind, self.folder, self.seconds = kind, folder, seconds
        self.context = mp.get_context("spawn")
        self.start()

    def start(self) -> None:
        """Start a new process."""
        self.jobs, self.answers = self.context.Queue(), self.context.Queue()
        arguments = (self.kind, self.jobs, self.answers, self.folder)
        self.process = self.context.Process(target=worker, args=arguments, daemon=True)
        self.process.start()
        self.fresh = True

    def read(self, number: int, name: str) -> tuple[str, str, float, int]:
        """Read one file; return outcome, message, seconds and memory."""
        self.jobs.put((number, name))
        deadline = (
            time.monotonic() + self.seconds + 60.0 * self.fresh
        )  # The first file includes imports.
        self.fresh = False
        while time.monotonic() < deadline:
            try:
                return self.answers.get(timeout=0.5)[1:]
            except queue.Empty:
                if not self.process.is_alive():
                    message = f"the process died with exit code {self.process.exitcode}"
                    self.start()
                    return "failure", message, 0.0, 0
        self.process.kill()
        self.start()
        return "failure", f"no answer within {self.seconds:g} s", self.seconds, 0

    def close(self) -> None:
        """Stop the process."""
        self.jobs.put(None)
        self.process.join(10)
        self.process.kill()


def run(kind: str, count: int, seed: int, seconds: float, keep: Path | None) -> dict[str, Any]:
    """Run one format; return counts, the slowest input, peak memory and failures."""
    counts: Counter[str] = Counter()
    findings: list[dict[str, str]] = []
    slowest, most = ("", 0.0), ("", 0)
    with tempfile.TemporaryDirectory() as folder:
        trace = str(Path(folder) / "code-was-run")
        readers = Readers(kind, folder, seconds)
        for number, (name, raw) in enumerate(inputs(kind, count, seed, trace)):
            path = Path(folder) / name
            path.write_bytes(raw)
            result, message, seconds_taken, memory = readers.read(number, name)
            if memory > MAX_MEMORY:
                result, message = "failure", f"{memory / 2**20:.0f} MiB of memory"
            if Path(trace).exists():
                result, message = "failure", "code of the file was executed"
                Path(trace).unlink()
            counts[result] += 1
            if result == "failure":
                findings.append({"input": name, "seed": str(seed), "what": message})
                if keep is not None:
                    (keep / f"{kind}-{seed}-{name}").write_bytes(raw)
            slowest = max(slowest, (name, seconds_taken), key=lambda pair: pair[1])
            most = max(most, (name, memory), key=lambda pair: pair[1])
            path.unlink()
        readers.close()
    return {
        "inputs": sum(counts.values()),
        "read": counts.pop("read", 0),
        "findings": counts.pop("failure", 0),
        "refused": dict(counts),
        "slowest": {"input": slowest[0], "seconds": round(slowest[1], 3)},
        "most memory": {"input": most[0], "MiB": round(most[1] / 2**20, 1)},
        "found": findings[:50],
    }


def inputs_per_format(total: int) -> dict[str, int]:
    """Distribute the inputs over the formats."""
    weights = sum(weight for _, weight in FORMATS.values())
    return {kind: max(1, total * weight // weights) for kind, (_, weight) in FORMATS.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--inputs", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=60.0, help="time limit per input")
    parser.add_argument("--only", choices=list(FORMATS), help="one format")
    parser.add_argument("--keep", type=Path, help="folder for inputs that fail")
    parser.add_argument("--record", type=Path, help="file for the record")
    options = parser.parse_args()
    if options.as_variables:
        options.as_variables.mkdir(parents=True, exist_ok=True)
    counts = (
        inputs_per_format(options.inputs)
        if options.only is None
        else {options.only: options.inputs}
    )
    record: dict[str, Any] = {"command": " ".join(["benchmarks/fuzz.py", *sys.argv[1:]])}
    record["formats"] = {}
    for kind, count in counts.items():
        start = time.perf_counter()
        result = run(kind, count, options.seed, options.seconds, options.as_variables)
        record["formats"][kind] = result
        shown = {k: v for k, v in result.items() if k != "found"}
        print(f"{kind}: {shown} in {time.perf_counter() - start:.0f} s", flush=True)
        for failure in result["found"]:
            print("   ", failure, flush=True)
    record["inputs"] = sum(result["inputs"] for result in record["formats"].values())
    record["findings"] = sum(result["findings"] for result in record["formats"].values())
    print(f"{record['inputs']} inputs, {record['findings']} failures")
    if options.record:
        options.record.write_text(json.dumps(record, indent=1) + "\n")
    sys.exit(bool(record["findings"]))


if __name__ == "__main__":
    main()
