"""`python -I probe.py URL`: exit 0 if the service answers 2xx within three seconds, else 1. For HEALTHCHECK.

Invariant: needs the standard library only, so that a probe costs a few hundredths of a second and never the service.
"""

import http.client
import sys
from urllib.parse import urlsplit

SECONDS = 3.0


def main(url: str) -> int:
    address = urlsplit(url)
    connection = http.client.HTTPConnection(address.hostname or "127.0.0.1", address.port or 80, timeout=SECONDS)
    try:
        connection.request("GET", address.path or "/")
        answer = connection.getresponse()
    except (OSError, http.client.HTTPException) as error:
        print(type(error).__name__)
        return 1
    finally:
        connection.close()
    print(answer.status)
    return 0 if 200 <= answer.status < 300 else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
