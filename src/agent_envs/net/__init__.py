"""Talk with other machines: requests over HTTP, models behind an endpoint, servers, sessions."""
