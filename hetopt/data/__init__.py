"""Clusters, tenants, jobs, instances; as arrays, in files and in tables."""
