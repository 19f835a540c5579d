# As much of unittest as microdot's tests use, for MicroPython.

import sys


class SkipTest(Exception):
    pass


def skipIf(condition, reason):
    def decorated(test):
        def skipped(self):
            raise SkipTest(reason)

        return skipped if condition else test

    return decorated


class _Raises:
    def __init__(self, exc_type):
        self._exc_type = exc_type

    def __enter__(self):
        return self

    def __exit__(self, exc_type, exc, tb):
        if exc_type is None:
            raise AssertionError("%r not raised" % self._exc_type)
        self.exception = exc
        return issubclass(exc_type, self._exc_type)


class TestCase:
    def setUp(self):
        pass

    def tearDown(self):
        pass

    def assertEqual(self, a, b):
        if a != b:
            raise AssertionError("%r is not %r" % (a, b))

    def assertIn(self, a, b):
        if a not in b:
            raise AssertionError("%r not in %r" % (a, b))

    def assertTrue(self, a):
        self.assertEqual(bool(a), True)

    def assertFalse(self, a):
        self.assertEqual(bool(a), False)

    def assertIsNone(self, a):
        self.assertEqual(a, None)

    def assertRaises(self, exc_type, fn=None, *args):
        if not fn:
            return _Raises(exc_type)
        with _Raises(exc_type):
            fn(*args)


def main(module):
    """Runs the tests of a module; prints a line for each: how it ended, and its name."""
    for name in sorted(dir(module)):
        case = getattr(module, name)
        if not isinstance(case, type) or case is TestCase or not issubclass(case, TestCase):
            continue
        if hasattr(case, "setUpClass"):
            case.setUpClass()
        for method in sorted(dir(case)):
            if not method.startswith("test"):
                continue
            test = case()
            ended = "passed"
            try:
                test.setUp()
                getattr(test, method)()
                test.tearDown()
            except SkipTest:
                ended = "skipped"
            except Exception as er:
                ended = "failed"
                sys.print_exception(er, sys.stderr)
            print(ended, name + "." + method)
        if hasattr(case, "tearDownClass"):
            case.tearDownClass()
