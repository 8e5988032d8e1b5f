"""Which jobs belong to which row of a tenants' table: (tenant, job type)."""

from __future__ import annotations

from hetopt.data.entities import Entities, tenant_entity_names
from hetopt.data.instance import Instance
from hetopt.data.workload import Job, Tenant
from hetopt.errors import InvalidInstance

Owner = tuple[str, str]
"""(tenant, job type): stays the same when the tenant's other job types come and go, unlike the entity's name."""


def owners(instance: Instance) -> dict[str, Owner]:
    """Entity name -> (tenant, job type), in the order of the tenants' entities."""
    pairs = [(t.name, kind.name) for t in instance.tenants for kind in t.job_types]
    return dict(zip(tenant_entity_names(instance), pairs, strict=True))


def owner_of(job: Job, tenants: dict[str, Tenant]) -> Owner:
    """The (tenant, job type) that the job belongs to.

    Raises
    ------
    InvalidInstance
        The job names no tenant, or no job type where the tenant has several.
    """
    if job.tenant is None:
        raise InvalidInstance(
            f"jobs[{job.name!r}].tenant is None; GPUs are shared among tenants, so every job must name one of them"
        )
    kinds = tenants[job.tenant].job_types
    if job.job_type is not None:
        return job.tenant, job.job_type
    if len(kinds) > 1:
        names = ", ".join(kind.name for kind in kinds)
        raise InvalidInstance(f"jobs[{job.name!r}].job_type is None; tenant {job.tenant!r} has several: {names}")
    return job.tenant, kinds[0].name


def members(instance: Instance) -> dict[Owner, list[int]]:
    """(tenant, job type) -> positions of its jobs in ``instance.jobs``.

    Raises
    ------
    InvalidInstance
        A job that belongs to none, see :func:`owner_of`.
    """
    tenants = {t.name: t for t in instance.tenants}
    result: dict[Owner, list[int]] = {owner: [] for owner in owners(instance).values()}
    for i, job in enumerate(instance.jobs):
        result[owner_of(job, tenants)].append(i)
    return result


def keys(entities: Entities, instance: Instance) -> list[tuple[str, ...]]:
    """What memory between rounds is keyed by: ``(tenant, job type)`` or ``(job,)`` of each entity."""
    if entities.kind == "jobs":
        return [(name,) for name in entities.names]
    known = owners(instance)
    return [known[name] for name in entities.names]
