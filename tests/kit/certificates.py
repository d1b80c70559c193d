"""An authority and certificates of a test's own, made with the openssl command."""

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass(frozen=True, slots=True)
class Authority:
    folder: Path
    name: str

    @property
    def ca(self) -> Path:
        return self.folder / f"{self.name}.crt"

    def issue(self, name: str, subject: str, alternatives: str = "") -> "tuple[Path, Path]":
        """Certificate and key; the alternatives as openssl has them: `DNS:localhost,IP:127.0.0.1`."""
        key, request, certificate = (self.folder / f"{name}.{end}" for end in ("key", "csr", "crt"))
        extensions = self.folder / f"{name}.ext"
        extensions.write_text(f"subjectAltName={alternatives}\n" if alternatives else "basicConstraints=CA:FALSE\n")
        _openssl("req", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", request, "-subj", f"/CN={subject}")
        signer = ("-CA", self.ca, "-CAkey", self.folder / f"{self.name}.key", "-CAcreateserial", "-days", "2")
        _openssl("x509", "-req", "-in", request, *signer, "-out", certificate, "-extfile", extensions)
        key.chmod(0o600)
        return certificate, key


def authority(folder: Path, name: str = "ca") -> Authority:
    if shutil.which("openssl") is None:
        pytest.skip("there is no openssl command to make certificates with")
    made = Authority(folder, name)
    arguments = ("-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={name}")
    _openssl("req", *arguments, "-keyout", folder / f"{name}.key", "-out", made.ca)
    return made


def _openssl(*arguments: object) -> None:
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)
