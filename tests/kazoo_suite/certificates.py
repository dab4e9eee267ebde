"""Throw-away certificates for servers and clients on loopback."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from ipaddress import ip_address

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa

LIFE = timedelta(days=1)
KEY_BITS = 2048


@dataclass(frozen=True)
class Certificates:
    """What kazoo's TLS tests want. All of it PEM: `server` is key and certificate; the client's are apart."""

    ca: bytes
    server: bytes
    client_key: bytes
    client_certificate: bytes


@dataclass(frozen=True)
class Credentials:
    """A key and its certificate, both PEM."""

    key: bytes
    certificate: bytes


class Authority:
    """Issues certificates; its own, PEM, is `certificate`."""

    def __init__(self, name: str = "ca") -> None:
        self._name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        self._key = _new_key()
        now = datetime.now(timezone.utc)
        self.certificate = self._sign(self._name, self._key, now + LIFE, [], is_authority=True)

    def issue(self, name: str, address: str = "", *, has_expired: bool = False, password: str = "") -> Credentials:
        """Credentials for `name`.

        :param address: an IP address that they are valid for.
        :param password: encrypts the key, if there is one.
        """
        key = _new_key()
        subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        end = datetime.now(timezone.utc) + (timedelta(minutes=-1) if has_expired else LIFE)
        names: list[x509.GeneralName] = [x509.IPAddress(ip_address(address))] if address else []
        encryption = (
            serialization.BestAvailableEncryption(password.encode()) if password else serialization.NoEncryption()
        )
        pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)
        return Credentials(pem, self._sign(subject, key, end, names, is_authority=False))

    def _sign(
        self,
        subject: x509.Name,
        key: rsa.RSAPrivateKey,
        end: datetime,
        names: list[x509.GeneralName],
        *,
        is_authority: bool,
    ) -> bytes:
        signer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(end - 2 * LIFE)  # clocks may be set while tests run
            .not_valid_after(end)
            .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(signer, critical=False)
            .add_extension(_usage(is_authority), critical=True)  # asked for by Python 3.13
        )
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return builder.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def make_certificates() -> Certificates:
    authority = Authority()
    server, client = authority.issue("localhost"), authority.issue("client")
    return Certificates(authority.certificate, server.key + server.certificate, client.key, client.certificate)


def _usage(is_authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not is_authority,
        content_commitment=False,
        key_encipherment=not is_authority,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=is_authority,
        crl_sign=is_authority,
        encipher_only=False,
        decipher_only=False,
    )


def _new_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=KEY_BITS)
