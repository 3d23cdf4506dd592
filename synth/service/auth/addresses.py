"""Addresses that requests come from.

>>> network_of("203.0.113.9"), network_of("::ffff:203.0.113.9"), network_of("2001:db8::1:2")
('203.0.113.9', '203.0.113.9', '2001:db8::/64')
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network


def address_in(text: str) -> IPv4Address | IPv6Address | None:
    """The address in a text; one of IPv4 that is written as one of IPv6 is one of IPv4."""
    try:
        found = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    return (isinstance(found, IPv6Address) and found.ipv4_mapped) or found


def network_of(text: str) -> str:
    """An address, or the network of one of IPv6, of which whoever has one has 2^64."""
    found = address_in(text)
    if isinstance(found, IPv6Address):
        return str(ip_network((int(found), 64), strict=False))
    return text if found is None else str(found)
