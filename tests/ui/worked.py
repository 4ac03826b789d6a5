"""A copy of the demo's database in which people have worked: tasks that wait for each other, working memory, hostile texts."""

import shutil

from memolog import Memory
from memolog.core.run import Usage

RESOURCE, THREAD = "mira", "api"
HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)> </div>\"'&amp; \u202egnitirw"
"""A text that would be a script, break a page, or read differently from what is stored, if it were not escaped."""


async def worked(demo: str, path: str) -> str:
    """Make the copy, and return its path."""
    shutil.copy(demo, path)
    async with Memory(path) as memory:
        resource = memory.resource(RESOURCE)
        tasks = resource.tasks(who="mira", session="mira")
        server = await tasks.create("Move the counter pages to the new server", priority=1, labels=["ops", "web"])
        backup = await tasks.create("Restore a backup once, and write down how long it takes", priority=1, type="chore")
        cut = await tasks.create("Switch the name over on Sunday", blocked_by=[server.id, backup.id], priority=0)
        await tasks.create("Turn the old server off", blocked_by=[cut.id], type="chore")
        await tasks.create(HOSTILE, description=HOSTILE, labels=["x"], blocked_by=[cut.id])
        messages = (await resource.thread(THREAD).messages(after=3, limit=3)).items
        await tasks.attach(server.id, [message.id for message in messages], thread=THREAD)
        await tasks.claim(backup.id)
        async with resource.thread(THREAD).turn() as turn:
            await turn.prepare(f"What does a {HOSTILE} cost?")
            await turn.record(
                "20 cents.", usage=Usage(model="<b>model</b>", input_tokens=1_200, output_tokens=40, cost=0.0125)
            )
        document = resource.working_memory()
        await document.replace("# Library\n\n- Late fee: 50 cents a day\n- Closed on Mondays\n", who="mira")
        await document.edit_section("Library", "- Late fee: 20 cents a day\n- Closed on Mondays", who="agent")
        await document.add_line("Library", f"Said: {HOSTILE}", who="agent")
    return path
