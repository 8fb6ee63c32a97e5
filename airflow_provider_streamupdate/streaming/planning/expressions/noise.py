"""What does not count in an expression: the one list of fields that do not affect its result. All others count."""

from __future__ import annotations

from typing import Any

# Field -> why it decides no result. Tested one by one: tests/spark/test_noise.py
FIELDS = {
    "exprId": "a number of the session, which tells one column from another; columns are traced instead",
    "resultId": "the same, of a function's result",
    "resultIds": "the same, of several",
    "qualifier": "the relation's alias that a name was looked up with; it is resolved",
    "metadata": "notes on an output column: a watermark's delay, which is a node of its own (and told of a stage that "
    "expires by it: lineage.watermarks); CHAR's length, whose "
    "padding is an expression of its own; a source column's default, which is read from the source's schema",
    "explicitMetadata": "the same, as given",
    "nonInheritableMetadataKeys": "which of these notes an alias leaves out",
    "nullable": "follows from the column below; only how nulls are looked for depends on it",
    "inputAggBufferOffset": "a place in a buffer at run time; 0 in every logical plan",
    "mutableAggBufferOffset": "the same",
    "mode": "of an AggregateExpression: how a physical plan divides the work; Complete in every logical plan",
    "branches": "of a CaseWhen: pairs of its children, whose number says which they are",
    "elseValue": "the same",
    "hideSeed": "whether the written text of a random number shows its seed",
    "imports": "what importing the modules of a Python function does; it is part of its code, and counts for all "
    "functions of the app (streaming/planning/settings/python_imports.py)",
    "randomSeed": "of uuid and shuffle: a stream's batch has a new one (`SEEDS`)",
}
# These are noise in one class only; aes_encrypt, for example, has a mode that counts.
ONLY_IN = {
    "mode": ("AggregateExpression",),
    "branches": ("CaseWhen",),
    "elseValue": ("CaseWhen",),
    "imports": ("PythonUDF", "PythonUDAF", "PythonUDTF"),
    "randomSeed": ("Uuid", "Shuffle"),
}
# The child that is a seed. Whatever it was written as, IncrementalExecution gives each batch a new one
# (ExpressionWithRandomSeed.withNewSeed), so that all seeds mean the same.
SEEDS = {"Rand": 0, "Randn": 0, "RandStr": 1, "Uniform": 2}

# Settings of an expression that are not written out in a text: Spark 4's own. Every other value is.
USUAL = {
    "evalMode": "ANSI",
    "evalContext": "NumericEvalContext(ANSI, True)",
}


def counts(expression: str, field: str, value: Any) -> bool:
    """Whether a field of an expression of this class is part of its text."""
    if field in FIELDS and expression in ONLY_IN.get(field, (expression,)):
        return False
    return value is not None
