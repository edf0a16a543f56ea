"""Measuring: truth of credit, benchmarks, audits of environments, studies, comparisons."""
