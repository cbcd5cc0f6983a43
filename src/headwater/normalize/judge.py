"""Which blocks of a page are its text, by weights that were learned from real pages (bench/extract_training.py)."""

import json
from functools import cache
from importlib import resources

from headwater.normalize.blocks import Block, Element
from headwater.normalize.features import PageFeatures

# No block has features of its own that outweigh such a place.
_HOPELESS = -2.0


def judge(blocks: list[Block], elements: list[Element]) -> list[float]:
    """Return for each block how sure it is that it belongs to the text: above zero it does, below it does not."""
    weights = _weights()
    steps, says = weights["steps"].get, weights["says"].get
    features = PageFeatures(blocks, elements, weights["words"])
    verdicts = []
    for number in range(len(blocks)):
        place = features.place(number)
        verdict = place.judged
        if verdict is None:
            verdict = place.words_judged + sum([steps(feature, 0.0) for feature in features.of_place(place)])
            place.judged = verdict
        if verdict > _HOPELESS:
            verdict += sum([steps(feature, 0.0) for feature in features.own(number)])
            verdict += sum([says(word, 0.0) for word in features.said(number)])
        verdicts.append(verdict)
    return verdicts


@cache
def _weights() -> dict[str, dict[str, float]]:
    text = resources.files(__package__).joinpath("weights.json").read_text("utf-8")
    weights: dict[str, dict[str, float]] = json.loads(text)
    return weights
