"""Certificates that a test makes, serves and trusts."""

import shutil
import ssl
import subprocess
from pathlib import Path

import pytest


def make_certificate(folder: Path, name: str) -> Path:
    """Make a certificate for a host name, with its key in the same file."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl makes the certificate")
    pem, signed = folder / f"{name}.pem", folder / "signed.pem"
    subject = ["-subj", f"/CN={name}", "-addext", f"subjectAltName=DNS:{name}"]
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *subject]
    subprocess.run([*command, "-keyout", pem, "-out", signed], check=True, capture_output=True)
    with pem.open("ab") as file:
        file.write(signed.read_bytes())
    return pem


def serve_certificate(certificate: Path) -> ssl.SSLContext:
    """Return what a server needs to serve a certificate."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate)
    return context


def trust(certificate: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the HTTP client of this process trust a certificate, as if an authority had signed it."""
    trusting = ssl.create_default_context(cafile=str(certificate))
    monkeypatch.setattr("aiohttp.connector._SSL_CONTEXT_VERIFIED", trusting)
