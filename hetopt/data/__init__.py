"""What there is: cluster, tenants, jobs, the instance, and their view as arrays."""
