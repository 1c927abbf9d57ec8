"""Codes for missing values that every reader recognises."""

# Codes of spreadsheets and statistics programs.
MISSING = (
    "", "NA", "N/A", "n/a", "NaN", "nan", "NAN", "-nan", "null", "NULL", "None", "none",
    "#N/A", "#NA", "#NULL!", "#DIV/0!", "#VALUE!", "#NUM!", "#REF!",
)  # fmt: skip
