from tests.unprintable import Unprintable

raise Unprintable
