#!/usr/bin/env python3
"""Packs the tar of a root file system as an OCI image with one layer, in an archive that container tools load.

usage: oci.py NAME:TAG OUT.tar LAYER.tar

The archive depends on its input alone. Format: https://github.com/opencontainers/image-spec, with the manifest.json that older
`docker load` reads.
"""
import hashlib
import io
import json
import os
import sys
import tarfile

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
TYPE = "application/vnd.oci.image."


def digest_of_file(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def digest_of(content):
    return hashlib.sha256(content).hexdigest()


def to_json(value):
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def reference(kind, digest, size):
    return {"mediaType": TYPE + kind, "digest": "sha256:" + digest, "size": size}


def full(name):
    """The name with a registry, as Kubernetes completes it before it looks for an image."""
    registry, slash, rest = name.partition("/")
    if slash and ("." in registry or ":" in registry or registry == "localhost"):
        return name
    return "docker.io/" + (name if slash else "library/" + name)


def pack(name, out, layer):
    name = full(name)
    architecture = ARCHITECTURES.get(os.uname().machine, os.uname().machine)
    platform = {"architecture": architecture, "os": "linux"}
    layer_digest = digest_of_file(layer)
    config = to_json({
        **platform,
        "config": {"Env": ["PATH=" + PATH, "HOME=/tmp"], "User": "65532:65532", "Cmd": ["sleep", "infinity"]},
        "rootfs": {"type": "layers", "diff_ids": ["sha256:" + layer_digest]},
    })
    manifest = to_json({
        "schemaVersion": 2,
        "mediaType": TYPE + "manifest.v1+json",
        "config": reference("config.v1+json", digest_of(config), len(config)),
        "layers": [reference("layer.v1.tar", layer_digest, os.path.getsize(layer))],
    })
    names = {"io.containerd.image.name": name, "org.opencontainers.image.ref.name": name}
    index = to_json({
        "schemaVersion": 2,
        "manifests": [{**reference("manifest.v1+json", digest_of(manifest), len(manifest)),
                       "platform": platform, "annotations": names}],
    })
    paths = {"Config": "blobs/sha256/" + digest_of(config), "Layers": ["blobs/sha256/" + layer_digest]}
    blobs = {
        "oci-layout": to_json({"imageLayoutVersion": "1.0.0"}),
        "index.json": index,
        "manifest.json": to_json([{**paths, "RepoTags": [name]}]),
    }
    blobs.update({"blobs/sha256/" + digest_of(content): content for content in (config, manifest)})
    with tarfile.open(out, "w") as archive:
        for path, content in blobs.items():
            entry = tarfile.TarInfo(path)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
        entry = tarfile.TarInfo("blobs/sha256/" + layer_digest)
        entry.size = os.path.getsize(layer)
        with open(layer, "rb") as file:
            archive.addfile(entry, file)
    return "sha256:" + digest_of(manifest)


if __name__ == "__main__":
    if len(sys.argv) != 4 or ":" not in sys.argv[1]:
        sys.exit(__doc__)
    print(pack(*sys.argv[1:]))
