"""IP addresses of callers.

>>> network_of("203.0.113.9"), network_of("::ffff:203.0.113.9"), network_of("2001:db8::1:2")
('203.0.113.9', '203.0.113.9', '2001:db8::/64')
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network


def address_in(text: str) -> IPv4Address | IPv6Address | None:
    """Parse an address, or return None; an IPv4-mapped IPv6 address becomes IPv4."""
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    return (isinstance(address, IPv6Address) and address.ipv4_mapped) or address


def network_of(text: str) -> str:
    """Return an IPv4 address, or the /64 network of an IPv6 address: one host owns a whole /64."""
    address = address_in(text)
    if isinstance(address, IPv6Address):
        return str(ip_network((int(address), 64), strict=False))
    return text if address is None else str(address)
