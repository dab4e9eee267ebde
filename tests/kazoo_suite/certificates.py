"""Throw-away certificates for servers and clients on loopback, as the TLS tests of kazoo want them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa

LIFE = timedelta(days=1)
KEY_BITS = 2048


@dataclass(frozen=True)
class Certificates:
    """All of it PEM: `server` is key and certificate, as ZooKeeper reads it; the client's are apart."""

    ca: bytes
    server: bytes
    client_key: bytes
    client_certificate: bytes


def make_certificates() -> Certificates:
    ca_key, ca = _issue("ca", None)
    server_key, server = _issue("localhost", (ca_key, ca))
    client_key, client = _issue("client", (ca_key, ca))
    return Certificates(_pem(ca), _pem_key(server_key) + _pem(server), _pem_key(client_key), _pem(client))


def _issue(
    name: str, issuer: tuple[rsa.RSAPrivateKey, x509.Certificate] | None
) -> tuple[rsa.RSAPrivateKey, x509.Certificate]:
    """A key and its certificate, by the issuer; by itself, as an authority, if there is none."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=KEY_BITS)
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    issuer_key, issuer_name = (issuer[0], issuer[1].subject) if issuer else (key, subject)
    now = datetime.now(timezone.utc)
    signer = x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key())
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer_name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))  # clocks may be set while tests run
        .not_valid_after(now + LIFE)
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(signer, critical=False)
        .sign(issuer_key, hashes.SHA256())
    )
    return key, certificate


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _pem_key(key: rsa.RSAPrivateKey) -> bytes:
    plain = serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
