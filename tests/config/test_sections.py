"""The sections agree with what they configure."""

from typing import get_args

from unskew.config.problems import _NETWORKS
from unskew.config.run_config import (
    RunConfig,
)
from unskew.config.sections import SOURCE_KINDS, TARGET_KINDS, SolveSection, SourcesSection
from unskew.represent import embedding_models
from unskew.solve.options import Method
from unskew.target import settings as schema


def test_the_sections_agree_with_what_they_configure():
    """The keys that go with each kind of target, and the solver's methods, are written in two
    places.
    """
    assert {kind: set(beside) for kind, beside in TARGET_KINDS.items()} == {
        kind: set(beside) for kind, beside in schema._ALLOWED.items()
    }
    assert sorted(_NETWORKS) == sorted(embedding_models._ONNX + embedding_models._TORCHSCRIPT)
    assert set(SourcesSection.model_fields) == {
        *SOURCE_KINDS,
        *(key for beside in SOURCE_KINDS.values() for key in beside),
    }
    assert get_args(SolveSection.model_fields["method"].annotation) == get_args(Method)
    assert set(RunConfig.model_fields) == {
        "folder",
        "sources",
        "represent",
        "target",
        "bias",
        "solve",
        "learn",
        "report",
        "engine",
    }
