"""A training that is prepared: everything it needs, and what is printed before it starts."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unskew.errors import first_few
from unskew.evaluation.predictions import population_sentences
from unskew.training.arms import GIVEN, TrainingArm, worth_of
from unskew.training.inputs import SPLITS, TrainingInputs

if TYPE_CHECKING:
    from unskew.learn.presets import TrainSettings
    from unskew.runs.pipeline import Run


@dataclass(frozen=True, eq=False)
class Preparation:
    """Everything a training needs, read and weighed; nothing is trained yet.

    Attributes
    ----------
    out : the output folder.
    training : the images, their classes and splits.
    run : the weights, as `unskew weigh` computes them.
    arms : what is trained, the main one first.
    settings : of the training.
    record : what training.json contains.
    command : the command that was typed.
    resume : continue the training in the folder.
    """

    out: Path
    training: TrainingInputs
    run: Run
    arms: tuple[TrainingArm, ...]
    settings: TrainSettings
    record: dict[str, Any] = field(repr=False)
    command: str = ""
    resume: bool = False

    def lines(self) -> list[str]:
        """Describe what is about to be trained."""
        splits = self.training.splits
        lines = [self._images(), self._effective_images(), self._models()]
        if splits.validation is None:
            lines.append("There is no validation split: no epoch is chosen, the last one counts.")
        lines += self.unlearned()
        part_only = self.part_only(splits.held_out)
        return [*lines, part_only] if part_only else lines

    def _images(self) -> str:
        training = self.training
        counts = ", ".join(f"{part.name} {part.images:,}" for part in self.run.weights.parts)
        made = f" (made here: {SPLITS})" if training.split_table is not None else ""
        kind = f"{len(training.columns)} features" if training.columns else "pixels"
        return (
            f"{len(training.label):,} images of {len(training.inputs.pool.names)} sources, "
            f"{len(training.classes)} classes, as {kind}; {counts}{made}."
        )

    def _effective_images(self) -> str:
        train = self.training.splits.train
        if self.arms[0].name == GIVEN:
            return worth_of(f"given for {train}", self.arms[0].weight[self.training.rows(train)])
        return worth_of(f"of {train}", self.run.weights.parts[0].weight)

    def _models(self) -> str:
        settings, names = self.settings, ", ".join(arm.name for arm in self.arms)
        epochs = f", {settings.epochs} epochs of batches of {settings.batch}"
        return (
            f"Training {names}: preset {settings.preset}, model {settings.model}"
            f"{'' if self.training.columns else epochs}."
        )

    def part_only(self, split: str) -> str:
        """Say which part of the target the weighted images of a split cover; empty: all of it."""
        sentences = population_sentences(self.run.summary.verdict.population)
        if any(part.uncovered for part in self.run.weights.parts if part.name == split):
            rows = self.run.summary.splits
            notes = [row.note for row in rows if row.name == split and row.note]
            sentences.append(f"{split}: {notes[0] if notes else 'Covers a part of the target.'}")
        return " ".join(sentences)

    def unlearned(self) -> list[str]:
        """Name the classes of which train has no image, or images of weight 0 only."""
        training, arm, train = self.training, self.arms[0], self.training.splits.train
        rows, n_classes = training.rows(train), len(training.classes)
        count_m = np.bincount(training.label[rows], minlength=n_classes)
        mass_m = np.bincount(training.label[rows], weights=arm.weight[rows], minlength=n_classes)
        absent = [training.classes[m] for m in np.flatnonzero(count_m == 0)]
        light = [
            f"{training.classes[m]} ({count_m[m]:,})"
            for m in np.flatnonzero((count_m > 0) & ~(mass_m > 0))
        ]
        end = "such a class cannot be learned, and predictions of it mean nothing."
        sentences = []
        if absent:
            sentences.append(f"{train} has no image of {first_few(absent)}: {end}")
        if light:
            sentences.append(
                f"All images of {first_few(light)} in {train} have weight 0 ({arm.name}): {end}"
            )
        return sentences
