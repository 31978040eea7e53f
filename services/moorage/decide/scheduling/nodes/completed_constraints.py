"""Demands of a pod on other pods, with the namespace and the values of labels of the pod put in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Final

from moorage.decide.kubernetes.selectors import IN, NOT_IN
from moorage.decide.scheduling.nodes.pod_constraints import EvenSpread, Labels, Requirements, SpecTerm
from moorage.decide.scheduling.nodes.pod_shape import PodShape
from moorage_schemas.placement import LabelRequirement, PodConstraints, PodTerm

NOTHING: Final = PodConstraints()


@lru_cache(maxsize=16_384)
def constraints_of(shape: PodShape, namespace: str, labels: Labels) -> PodConstraints:
    """Return the ports that a pod takes, and its demands on other pods."""
    if not shape.ports and not shape.terms:
        return NOTHING
    own = dict(labels)
    terms = tuple(_completed(one, namespace, own) for one in shape.terms)
    return PodConstraints(host_ports=shape.ports, terms=terms)


@lru_cache(maxsize=16_384)
def spread_of(shape: PodShape, labels: Labels) -> tuple[EvenSpread, ...]:
    """Return the constraints on a pod's spreading."""
    own = dict(labels)
    return tuple(replace(one, labels=_with_values(one.labels, one.match_keys, IN, own)) for one in shape.spread)


def _completed(one: SpecTerm, namespace: str, own: Mapping[str, str]) -> PodTerm:
    term = one.term
    labels = _with_values(_with_values(term.labels, one.match_keys, IN, own), one.mismatch_keys, NOT_IN, own)
    namespaces = term.namespaces or ((namespace,) if term.namespace_selector is None else ())
    return term.model_copy(update={"namespaces": namespaces, "labels": labels})


def _with_values(
    labels: Requirements | None, keys: Iterable[str], operator: str, own: Mapping[str, str]
) -> Requirements | None:
    """Return requirements, with one more for each of the labels that the pod itself has."""
    if labels is None:
        return None
    more = tuple(LabelRequirement(key=key, operator=operator, values=(own[key],)) for key in keys if key in own)
    return labels + tuple(one for one in more if one not in labels)
