"""The sections agree with what they configure."""

from typing import get_args

from unskew.config.problems import _NETWORKS
from unskew.config.run_config import (
    RunConfig,
)
from unskew.config.sections import (
    KINDS_OF_TARGET,
    SOURCE_KINDS,
    SolveSection,
    SourcesSection,
    TargetSection,
)
from unskew.represent import embedding_models
from unskew.solve.options import Method


def test_the_sections_agree_with_what_they_configure():
    """The keys of sources and targets, and the solver's methods, are written in two places."""
    assert set(TargetSection.model_fields) == {
        *KINDS_OF_TARGET,
        *(key for beside in KINDS_OF_TARGET.values() for key in beside),
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
        "targets",
        "bias",
        "solve",
        "learn",
        "report",
        "engine",
    }
