# SPDX-License-Identifier: BSD-3-Clause
"""Packs the package into a wheel (PEP 517). A wheel of pure Python is a zip file with three files of metadata.

Written here because pip fetches any other backend from the network first, even setuptools. Python 3.9 and 3.10 have no TOML
parser, so the few values that are needed are taken out of pyproject.toml by pattern.
"""
import base64
import hashlib
import os
import re
import tarfile
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
PACKAGE = "godwit"
SOURCES = ["pyproject.toml", "backend.py", "README.md"]


def read(name):
    with open(os.path.join(HERE, name), "rb") as file:
        return file.read()


def value(name):
    return re.search(rf'^{name} = "([^"]*)"$', read("pyproject.toml").decode(), re.M).group(1)


def members():
    """Files of the package, as paths from here."""
    for directory, _, names in sorted(os.walk(os.path.join(HERE, PACKAGE))):
        for name in sorted(names):
            if name.endswith((".py", ".typed")) or name.startswith("libgodwit.so"):
                yield os.path.relpath(os.path.join(directory, name), HERE)


def metadata():
    extras = "".join(f'Provides-Extra: {extra}\nRequires-Dist: {extra}; extra == "{extra}"\n' for extra in ("numpy", "torch"))
    head = (f"Metadata-Version: 2.1\nName: {PACKAGE}\nVersion: {value('version')}\nSummary: {value('description')}\n"
            f"License: BSD-3-Clause\nRequires-Python: {value('requires-python')}\n{extras}"
            "Description-Content-Type: text/markdown\n\n")
    return head.encode() + read("README.md")


def wheel_files(package):
    information = f"{PACKAGE}-{value('version')}.dist-info"
    files = dict(package)
    files[f"{information}/METADATA"] = metadata()
    files[f"{information}/WHEEL"] = b"Wheel-Version: 1.0\nGenerator: godwit\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    record = ""
    for name, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        record += f"{name},sha256={digest},{len(data)}\n"
    files[f"{information}/RECORD"] = (record + f"{information}/RECORD,,\n").encode()
    return files


def write_wheel(directory, package):
    name = f"{PACKAGE}-{value('version')}-py3-none-any.whl"
    with zipfile.ZipFile(os.path.join(directory, name), "w", zipfile.ZIP_DEFLATED) as archive:
        for path, data in wheel_files(package).items():
            archive.writestr(zipfile.ZipInfo(path), data, zipfile.ZIP_DEFLATED)
    return name


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    return write_wheel(wheel_directory, {path: read(path) for path in members()})


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    return write_wheel(wheel_directory, {f"{PACKAGE}.pth": (HERE + "\n").encode()})


def build_sdist(sdist_directory, config_settings=None):
    base = f"{PACKAGE}-{value('version')}"
    with tarfile.open(os.path.join(sdist_directory, f"{base}.tar.gz"), "w:gz") as archive:
        for path in [*SOURCES, *members()]:
            archive.add(os.path.join(HERE, path), f"{base}/{path}")
    return f"{base}.tar.gz"


def get_requires_for_build_wheel(config_settings=None):
    return []


get_requires_for_build_editable = get_requires_for_build_sdist = get_requires_for_build_wheel
