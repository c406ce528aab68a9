"""An error of an application that has no text, however it is asked for one."""


class Unprintable(Exception):
    def __str__(self) -> str:
        return str(1 / 0)

    __repr__ = __str__
