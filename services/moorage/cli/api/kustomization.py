"""Folders with a `kustomization.yaml`: by kubectl or kustomize where one is installed, otherwise a part of it here.

The part: `resources`, `namespace`, `namePrefix`, `nameSuffix`, `commonLabels`, `labels`, `commonAnnotations`, `images`,
strategic merge patches in `patches` and `patchesStrategicMerge`, and `configMapGenerator` without a suffix of the name.
Anything else is refused by its name, never left out.
"""

from __future__ import annotations

import copy
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from moorage.cli.api import kinds, manifests
from moorage.cli.errors import CliError

Object = dict[str, Any]

_FILES: Final = ("kustomization.yaml", "kustomization.yml", "Kustomization")
_KNOWN: Final = frozenset(
    {
        *("apiVersion", "kind", "metadata", "resources", "namespace", "namePrefix", "nameSuffix", "commonLabels"),
        *("labels", "commonAnnotations", "images", "patches", "patchesStrategicMerge", "configMapGenerator"),
        "generatorOptions",
    }
)
_DEEPEST: Final = 20
"""How many folders may be based on each other."""


def built(folder: Path) -> str:
    """Return the objects of a folder as YAML documents.

    Raises:
        CliError: the folder has no kustomization, or one that cannot be built.
    """
    if not folder.is_dir():
        raise CliError(f'the path "{folder}" is not a folder')
    for program in (("kubectl", "kustomize"), ("kustomize", "build")):
        if shutil.which(program[0]):
            done = subprocess.run([*program, str(folder)], capture_output=True, text=True, check=False)  # noqa: S603 - the user's own program
            if done.returncode:
                raise CliError(done.stderr.strip().removeprefix("error: ") or f"{program[0]} failed")
            return done.stdout
    return yaml.safe_dump_all(_Folder(folder, _DEEPEST).objects(), sort_keys=False)


class _Folder:
    """One folder with a kustomization."""

    def __init__(self, folder: Path, depth: int) -> None:
        self._folder = folder
        self._depth = depth
        named = [folder / name for name in _FILES if (folder / name).is_file()]
        if len(named) != 1:
            many = "several of" if named else "none of"
            raise CliError(f"{folder} has {many} {', '.join(_FILES)}")
        self._file = named[0]
        found = list(self._documents(self._file))
        if len(found) != 1 or not isinstance(found[0], dict):
            raise CliError(f"{self._file}: must be one object")
        self._said: Object = found[0]
        if unknown := sorted(self._said.keys() - _KNOWN):
            raise self._refused(", ".join(unknown))

    def objects(self) -> list[Object]:
        """Return the objects as they are to be applied."""
        found = [item for name in self._list("resources") for item in self._resource(str(name))]
        found += [self._config_map(one) for one in self._list("configMapGenerator")]
        for text in [*self._list("patchesStrategicMerge"), *self._list("patches")]:
            self._patch(found, text)
        for item in found:
            self._change(item)
        return found

    def _resource(self, name: str) -> Iterator[Object]:
        path = self._folder / name
        if "://" in name:
            raise self._refused(f"resources from other machines ({name})")
        if path.is_dir():
            if not self._depth:
                raise CliError(f"{self._file}: folders are based on each other without end")
            yield from _Folder(path, self._depth - 1).objects()
            return
        for document in self._documents(path):
            if document is not None and not isinstance(document, dict):
                raise CliError(f"{path}: must have objects")
            if document:
                yield document

    def _documents(self, path: Path) -> Iterator[Any]:
        try:
            yield from manifests.load_all(path.read_text("utf-8"))
        except FileNotFoundError:
            raise CliError(f'the path "{path}" does not exist') from None
        except (OSError, UnicodeDecodeError) as error:
            raise CliError(f"{path}: cannot be read: {error}") from None
        except yaml.YAMLError as error:
            raise CliError(f"{path}: error parsing YAML: {manifests.problem(error)}") from None

    def _config_map(self, said: Object) -> Object:
        options = {**(self._said.get("generatorOptions") or {}), **(said.get("options") or {})}
        if not options.get("disableNameSuffixHash"):
            raise self._refused("configMapGenerator without disableNameSuffixHash: true")
        if unknown := sorted(said.keys() - {"name", "namespace", "literals", "files", "options"}):
            raise self._refused(f"{', '.join(unknown)} of configMapGenerator")
        data: dict[str, str] = {}
        for literal in said.get("literals") or []:
            key, _, value = str(literal).partition("=")
            data[key] = value
        for file in said.get("files") or []:
            key, equals, path = str(file).partition("=")
            where = self._folder / (path if equals else key)
            try:
                data[key if equals else where.name] = where.read_text("utf-8")
            except (OSError, UnicodeDecodeError) as error:
                raise CliError(f"{where}: cannot be read: {error}") from None
        metadata = {"name": str(said.get("name") or "")}
        metadata |= {"namespace": str(said["namespace"])} if said.get("namespace") else {}
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}

    def _patch(self, objects: list[Object], said: Any) -> None:
        """Merge a patch into the objects that it names."""
        entry = said if isinstance(said, dict) else {"patch" if "\n" in str(said) else "path": said}
        if unknown := sorted(entry.keys() - {"path", "patch", "target"}):
            raise self._refused(f"{', '.join(unknown)} of patches")
        if entry.get("path"):
            changes = list(self._documents(self._folder / str(entry["path"])))
        else:
            try:
                changes = list(manifests.load_all(str(entry.get("patch") or "")))
            except yaml.YAMLError as error:
                raise self._refused(f"a patch that is no YAML ({manifests.problem(error)})") from None
        for change in changes:
            if not isinstance(change, dict):
                raise self._refused("JSON patches")
            target = entry.get("target") or {
                "kind": change.get("kind"),
                "name": (change.get("metadata") or {}).get("name"),
            }
            if unknown := sorted(target.keys() - {"group", "version", "kind", "name", "namespace"}):
                raise self._refused(f"{', '.join(unknown)} of a patch's target")
            meant = [index for index, item in enumerate(objects) if _is_target(item, target)]
            if not meant:
                raise CliError(f"{self._file}: no object matches the patch for {target}")
            for index in meant:
                objects[index] = _merged(objects[index], change)

    def _change(self, item: Object) -> None:
        """Set what the kustomization sets in every object."""
        metadata = item.setdefault("metadata", {})
        kind = kinds.of_object(str(item.get("apiVersion")), str(item.get("kind")))
        if (namespace := self._said.get("namespace")) and (kind is None or kind.namespaced):
            metadata["namespace"] = namespace
        if item.get("kind") != "Namespace":
            name = str(metadata.get("name") or "")
            metadata["name"] = f"{self._said.get('namePrefix') or ''}{name}{self._said.get('nameSuffix') or ''}"
        self._set(metadata, "annotations", self._said.get("commonAnnotations"))
        if common := self._said.get("commonLabels"):
            self._set_labels(item, common, selectors=True, templates=True)
        for one in self._list("labels"):
            selectors = bool(one.get("includeSelectors"))
            self._set_labels(
                item, one.get("pairs"), selectors=selectors, templates=selectors or bool(one.get("includeTemplates"))
            )
        for image in self._list("images"):
            _set_image(item, image)

    def _set_labels(self, item: Object, pairs: Any, *, selectors: bool, templates: bool) -> None:
        self._set(item["metadata"], "labels", pairs)
        spec = item.get("spec")
        if not isinstance(spec, dict):
            return
        template = spec.get("template")
        if templates and isinstance(template, dict):
            self._set(template.setdefault("metadata", {}), "labels", pairs)
        if selectors and item.get("kind") == "Service" and isinstance(spec.get("selector"), dict):
            self._set(spec, "selector", pairs)
        elif selectors and isinstance(spec.get("selector"), dict) and isinstance(template, dict):
            self._set(spec["selector"], "matchLabels", pairs)

    @staticmethod
    def _set(place: Object, name: str, pairs: Any) -> None:
        if pairs:
            place[name] = {**(place.get(name) or {}), **pairs}

    def _list(self, name: str) -> list[Any]:
        found = self._said.get(name) or []
        if not isinstance(found, list):
            raise CliError(f"{self._file}: {name} must be a list")
        return found

    def _refused(self, what: str) -> CliError:
        return CliError(f"{self._file}: {what}: not supported without kubectl or kustomize; install one of them")


