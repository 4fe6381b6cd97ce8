"""Measurements, and the plain formulation they are measured against."""
