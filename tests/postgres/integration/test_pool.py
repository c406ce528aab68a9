"""The backend's pool: what it does when the server goes away, and when the settings change under it."""

from tests.postgres.integration.farms import Farm

SESSIONS = """
def session():
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid(), current_database()")
        return cursor.fetchone()

def fill(number):
    everyone = threading.Barrier(number)
    def work():
        session()
        everyone.wait()
        connection.close()
    threads = [threading.Thread(target=work) for _ in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
"""


class TestAPoolFullOfDeadConnections:
    def test_serves_the_next_request(self, farm: Farm) -> None:
        """Trying one dead connection after the other, with psycopg's growing pauses, would take longer than
        it waits."""
        use = farm.use(
            SESSIONS
            + """
fill(12)
say("filled")
wait()
session()
say(connection.pool.get_stats()["pool_size"])
wait()
"""
        )
        assert use.read_line() == "filled"
        farm.kill_server()
        use.go_on()
        assert int(use.read_line()) <= 13
        use.end(may_complain=True)


class TestAPool:
    def test_gives_a_connection_that_it_has_without_a_look_at_the_files_of_the_server(self, farm: Farm) -> None:
        """Each piece of output and each request takes a connection."""
        output = farm.run(
            SESSIONS
            + """
session()
connection.close()
opened = []
sys.addaudithook(lambda event, given: opened.append(given[0]) if event == "open" else None)
session()
say(opened)
"""
        )
        assert output == "[]"

    def test_of_a_server_that_cannot_be_started_says_why_without_a_wait_once_it_has_no_connection(
        self, farm: Farm
    ) -> None:
        use = farm.use(
            SESSIONS
            + """
connection.settings_dict["OPTIONS"]["pool"]["timeout"] = 1
session()
connection.close()
say("filled")
wait()
for _ in range(2):
    try:
        session()
    except Exception as error:
        why = error
say(f"{type(why).__name__} after {type(why.__context__).__name__}")
"""
        )
        assert use.read_line() == "filled"
        farm.kill_server()
        mark = farm.data / "external_database"
        mark.write_text("elsewhere")
        try:
            use.go_on()
            assert use.end(may_complain=True) == "DatabaseElsewhere after NoneType"
        finally:
            mark.unlink()

    def test_follows_the_settings_to_another_database(self, farm: Farm) -> None:
        """As Django's test runner does it: it changes NAME after connections were made."""
        output = farm.run(
            SESSIONS
            + """
say(session()[1])
connection.close()
connection.settings_dict["NAME"] = "template1"
say(session()[1])
"""
        )
        assert output.split() == ["jobfarm", "template1"]

    def test_is_made_once_by_threads_that_come_together(self, farm: Farm) -> None:
        output = farm.run(
            SESSIONS
            + """
pools = []
everyone = threading.Barrier(8)
def ask():
    everyone.wait()
    pools.append(connection.pool)
threads = [threading.Thread(target=ask) for _ in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
say(len(set(map(id, pools))))
"""
        )
        assert output == "1"