def _is_target(item: Object, target: Mapping[str, Any]) -> bool:
    metadata = item.get("metadata") or {}
    group, _, version = str(item.get("apiVersion") or "").rpartition("/")
    there = {
        "group": group,
        "version": version,
        "kind": item.get("kind"),
        "name": metadata.get("name"),
        "namespace": metadata.get("namespace"),
    }
    return all(there[name] == value for name, value in target.items() if value)


def _merged(item: Object, change: Object) -> Object:
    from moorage.core.apimachinery.patching import merge_patch, strategic_merge  # noqa: PLC0415 - few commands need them
    from moorage.core.apimachinery.patching.errors import PatchError  # noqa: PLC0415 - as above
    from moorage.kinds.openapi.registry import schema_of  # noqa: PLC0415 - as above

    metadata = {name: value for name, value in (change.get("metadata") or {}).items() if name != "name"}
    patch = {**change, "metadata": metadata}
    group, _, version = str(item.get("apiVersion") or "").rpartition("/")
    try:
        if kinds.of_object(str(item.get("apiVersion")), str(item.get("kind"))) is None:
            merged: Object = merge_patch.applied(item, patch)
            return merged
        schema = schema_of(group, version, str(item["kind"]))
        return copy.deepcopy(strategic_merge.applied(item, patch, schema))
    except PatchError as error:
        raise CliError(error.message) from None


def _set_image(found: Any, said: Mapping[str, Any]) -> None:
    """Set the image of every container below a value."""
    if isinstance(found, list):
        for one in found:
            _set_image(one, said)
        return
    if not isinstance(found, dict):
        return
    for name, value in found.items():
        if name in {"containers", "initContainers"} and isinstance(value, list):
            for container in value:
                if isinstance(container, dict) and isinstance(container.get("image"), str):
                    container["image"] = _image(container["image"], said)
        else:
            _set_image(value, said)


def _image(image: str, said: Mapping[str, Any]) -> str:
    name, at, digest = image.partition("@")
    base, colon, tag = name.rpartition(":")
    if not colon or "/" in tag:  # a port of a registry is no tag
        base, tag = name, ""
    if base != said.get("name"):
        return image
    new = str(said.get("newName") or base)
    if said.get("digest"):
        return f"{new}@{said['digest']}"
    if said.get("newTag"):
        return f"{new}:{said['newTag']}"
    return f"{new}:{tag}" if tag else f"{new}{at}{digest}"
