"""Damaged and hostile files against the readers and the model loader.

    python -m benchmarks.fuzz                           # 100,000 inputs, half an hour on two cores
    python -m benchmarks.fuzz --inputs 2000 --seed 1    # a short run

Valid files of every format are damaged: bits flipped, bytes cut out, repeated, replaced by others
or by numbers that claim huge sizes, two files spliced, text rewritten; files built to do harm come
first. Every input must be read, or refused with an error of ours in words, within `--seconds`;
anything else is a finding. Each format runs in processes of its own whose address space is
limited, so a crash or a hang is caught and counted, and the run goes on behind it.
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

MEMORY = 2**30  # bytes that reading one small file may take beyond the packages
LARGE = (0, 1, -1, 2**15, 2**16 - 1, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**62, 2**63 - 1)
WORDS = (
    b"\0", b'"', b"'", b"\r", b"\n", b"\r\n", b",", b";", b"\t", b"|", b"nan", b"1e999", b"-inf",
    b"\xff\xfe", b"\xfe\xff", b"\xef\xbb\xbf", b"\xff", b"\xe9", b"=1+1", b"0x10", b"1_0",
    b"\x1b[31m", b"<script>", b"../../", b"\xf0\x9f\x98\x80", b"9" * 400, b"[" * 3000, b"{" * 3000,
    b"PK\x03\x04",
)  # fmt: skip


class Hostile:
    """Would leave a file behind if a reader ever ran what is in its input."""

    def __init__(self, trace: str):
        self.trace = trace

    def __reduce__(self) -> Any:
        return Path.touch, (Path(self.trace),)


# --- valid files, to be damaged


def table() -> tuple[np.ndarray, list[str], list[str]]:
    X = np.random.default_rng(0).normal(size=(12, 4)).round(3)
    X[2, 1] = np.nan
    return X, ["a", "b c", "é😀", "d"], [f"r{k}" for k in range(12)]


def _text(separator: str, decimal: str = ".", quoted: bool = False) -> str:
    X, names, ids = table()
    quote = '"' if quoted else ""
    rows = [["id", *names], *([one, *map(str, row)] for one, row in zip(ids, X, strict=True))]
    cells = [[f"{quote}{cell.replace('.', decimal)}{quote}" for cell in row] for row in rows]
    return "\n".join(separator.join(row) for row in cells) + "\n"


def texts() -> dict[str, bytes]:
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
    import pyarrow as pa
    from pyarrow import feather, ipc, parquet

    X, names, ids = table()
    data = pa.table({"id": ids} | {n: X[:, k] for k, n in enumerate(names)})
    found = {}
    for name, compression in (("plain", "none"), ("snappy", "snappy"), ("zstd", "zstd")):
        buffer = io.BytesIO()
        parquet.write_table(data, buffer, compression=compression, row_group_size=5)
        found[f"{name}.parquet"] = buffer.getvalue()
    for name in ("uncompressed", "lz4"):
        buffer = io.BytesIO()
        feather.write_feather(data, buffer, compression=name)
        found[f"{name}.feather"] = buffer.getvalue()
    for name, new in (("file", ipc.new_file), ("stream", ipc.new_stream)):
        buffer = io.BytesIO()
        with new(buffer, data.schema) as writer:
            writer.write_table(data, max_chunksize=5)
        found[f"{name}.arrow"] = buffer.getvalue()
    return found


def _saved(write: Callable[..., Any], *arguments: Any, **named: Any) -> bytes:
    buffer = io.BytesIO()
    write(buffer, *arguments, **named)
    return buffer.getvalue()


def numpy_files() -> dict[str, bytes]:
    X, names, ids = table()
    S = sparse.csr_array(np.nan_to_num(X) * (np.arange(4) % 2))
    return {
        "plain.npy": _saved(np.save, X),
        "fortran.npy": _saved(np.save, np.asfortranarray(X.astype(np.float32))),
        "named.npz": _saved(np.savez, X=X, names=np.array(names), ids=np.array(ids)),
        "packed.npz": _saved(np.savez_compressed, X=X),
        "sparse.npz": _saved(sparse.save_npz, S),
    }


def matrices() -> dict[str, bytes]:
    X = np.nan_to_num(table()[0])
    S = sparse.coo_array(X * (np.arange(4) % 2))
    return {
        "sparse.mtx": _saved(matrix_market.mmwrite, S),
        "dense.mtx": _saved(matrix_market.mmwrite, X),
        "small.mtx.gz": gzip.compress(_saved(matrix_market.mmwrite, S)),
    }


def annotated() -> dict[str, bytes]:
    import anndata
    import pandas as pd

    X, names, ids = table()
    found = {}
    for name, matrix in (("dense", X), ("sparse", sparse.csr_matrix(np.nan_to_num(X)))):
        obs = pd.DataFrame({"kind": ["u", "v"] * 6}, index=ids)
        data = anndata.AnnData(matrix, obs=obs, var=pd.DataFrame(index=names))
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "t.h5ad"
            data.write_h5ad(path)
            found[f"{name}.h5ad"] = path.read_bytes()
    return found


_OPEN = "http://schemas.openxmlformats.org"
_OFFICE = f"{_OPEN}/officeDocument/2006/relationships"
_MAIN = f'xmlns="{_OPEN}/spreadsheetml/2006/main"'
_ODS = "urn:oasis:names:tc:opendocument:xmlns"
# Pieces of XML that change what a sheet claims.
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
    X, names, ids = table()
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
    kinds = {
        "w": ("worksheet", "worksheets/s.xml"),
        "s": ("styles", "styles.xml"),
        "t": ("sharedStrings", "sharedStrings.xml"),
    }
    relations = "".join(
        f'<Relationship Id="{key}" Type="{_OFFICE}/{kind}" Target="{target}"/>'
        for key, (kind, target) in kinds.items()
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
    X, names, ids = table()

    def cell(value: Any) -> str:
        if isinstance(value, str):
            text = f"<text:p>{value}</text:p>"
            return f'<table:table-cell office:value-type="string">{text}</table:table-cell>'
        if np.isnan(value):
            return '<table:table-cell table:number-columns-repeated="1"/>'
        return f'<table:table-cell office:value-type="float" office:value="{value}"/>'

    rows = [["id", *names], *([one, *row] for one, row in zip(ids, X, strict=True))]
    body = "".join(f"<table:table-row>{''.join(map(cell, row))}</table:table-row>" for row in rows)
    spaces = " ".join(f'xmlns:{one}="{_ODS}:{one}:1.0"' for one in ("office", "table", "text"))
    parts = {
        "mimetype": "application/vnd.oasis.opendocument.spreadsheet",
        "content.xml": f"<office:document-content {spaces}><office:body><office:spreadsheet>"
        f'<table:table table:name="S">{body}</table:table></office:spreadsheet></office:body>'
        "</office:document-content>",
        "META-INF/manifest.xml": f'<manifest:manifest xmlns:manifest="{_ODS}:manifest:1.0"/>',
    }
    return archive({name: text.encode() for name, text in parts.items()}, zipfile.ZIP_DEFLATED)


def workbooks() -> dict[str, bytes]:
    return {"t.xlsx": _xlsx(), "t.ods": _ods()}


def models() -> dict[str, bytes]:
    X = np.nan_to_num(table()[0])
    found = {}
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for model in (GSPPCA(1, scale=True), SCA(1, views=[[0, 1], [2, 3]]), SPPCA(1, penalty=1.0)):
            path = save(model.fit(X), Path(folder) / "m", about={"é": [1, None]})
            found[f"{type(model).__name__}.prosparse"] = path.read_bytes()
    return found


# --- files built to do harm


def npy(header: Any, body: bytes = b"") -> bytes:
    text = repr(header).encode() if isinstance(header, dict) else header
    text += b" " * (-(len(text) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + body


def archive(members: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> bytes:
    buffer = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(buffer, "w", compression) as file:
        warnings.simplefilter("ignore")  # names given twice
        for name, content in members.items():
            file.writestr(name, content)
    return buffer.getvalue()


def _arrays(trace: str) -> dict[str, bytes]:
    """In NumPy's format: pickles, and headers that claim more than there is."""
    plain = {"descr": "<f8", "fortran_order": False}
    objects = _saved(np.save, np.array([[Hostile(trace)] * 2] * 2, dtype=object))
    return {
        "pickle": pickle.dumps(Hostile(trace)),
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


def hostile_texts(trace: str) -> dict[str, bytes]:
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


def hostile_matrices(trace: str) -> dict[str, bytes]:
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


def hostile_arrays(trace: str) -> dict[str, bytes]:
    arrays = _arrays(trace)
    csr = {
        "format.npy": _saved(np.save, np.array(b"csr")),
        "shape.npy": _saved(np.save, np.array([2, 3])),
        "data.npy": _saved(np.save, np.ones(2)),
        "indices.npy": _saved(np.save, np.array([0, 7])),
        "indptr.npy": _saved(np.save, np.array([0, 1, 2])),
    }
    found = {f"{name}.npy": raw for name, raw in arrays.items()}
    found |= {f"{name}.npz": archive({"X.npy": raw}) for name, raw in arrays.items()}
    sparse_changes = {
        "huge": {"shape.npy": _saved(np.save, np.array([10**9, 10**9]))},
        "wide": {"shape.npy": _saved(np.save, np.array([2, 10**9]))},
        "index outside": {},
        "falling": {"indptr.npy": _saved(np.save, np.array([0, 9, 2]))},
        "unknown": {"format.npy": _saved(np.save, np.array(b"xyz"))},
        "objects": {"data.npy": arrays["objects"]},
    }
    found |= {f"sparse, {k}.npz": archive(csr | v) for k, v in sparse_changes.items()}
    return found | {
        "bomb.npz": archive({"X.npy": _zeros()}, zipfile.ZIP_DEFLATED),
        "outside.npz": archive({"../../X.npy": arrays["huge"]}),
        "twice.npz": archive({"X.npy": b"", "X": b""}),
    }


def hostile_models(trace: str) -> dict[str, bytes]:
    arrays = _arrays(trace)
    valid = models()["GSPPCA.prosparse"]
    with zipfile.ZipFile(io.BytesIO(valid)) as file:
        parts = {name: file.read(name) for name in file.namelist()}
    header = json.loads(parts["model.json"])

    def with_fitted(value: Any) -> bytes:
        return archive(parts | {"model.json": json.dumps(header | {"fitted": value}).encode()})

    deep = b'{"format": "prosparse-model", "version": 1, "fitted": {"a_": '
    found = {f"{k}.prosparse": archive(parts | {"arrays/0.npy": v}) for k, v in arrays.items()}
    return found | {
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


def damaged(rng: np.random.Generator, seeds: list[bytes]) -> bytes:
    """One to four changes to one of the seeds."""
    seed = seeds[rng.integers(len(seeds))]
    if (b"content.xml" in seed or b"workbook.xml" in seed) and rng.random() < 0.8:
        return _damaged_member(rng, seed)
    raw = bytearray(seed)
    for _ in range(rng.integers(1, 5)):
        _CHANGES[rng.integers(len(_CHANGES))](rng, raw, seeds)
    return bytes(raw)


def _damaged_member(rng: np.random.Generator, seed: bytes) -> bytes:
    """Changes inside the files of an archive, mostly to their XML; the archive stays whole."""
    with zipfile.ZipFile(io.BytesIO(seed)) as file:
        parts = {name: file.read(name) for name in file.namelist()}
    names = sorted(parts, key=lambda name: len(parts[name]))
    for _ in range(rng.integers(1, 3)):
        # the largest files hold the data
        name = names[-1 - min(int(rng.exponential(0.5)), len(names) - 1)]
        raw = bytearray(parts[name])
        if b"<" in raw and rng.random() < 0.8:
            _markup(rng, raw)
        else:
            _CHANGES[rng.integers(len(_CHANGES))](rng, raw, list(parts.values()))
        parts[name] = bytes(raw)
    if rng.random() < 0.05:
        del parts[names[rng.integers(len(names))]]
    return archive(parts, zipfile.ZIP_DEFLATED)


def _markup(rng: np.random.Generator, raw: bytearray) -> None:
    """A piece of XML put before a tag, inside a tag or in the place of a tag or of a value."""
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
        at = space if space >= 0 else tag.end() - 1
        raw[at:at] = piece
    elif action == 3:
        value = values[rng.integers(len(values))]
        raw[value.start() + 1 : value.end() - 1] = str(LARGE[rng.integers(len(LARGE))]).encode()
    else:
        other = tags[rng.integers(len(tags))]
        raw[tag.start() : tag.end()] = bytes(raw[other.start() : other.end()])


def _place(rng: np.random.Generator, raw: bytearray) -> int:
    return int(rng.integers(len(raw) + 1))


def _flip(rng: np.random.Generator, raw: bytearray, seeds: list[bytes]) -> None:
    for _ in range(int(rng.integers(1, 9))):
        if raw:
            raw[rng.integers(len(raw))] ^= 1 << int(rng.integers(8))


def _cut(rng: np.random.Generator, raw: bytearray, seeds: list[bytes]) -> None:
    del raw[_place(rng, raw) :]


def _remove(rng: np.random.Generator, raw: bytearray, seeds: list[bytes]) -> None:
    at = _place(rng, raw)
    del raw[at : at + int(rng.integers(1, 64))]


def _repeat(rng: np.random.Generator, raw: bytearray, seeds: list[bytes]) -> None:
    a, b = sorted((_place(rng, raw), _place(rng, raw)))
    b = min(b, a + 2000)
    raw[a:a] = raw[a:b] * int(rng.integers(1, 20))


def _splice(rng: np.random.Generator, raw: bytearray, seeds: list[bytes]) -> None:
    other = seeds[rng.integers(len(seeds))]
    raw[_place(rng, raw) :] = other[int(rng.integers(len(other))) :]


def _noise(rng: np.random.Generator, raw: bytearray, seeds: list[bytes]) -> None:
    at, size = _place(rng, raw), int(rng.integers(1, 32))
    raw[at : at + size] = rng.bytes(size)


def _claim(rng: np.random.Generator, raw: bytearray, seeds: list[bytes]) -> None:
    """A number that claims something huge, or nothing, where a length may stand."""
    value, width = int(rng.choice(len(LARGE))), int(rng.choice([2, 4, 8]))
    number = (LARGE[value] % 2 ** (8 * width)).to_bytes(
        width, "little" if rng.random() < 0.8 else "big"
    )
    at = _place(rng, raw)
    raw[at : at + width] = number


def _digits(rng: np.random.Generator, raw: bytearray, seeds: list[bytes]) -> None:
    """The same for numbers in text: one run of digits becomes another."""
    import re

    runs = list(re.finditer(rb"\d+", raw))
    if runs:
        run = runs[rng.integers(len(runs))]
        raw[run.start() : run.end()] = str(LARGE[rng.integers(len(LARGE))]).encode()


def _word(rng: np.random.Generator, raw: bytearray, seeds: list[bytes]) -> None:
    at, word = _place(rng, raw), WORDS[rng.integers(len(WORDS))]
    raw[at : at + (len(word) if rng.random() < 0.5 else 0)] = word


_CHANGES = (_flip, _flip, _cut, _remove, _repeat, _splice, _noise, _claim, _digits, _word)

FORMATS: dict[str, tuple[Callable[[], dict[str, bytes]], int]] = {
    # seeds, and how many shares of the inputs: few of H5AD, each of which starts a process
    "text": (texts, 32),
    "columnar": (columnar, 20),
    "numpy": (numpy_files, 15),
    "matrix market": (matrices, 10),
    "h5ad": (annotated, 1),
    "model": (models, 22),
    "workbook": (workbooks, 2),  # as H5AD
}

HOSTILE: dict[str, Callable[[str], dict[str, bytes]]] = {
    "text": hostile_texts,
    "numpy": hostile_arrays,
    "matrix market": hostile_matrices,
    "model": hostile_models,
}


def inputs(kind: str, count: int, seed: int, trace: str) -> Iterator[tuple[str, bytes]]:
    """Names (whose ending decides) and contents: in long runs the hostile ones first."""
    crafted = HOSTILE[kind](trace) if kind in HOSTILE and count > 100 else {}
    yield from crafted.items()
    by_ending: dict[str, list[bytes]] = {}
    for name, raw in FORMATS[kind][0]().items():
        by_ending.setdefault(name[name.index(".") :], []).append(raw)
    rng = np.random.default_rng([seed, list(FORMATS).index(kind)])
    endings = list(by_ending)
    for number in range(count - len(crafted)):
        ending = endings[rng.integers(len(endings))]
        yield f"{number}{ending}", damaged(rng, by_ending[ending])


def asks(number: int) -> ReadOptions:
    """What the user may say, in turn."""
    every = (
        ReadOptions(), ReadOptions(), ReadOptions(), ReadOptions(label="id"),
        ReadOptions(drop=("id",)), ReadOptions(id_column="id"),
        ReadOptions(transpose=True), ReadOptions(header=False),
        ReadOptions(encoding="latin-1"), ReadOptions(separator=";"),
        ReadOptions(encoding="utf-16"), ReadOptions(drop=("x1",)), ReadOptions(label="kind"),
    )  # fmt: skip
    return every[number % len(every)]


def outcome(path: Path, number: int) -> tuple[str, str]:
    """ "read", the name of our error, or "finding", and what was said."""
    try:
        if path.suffix == ".prosparse":
            load(path)
        else:
            read = read_table(path, asks(number))
            if len(read.names) != read.X.shape[1] or min(read.X.shape) < 2:
                return "finding", f"a table of shape {read.X.shape} with {len(read.names)} names"
    except (TableError, ModelFileError) as error:
        said = str(error)
        if "panicked" in said or "stack backtrace" in said:
            return "finding", f"a message for developers: {said[:200]}"
        if not said.startswith(str(path)) or len(said) > 2000:
            return "finding", f"an error without the file, or too long: {said[:200]}"
        return type(error).__name__, said
    except BaseException as error:  # whatever it is, it should have been one of the two
        return "finding", f"{type(error).__name__}: {error}"[:500]
    return "read", ""


# --- running them


def peak() -> int:
    """Bytes of resident memory at the highest, since `reset_peak`."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line for line in lines if line.startswith("VmHWM")).split()[1])


def reset_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")


def worker(kind: str, jobs: Any, answers: Any, folder: str) -> None:
    """Read one file after the other; the address space is limited from the first on."""
    warnings.simplefilter("ignore")
    for name, raw in FORMATS[kind][0]().items():  # all packages imported, all pools there
        path = Path(folder) / f"first{name}"
        path.write_bytes(raw)
        outcome(path, 0)
        path.unlink()
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + 2 * MEMORY, size + 2 * MEMORY))
    while (job := jobs.get()) is not None:
        number, name = job
        path = Path(folder) / name
        reset_peak()
        before, started = peak(), time.perf_counter()
        word, said = outcome(path, number)
        child = 1024 * resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
        if child > MEMORY + 2**28:  # the limit, and the packages
            word, said = "finding", f"{child / 2**20:.0f} MiB of memory in a child process"
        answers.put((number, word, said, time.perf_counter() - started, peak() - before))


class Readers:
    """A process that reads, and another one when it has crashed or hangs."""

    def __init__(self, kind: str, folder: str, seconds: float):
        self.kind, self.folder, self.seconds = kind, folder, seconds
        self.context = mp.get_context("spawn")
        self.start()

    def start(self) -> None:
        self.jobs, self.answers = self.context.Queue(), self.context.Queue()
        arguments = (self.kind, self.jobs, self.answers, self.folder)
        self.process = self.context.Process(target=worker, args=arguments, daemon=True)
        self.process.start()
        self.fresh = True

    def read(self, number: int, name: str) -> tuple[str, str, float, int]:
        self.jobs.put((number, name))
        ended = time.monotonic() + self.seconds + 60.0 * self.fresh  # packages are imported first
        self.fresh = False
        while time.monotonic() < ended:
            try:
                return self.answers.get(timeout=0.5)[1:]
            except queue.Empty:
                if not self.process.is_alive():
                    said = f"the process died with exit code {self.process.exitcode}"
                    self.start()
                    return "finding", said, 0.0, 0
        self.process.kill()
        self.start()
        return "finding", f"no answer within {self.seconds:g} s", self.seconds, 0

    def close(self) -> None:
        self.jobs.put(None)
        self.process.join(10)
        self.process.kill()


def run(kind: str, count: int, seed: int, seconds: float, keep: Path | None) -> dict[str, Any]:
    """One format: counts of outcomes, the slowest input, the most memory, and the findings."""
    words: Counter[str] = Counter()
    findings: list[dict[str, str]] = []
    slowest, most = ("", 0.0), ("", 0)
    with tempfile.TemporaryDirectory() as folder:
        trace = str(Path(folder) / "code-was-run")
        readers = Readers(kind, folder, seconds)
        for number, (name, raw) in enumerate(inputs(kind, count, seed, trace)):
            path = Path(folder) / name
            path.write_bytes(raw)
            word, said, took, memory = readers.read(number, name)
            if memory > MEMORY:
                word, said = "finding", f"{memory / 2**20:.0f} MiB of memory"
            if Path(trace).exists():
                word, said = "finding", "it ran code"
                Path(trace).unlink()
            words[word] += 1
            if word == "finding":
                findings.append({"input": name, "seed": str(seed), "what": said})
                if keep is not None:
                    (keep / f"{kind}-{seed}-{name}").write_bytes(raw)
            slowest = max(slowest, (name, took), key=lambda pair: pair[1])
            most = max(most, (name, memory), key=lambda pair: pair[1])
            path.unlink()
        readers.close()
    return {
        "inputs": sum(words.values()),
        "read": words.pop("read", 0),
        "findings": words.pop("finding", 0),
        "refused": dict(words),
        "slowest": {"input": slowest[0], "seconds": round(slowest[1], 3)},
        "most memory": {"input": most[0], "MiB": round(most[1] / 2**20, 1)},
        "found": findings[:50],
    }


def shares(total: int) -> dict[str, int]:
    whole = sum(share for _, share in FORMATS.values())
    return {kind: max(1, total * share // whole) for kind, (_, share) in FORMATS.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--inputs", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=60.0, help="that one input may take")
    parser.add_argument("--only", choices=list(FORMATS), help="one format")
    parser.add_argument("--keep", type=Path, help="folder for inputs that are findings")
    parser.add_argument("--record", type=Path, help="file for the record")
    given = parser.parse_args()
    if given.keep:
        given.keep.mkdir(parents=True, exist_ok=True)
    counts = shares(given.inputs) if given.only is None else {given.only: given.inputs}
    record: dict[str, Any] = {"command": " ".join(["benchmarks/fuzz.py", *sys.argv[1:]])}
    record["formats"] = {}
    for kind, count in counts.items():
        begun = time.perf_counter()
        found = run(kind, count, given.seed, given.seconds, given.keep)
        record["formats"][kind] = found
        shown = {k: v for k, v in found.items() if k != "found"}
        print(f"{kind}: {shown} in {time.perf_counter() - begun:.0f} s", flush=True)
        for one in found["found"]:
            print("   ", one, flush=True)
    record["inputs"] = sum(found["inputs"] for found in record["formats"].values())
    record["findings"] = sum(found["findings"] for found in record["formats"].values())
    print(f"{record['inputs']} inputs, {record['findings']} findings")
    if given.record:
        given.record.write_text(json.dumps(record, indent=1) + "\n")
    sys.exit(bool(record["findings"]))


if __name__ == "__main__":
    main()
