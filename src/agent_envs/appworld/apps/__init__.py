"""The apps of the small world, each a class whose public methods are its documented APIs."""

from agent_envs.appworld.apps.app import ApiDocs, App, Supervisor
from agent_envs.appworld.apps.belongings import Files, Music, Notes, Shopping
from agent_envs.appworld.apps.communication import Calendar, Contacts, Mail, Payments

_ORDER = (ApiDocs, Supervisor, Calendar, Contacts, Files, Mail, Music, Notes, Payments, Shopping)
APPS: dict[str, type[App]] = {app.name: app for app in _ORDER}

__all__ = ["APPS", "App"]
