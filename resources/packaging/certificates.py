"""Where a frozen program finds the system's certificates: its OpenSSL only knows the place of the system it came from.

The places are those that Go's crypto/x509 looks in (src/crypto/x509/root_linux.go).
"""

import os
import sys

_PLACES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/pki/tls/cacert.pem",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/cert.pem",
)

if sys.platform.startswith("linux") and "SSL_CERT_FILE" not in os.environ and "SSL_CERT_DIR" not in os.environ:
    found = next((place for place in _PLACES if os.path.isfile(place)), None)
    if found is not None:
        os.environ["SSL_CERT_FILE"] = found
