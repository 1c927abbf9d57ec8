"""Minimal workbooks for tests of readers."""

import zipfile
from xml.sax.saxutils import escape


def letters(k):
    """Return the name of a column: A, ..., Z, AA, ..."""
    return (letters(k // 26 - 1) if k > 25 else "") + chr(65 + k % 26)


def xlsx(path, sheets, merged=(), extra=""):
    """Write a minimal workbook: texts inside the cells, style 1 for dates, 2 for percentages;
    a date is a tuple (days,), and per cent a tuple (share, "%")."""

    def cell(line, k, value):
        place = f'r="{letters(k)}{line}"'
        if value is None:
            return ""
        if isinstance(value, tuple):
            return f'<c {place} s="{len(value)}"><v>{value[0]!r}</v></c>'
        if isinstance(value, bool):
            return f'<c {place} t="b"><v>{int(value)}</v></c>'
        if isinstance(value, float | int):
            return f"<c {place}><v>{value!r}</v></c>"
        if value.startswith("#"):
            return f'<c {place} t="e"><v>{value}</v></c>'
        return f'<c {place} t="inlineStr"><is><t>{escape(value)}</t></is></c>'

    main = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    office = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    package = "http://schemas.openxmlformats.org/package/2006"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(
            "[Content_Types].xml",
            f'<Types xmlns="{package}/content-types">'
            '<Default Extension="rels" '
            'ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
            '<Default Extension="xml" ContentType="application/xml"/></Types>',
        )
        archive.writestr(
            "_rels/.rels",
            f'<Relationships xmlns="{package}/relationships"><Relationship Id="r1" '
            f'Type="{office}/officeDocument" Target="xl/workbook.xml"/></Relationships>',
        )
        archive.writestr(
            "xl/styles.xml",
            f'<styleSheet xmlns="{main}"><cellXfs count="3"><xf numFmtId="0"/>'
            '<xf numFmtId="14"/><xf numFmtId="9"/></cellXfs></styleSheet>',
        )
        names = "".join(
            f'<sheet name="{name}" sheetId="{k}" r:id="r{k}"/>' for k, name in enumerate(sheets, 1)
        )
        archive.writestr(
            "xl/workbook.xml",
            f'<workbook xmlns="{main}" xmlns:r="{office}"><sheets>{names}</sheets></workbook>',
        )
        relations = "".join(
            f'<Relationship Id="r{k}" Type="{office}/worksheet" Target="worksheets/s{k}.xml"/>'
            for k in range(1, len(sheets) + 1)
        )
        archive.writestr(
            "xl/_rels/workbook.xml.rels",
            f'<Relationships xmlns="{package}/relationships">{relations}<Relationship Id="s" '
            f'Type="{office}/styles" Target="styles.xml"/></Relationships>',
        )
        for k, rows in enumerate(sheets.values(), 1):
            cells = "".join(
                f'<row r="{line}">{"".join(cell(line, j, v) for j, v in enumerate(row))}</row>'
                for line, row in enumerate(rows, 1)
            )
            ranges = "".join(f'<mergeCell ref="{one}"/>' for one in merged)
            ranges = f"<mergeCells>{ranges}</mergeCells>" if merged else ""
            archive.writestr(
                f"xl/worksheets/s{k}.xml",
                f'<worksheet xmlns="{main}"><sheetData>{cells}{extra}</sheetData>{ranges}'
                "</worksheet>",
            )
    return path
